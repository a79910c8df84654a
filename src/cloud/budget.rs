//! Memory for the answers of services. It is divided among namespaces, and within a namespace among clients, so that a hostile
//! service affects only its own Account.
//!
//! There are two stores. *Calls under way*: each call reserves, from before it is sent until its answer is read, the maximum
//! that its answer may take. If there is no room, the call waits. *Rows kept*: the rows that listings hold until they are
//! dropped. If there is no room, the listing fails.
//!
//! One rule governs both: the bytes held by the client, plus the bytes held by its namespace, plus the requested bytes must fit
//! into the free bytes. If fifty namespaces request all they can get, each gets a fifty-second, and as much is left for the
//! next.
//!
//! For calls, up to three sixths of the store are reserved in addition. A client with a call under way must leave all three
//! free. A client without one must leave two free, or one if its latest call was answered. A client in a namespace without
//! calls under way must leave none free. So services that occupy as much memory as they can, in any number, delay neither
//! another namespace nor the first call of another client in their own namespace; and silent services do not delay a client
//! whose service answers. The waiting call that needs the least by this rule is next.

use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::oneshot;

const MEBIBYTE: usize = 1 << 20;

/// Room for a hundred calls under way, or fifty listings, each of maximum size. Together with the memory of 3,000 Instances and
/// [`KEPT`], it stays within the 128 MiB of `deploy/`.
const CALLS: usize = 48 * MEBIBYTE;
/// Some 80,000 rows of 400 bytes. A single Account gets at most a third of them, a single namespace at most half.
const KEPT: usize = 32 * MEBIBYTE;
/// The available memory is divided between the two stores in this proportion.
const PARTS: usize = 5;
const PARTS_KEPT: usize = 2;
/// Each store has at least this size, however little memory is left: enough for calls of several Accounts at a time, and for
/// ten thousand rows, of which a single Account gets at most a third.
const LEAST: usize = 4 * MEBIBYTE;
/// A command reads the listings of one account with whole rows for one user, and then ends.
const KEPT_OF_A_COMMAND: usize = 1024 * MEBIBYTE;

/// The memory of a process for the answers of services. Cheap to clone; all clones share one budget.
#[derive(Clone)]
pub struct Budget {
    inner: Arc<Inner>,
}

struct Inner {
    calls: Mutex<Calls>,
    kept: Store,
    namespaces: Mutex<HashMap<Box<str>, Weak<Held>>>,
}

/// A store from which room is taken and returned without waiting.
struct Store {
    size: AtomicUsize,
    used: AtomicUsize,
}

struct Calls {
    size: usize,
    used: usize,
    /// In the order of arrival.
    waiting: Vec<Waiting>,
}

/// The bytes that a client or a namespace holds of both stores.
#[derive(Default)]
struct Held {
    calls: AtomicUsize,
    kept: AtomicUsize,
}

struct Waiting {
    share: Arc<Part>,
    bytes: usize,
    granted: oneshot::Sender<Reservation>,
}

/// The share of one client. Cheap to clone; all clones are the same share.
#[derive(Clone)]
pub(super) struct Share {
    part: Arc<Part>,
}

struct Part {
    budget: Budget,
    namespace: Arc<Held>,
    own: Held,
    answered_well: AtomicBool,
}

/// Room for one call. Dropping it returns the room.
#[must_use = "the room is given back when this is dropped"]
pub(super) struct Reservation {
    share: Arc<Part>,
    bytes: usize,
}

/// The room of rows in a client's share, until this is dropped.
pub struct Charge {
    share: Arc<Part>,
    bytes: usize,
}

/// The rows of other listings leave no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rows that listings keep already leave no room for more of this Account")]
pub struct NoMemory;

impl Default for Budget {
    /// The budget of the operator.
    fn default() -> Self {
        Self::new(CALLS, KEPT)
    }
}

