//! Memory for what services say: a part of the process's for each namespace, and in it for each client, so that a hostile service
//! costs its own Account alone.
//!
//! There are two stores. *Calls under way*: each holds, from before it is sent until it is read, what its answer may take at
//! most; who finds no room waits. *Rows kept*: what listings hold until they are dropped; a listing that finds no room fails.
//!
//! Both are shared by one rule: what a client has, what its namespace has, and what is asked for must fit into what is still
//! free. Fifty namespaces that want all there is get a fifty-second each, and as much is left for whoever comes. Of the room for
//! calls three sixths are set aside besides, one after another: a client that has a call under way leaves them all, one that has
//! none leaves two, or one if its latest call was answered, and a namespace that has none leaves nothing. So services that hold
//! what they can, however many, keep neither another namespace waiting nor the first call of a client of their own, and silent
//! ones none whose service answers. Of those who wait, whoever asks for the least in that sense is next.

use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::oneshot;

const MEBIBYTE: usize = 1 << 20;

/// Room for a hundred calls under way, or fifty listings, each as large as it may be. With what 3,000 Instances take, and
/// [`KEPT`], it stays within the 128 MiB of `deploy/`.
const CALLS: usize = 48 * MEBIBYTE;
/// Some 80,000 rows of 400 bytes; a third of them for one Account that is alone, half for one namespace.
const KEPT: usize = 32 * MEBIBYTE;
/// What is left is divided as they are.
const PARTS: usize = 5;
const PARTS_KEPT: usize = 2;
/// So much is for each however little is left: calls of several Accounts at a time, and ten thousand rows, a third of them for one
/// Account that is alone.
const LEAST: usize = 4 * MEBIBYTE;
/// A command lists one account for one reader, whole rows at that, and ends.
const KEPT_OF_A_COMMAND: usize = 1024 * MEBIBYTE;

/// The memory of a process for what services say. Cheap to clone; all clones are one budget.
#[derive(Clone)]
pub struct Budget {
    inner: Arc<Inner>,
}

struct Inner {
    calls: Mutex<Calls>,
    kept: Store,
    namespaces: Mutex<HashMap<Box<str>, Weak<Held>>>,
}

/// Something that is taken and given back without waiting.
struct Store {
    size: AtomicUsize,
    used: AtomicUsize,
}

struct Calls {
    size: usize,
    used: usize,
    /// In the order in which they came.
    waiting: Vec<Waiting>,
}

/// What somebody has of both stores.
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

/// The part of one client. Cheap to clone; all clones are one part.
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

/// Room for one call. Dropping it gives the room back.
#[must_use = "the room is given back when this is dropped"]
pub(super) struct Reservation {
    share: Arc<Part>,
    bytes: usize,
}

/// What one row takes of a client's share, until it is dropped.
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

    /// The budget of a command, which reads one account's listings whole and ends.
    pub fn of_a_command() -> Self {
        Self::new(CALLS, KEPT_OF_A_COMMAND)
    }

    /// Takes no more than fits: `left` bytes are what the process may still have. What does not fit waits, or fails and leaves
    /// what is kept as it is; a little of either goes on in any case. More than is built in is never taken.
    pub fn fit(&self, left: usize) {
        let kept = &self.inner.kept;
        let mut calls = self.calls();
        // What is promised to calls under way may not be resident yet.
        let more = left.saturating_sub(calls.used) / PARTS * PARTS_KEPT;
        let size = kept.used.load(Ordering::Relaxed).saturating_add(more);
        kept.size.store(size.clamp(LEAST, KEPT), Ordering::Relaxed);
        calls.size = left.saturating_sub(more).clamp(LEAST, CALLS);
        drop(calls);
        wake(self);
    }

    /// What calls under way may take now, in bytes.
    pub fn room(&self) -> usize {
        self.calls().size
    }

    /// The part of a new client that is used from this namespace.
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
    /// Another one of the same budget, for this namespace.
    pub(super) fn of(&self, namespace: &str) -> Self {
        self.part.budget.share(namespace)
    }

    /// Waits for room for a call whose answer may take so many bytes. Dropping the future gives the place in the line up.
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
            // The budget, which holds the other end, lives as long as this.
            Err(_) => std::future::pending().await,
        }
    }

    /// What is kept of this client's listings, in bytes.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.part.own.kept.load(Ordering::Relaxed)
    }

    /// Remembers how the latest call ended: with an answer that could be read, or without.
    pub(super) fn ended(&self, well: bool) {
        let before = self.part.answered_well.swap(well, Ordering::Relaxed);
        if well && !before {
            wake(&self.part.budget);
        }
    }

    /// Room for something that is kept.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn charge(&self, bytes: usize) -> Result<Charge, NoMemory> {
        let (part, store) = (&self.part, &self.part.budget.inner.kept);
        // All are taken first, so that two at a time never take the same room.
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
    /// What must be free for a call to be made.
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
        // More than there is at all would wait for ever.
        let bytes = waiting.bytes.min(self.size);
        set_aside * (self.size / 6) + of_namespace + own + bytes
    }

    fn grant(&mut self, share: Arc<Part>, bytes: usize) -> Reservation {
        self.used += bytes;
        share.own.calls.fetch_add(bytes, Ordering::Relaxed);
        share.namespace.calls.fetch_add(bytes, Ordering::Relaxed);
        Reservation { share, bytes }
    }

    /// Everyone who finds room now, whoever needs the least first, and of these the longest waiting. Gives what came too
    /// late for its waiter.
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
    // Dropped once the lock is free: it wants the lock itself.
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
    /// Both in one, as long as they are of one client.
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