impl Budget {
    fn new(calls: usize, kept: usize) -> Self {
        let calls = Calls {
            size: calls,
            used: 0,
            waiting: Vec::new(),
        };
        let kept = Store {
            size: AtomicUsize::new(kept),
            used: AtomicUsize::new(0),
        };
        let inner = Inner {
            calls: Mutex::new(calls),
            kept,
            namespaces: Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The budget of a command, which reads one account's listings and then ends.
    pub fn of_a_command() -> Self {
        Self::new(CALLS, KEPT_OF_A_COMMAND)
    }

    /// Limits both stores to `left`, the bytes that the process may still use. Calls without room then wait, and listings
    /// without room fail; rows that are kept stay. Each store keeps a minimum, so that some work always proceeds, and never
    /// exceeds its built-in size.
    pub fn fit(&self, left: usize) {
        let kept = &self.inner.kept;
        let mut calls = self.calls();
        // The memory reserved for calls under way may not be resident yet.
        let more = left.saturating_sub(calls.used) / PARTS * PARTS_KEPT;
        let size = kept.used.load(Ordering::Relaxed).saturating_add(more);
        kept.size.store(size.clamp(LEAST, KEPT), Ordering::Relaxed);
        calls.size = left.saturating_sub(more).clamp(LEAST, CALLS);
        drop(calls);
        wake(self);
    }

    /// The bytes that calls under way may currently reserve.
    pub fn room(&self) -> usize {
        self.calls().size
    }

    /// The share of a new client that is used from this namespace.
    pub(super) fn share(&self, namespace: &str) -> Share {
        let part = Part {
            budget: self.clone(),
            namespace: self.namespace(namespace),
            own: Held::default(),
            answered_well: AtomicBool::new(false),
        };
        Share {
            part: Arc::new(part),
        }
    }

    fn namespace(&self, name: &str) -> Arc<Held> {
        let namespaces = self.inner.namespaces.lock();
        let mut namespaces = namespaces.unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = namespaces.get(name).and_then(Weak::upgrade) {
            return known;
        }
        namespaces.retain(|_, held| held.strong_count() > 0);
        let held = Arc::default();
        namespaces.insert(name.into(), Arc::downgrade(&held));
        held
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        let calls = self.inner.calls.lock();
        calls.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Another share of the same budget, for this namespace.
    pub(super) fn of(&self, namespace: &str) -> Self {
        self.part.budget.share(namespace)
    }

    /// Waits for room for a call whose answer may take this many bytes. Dropping the future gives up the place in the queue.
    pub(super) async fn room(&self, bytes: usize) -> Reservation {
        let (granted, wait) = oneshot::channel();
        let late = {
            let mut calls = self.part.budget.calls();
            calls.waiting.push(Waiting {
                share: self.part.clone(),
                bytes,
                granted,
            });
            calls.grant_all()
        };
        drop(late);
        match wait.await {
            Ok(room) => room,
            // Cannot happen: this share holds the budget, which holds the sender.
            Err(_) => std::future::pending().await,
        }
    }

    /// The bytes that are kept of this client's listings.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.part.own.kept.load(Ordering::Relaxed)
    }

    /// Records whether the latest call ended with a readable answer.
    pub(super) fn ended(&self, well: bool) {
        let before = self.part.answered_well.swap(well, Ordering::Relaxed);
        if well && !before {
            wake(&self.part.budget);
        }
    }

    /// Takes room for rows to be kept.
    ///
    /// # Errors
    /// There is no room.
    pub(super) fn charge(&self, bytes: usize) -> Result<Charge, NoMemory> {
        let (part, store) = (&self.part, &self.part.budget.inner.kept);
        // Add first and check afterwards, so that two concurrent requests never take the same room.
        let mine = part.own.kept.fetch_add(bytes, Ordering::Relaxed);
        let of_all_mine = part.namespace.kept.fetch_add(bytes, Ordering::Relaxed);
        let of_all = store.used.fetch_add(bytes, Ordering::Relaxed);
        let charge = Charge {
            share: part.clone(),
            bytes,
        };
        let size = store.size.load(Ordering::Relaxed);
        (mine + of_all_mine + bytes <= size.saturating_sub(of_all))
            .then_some(charge)
            .ok_or(NoMemory)
    }
}

impl Calls {
    /// The bytes that must be free before a call is made.
    fn needs(&self, waiting: &Waiting) -> usize {
        let share = &waiting.share;
        let of_namespace = share.namespace.calls.load(Ordering::Relaxed);
        let own = share.own.calls.load(Ordering::Relaxed);
        let set_aside = match (of_namespace, own) {
            (0, _) => 0,
            (_, 0) if share.answered_well.load(Ordering::Relaxed) => 1,
            (_, 0) => 2,
            (_, _) => 3,
        };
        // A request larger than the whole store would wait forever.
        let bytes = waiting.bytes.min(self.size);
        set_aside * (self.size / 6) + of_namespace + own + bytes
    }

    fn grant(&mut self, share: Arc<Part>, bytes: usize) -> Reservation {
        self.used += bytes;
        share.own.calls.fetch_add(bytes, Ordering::Relaxed);
        share.namespace.calls.fetch_add(bytes, Ordering::Relaxed);
        Reservation { share, bytes }
    }

    /// Grants room to every waiting call that fits: first the call that needs the least, and among equals the one that has
    /// waited longest. Returns the rooms whose waiters have gone away.
    fn grant_all(&mut self) -> Vec<Reservation> {
        let mut late = Vec::new();
        self.waiting.retain(|waiting| !waiting.granted.is_closed());
        loop {
            let all = self.waiting.iter().map(|waiting| self.needs(waiting));
            let least = all.enumerate().min_by_key(|(_, needs)| *needs);
            let Some((next, _)) = least.filter(|(_, needs)| self.used + needs <= self.size) else {
                return late;
            };
            let waiting = self.waiting.remove(next);
            let room = self.grant(waiting.share, waiting.bytes.min(self.size));
            late.extend(waiting.granted.send(room).err());
        }
    }
}

fn wake(budget: &Budget) {
    // Dropped after the lock is released, since the drop takes the lock itself.
    let late = budget.calls().grant_all();
    drop(late);
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut calls = self.share.budget.calls();
        calls.used -= self.bytes;
        let (own, namespace) = (&self.share.own, &self.share.namespace);
        own.calls.fetch_sub(self.bytes, Ordering::Relaxed);
        namespace.calls.fetch_sub(self.bytes, Ordering::Relaxed);
        let is_waited_for = !calls.waiting.is_empty();
        drop(calls);
        if is_waited_for {
            wake(&self.share.budget);
        }
    }
}

impl Charge {
    /// Merges two charges of the same client.
    pub(super) fn join(&mut self, mut other: Self) {
        if Arc::ptr_eq(&self.share, &other.share) {
            self.bytes += mem::take(&mut other.bytes);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let Part {
            budget,
            namespace,
            own,
            ..
        } = &*self.share;
        for used in [&own.kept, &namespace.kept, &budget.inner.kept.used] {
            used.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reservation({})", self.bytes)
    }
}

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Charge({})", self.bytes)
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Budget")
    }
}

#[cfg(test)]
mod tests;
