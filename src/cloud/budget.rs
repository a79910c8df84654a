//! Memory for the answers of services. It is divided among namespaces, and within a namespace among clients, so that a hostile
//! service does not use it up for other Accounts.
//!
//! There are two stores. *Calls under way*: each call reserves, from before it is sent until its answer is read, the maximum
//! that its answer may take. If too little memory is free, the call waits. *Rows kept*: the rows that listings and lists of offers
//! hold until they are dropped. If too little memory is free, the reading of the list fails.
//!
//! One rule governs both: the bytes held by the client, plus the bytes held by its namespace, plus the requested bytes must fit
//! into the free bytes. If fifty namespaces with one client each request all they can get, piece by piece, each gets a
//! fifty-second, and two fifty-seconds stay free.
//!
//! In addition, a call must leave a part of its store free: three sixths if its client has a call under way; otherwise two, or one
//! if the client's latest call was answered; none if its namespace has no call under way. So the services of one namespace, in any
//! number, do not delay the first call of another namespace, even if they occupy as much memory as they can; services of some fifty
//! namespaces together can delay it. Within their own namespace, a few of them do not delay the first call of another client, and
//! services that never answered, in any number, do not delay a client whose latest call was answered.

use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

const MEBIBYTE: usize = 1 << 20;

/// Memory for a hundred short calls under way, or for fifty calls for a page, each with the largest answer. Together with the
/// memory of 3,000 Instances and [`KEPT_MAX`], it stays within the 128 MiB of `deploy/`.
const CALLS_MAX: usize = 48 * MEBIBYTE;
/// Some 80,000 rows of 400 bytes. A single Account gets at most a third of them, a single namespace at most half.
const KEPT_MAX: usize = 32 * MEBIBYTE;
/// The available memory has this many parts: `PARTS_KEPT` of them are for rows, and the rest is for calls.
const PARTS: usize = 5;
const PARTS_KEPT: usize = 2;
/// Each store has at least this size, however little memory is left: enough for calls of several Accounts at a time, and for
/// ten thousand rows, of which a single Account gets at most a third.
const STORE_MIN: usize = 4 * MEBIBYTE;
/// [`KEPT_MAX`] of a command, which reads the listings of one account with whole rows for one user, and then ends.
const KEPT_OF_A_COMMAND: usize = 1024 * MEBIBYTE;

/// The indices of the two stores: calls under way, and rows kept.
const CALLS: usize = 0;
const KEPT: usize = 1;

/// The memory of a process for the answers of services. Cheap to clone; all clones share one budget.
#[derive(Clone)]
pub struct Budget(Arc<Inner>);

struct Inner {
    stores: Mutex<[ByteStore; 2]>,
    namespaces: Mutex<HashMap<Box<str>, Weak<HeldBytes>>>,
    /// Notified when there may be memory for a waiting call.
    more_room: Notify,
}

struct ByteStore {
    size: usize,
    used: usize,
}

/// The bytes that a client or a namespace holds in each store. Changed only while the stores are locked.
type HeldBytes = [AtomicUsize; 2];

/// The share of one client. Cheap to clone; all clones are the same share.
#[derive(Clone)]
pub(super) struct Share(Arc<ShareHolder>);

struct ShareHolder {
    budget: Budget,
    namespace: Arc<HeldBytes>,
    own: HeldBytes,
    was_answered: AtomicBool,
}

/// Bytes of a store. Dropping it returns them.
#[must_use = "the bytes are returned when this is dropped"]
pub struct Taken<const STORE: usize> {
    client: Arc<ShareHolder>,
    bytes: usize,
}

/// Memory for one call.
pub(super) type Reservation = Taken<CALLS>;
/// The memory of rows in a client's share.
pub type RowMemory = Taken<KEPT>;

/// The rows that are kept leave no memory for further rows of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rows that listings keep leave no memory for more rows of this Account")]
pub struct NoMemory;

impl Default for Budget {
    /// The budget of the operator.
    fn default() -> Self {
        Self::new(CALLS_MAX, KEPT_MAX)
    }
}

impl Budget {
    fn new(calls: usize, kept: usize) -> Self {
        Self(Arc::new(Inner {
            stores: Mutex::new([calls, kept].map(|size| ByteStore { size, used: 0 })),
            namespaces: Mutex::default(),
            more_room: Notify::new(),
        }))
    }

    /// The budget of a command, which reads one account's listings and then ends.
    pub fn of_a_command() -> Self {
        Self::new(CALLS_MAX, KEPT_OF_A_COMMAND)
    }

    /// Divides `left`, the bytes that the process may still use, between the two stores. Calls for which a store has become too
    /// small wait, and listings fail; rows that are kept stay, and `left` does not include them. Each store keeps a minimum, so
    /// that some work always proceeds, and never exceeds the built-in maximum.
    pub fn fit(&self, left: usize) {
        let mut stores = self.stores();
        let [calls, kept] = &mut *stores;
        // The memory reserved for calls under way may not be resident yet.
        let more = left.saturating_sub(calls.used) / PARTS * PARTS_KEPT;
        let size = kept.used.saturating_add(more);
        kept.size = size.clamp(STORE_MIN, KEPT_MAX);
        calls.size = left.saturating_sub(more).clamp(STORE_MIN, CALLS_MAX);
        self.0.more_room.notify_waiters();
    }

    /// The current size of the store for calls under way, free or not.
    pub fn size_for_calls(&self) -> usize {
        self.stores()[CALLS].size
    }

    /// The share of a new client that is used from this namespace.
    pub(super) fn share(&self, namespace: &str) -> Share {
        Share(Arc::new(ShareHolder {
            budget: self.clone(),
            namespace: self.namespace(namespace),
            own: HeldBytes::default(),
            was_answered: AtomicBool::new(false),
        }))
    }

    fn namespace(&self, name: &str) -> Arc<HeldBytes> {
        let namespaces = self.0.namespaces.lock();
        let mut namespaces = namespaces.unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = namespaces.get(name).and_then(Weak::upgrade) {
            return known;
        }
        namespaces.retain(|_, held| held.strong_count() > 0);
        let held = Arc::default();
        namespaces.insert(name.into(), Arc::downgrade(&held));
        held
    }

    fn stores(&self) -> MutexGuard<'_, [ByteStore; 2]> {
        let stores = self.0.stores.lock();
        stores.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Another share of the same budget, for this namespace.
    pub(super) fn for_namespace(&self, namespace: &str) -> Self {
        self.0.budget.share(namespace)
    }

    /// Waits until there is memory for a call whose answer may take this many bytes, and reserves it.
    pub(super) async fn reserve(&self, bytes: usize) -> Reservation {
        loop {
            // Created first, so that no notification is missed.
            let more_room = self.0.budget.0.more_room.notified();
            if let Some(taken) = self.take(bytes) {
                return taken;
            }
            more_room.await;
        }
    }

    /// Takes memory for rows to be kept.
    ///
    /// # Errors
    /// Too little memory is free.
    pub(super) fn charge(&self, bytes: usize) -> Result<RowMemory, NoMemory> {
        self.take(bytes).ok_or(NoMemory)
    }

    /// The bytes of this client's rows.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.0.own[KEPT].load(Ordering::Relaxed)
    }

    /// Records whether the latest call ended with a readable answer.
    pub(super) fn ended(&self, was_answered: bool) {
        self.0.was_answered.store(was_answered, Ordering::Relaxed);
        self.0.budget.0.more_room.notify_waiters();
    }

    fn take<const STORE: usize>(&self, bytes: usize) -> Option<Taken<STORE>> {
        let client = &self.0;
        let mut stores = client.budget.stores();
        let store = &mut stores[STORE];
        let (own, namespace) = (&client.own[STORE], &client.namespace[STORE]);
        let (held, held_by_namespace) = (
            own.load(Ordering::Relaxed),
            namespace.load(Ordering::Relaxed),
        );
        let is_answered = client.was_answered.load(Ordering::Relaxed);
        let sixths = match (held_by_namespace, held) {
            _ if STORE == KEPT => 0,
            (0, _) => 0,
            (_, 0) if is_answered => 1,
            (_, 0) => 2,
            (_, _) => 3,
        };
        // A call that needs more than the whole store would wait forever.
        let bytes = match STORE {
            CALLS => bytes.min(store.size),
            _ => bytes,
        };
        let needed = sixths * (store.size / 6) + held_by_namespace + held + bytes;
        if store.used + needed > store.size {
            return None;
        }
        store.used += bytes;
        own.fetch_add(bytes, Ordering::Relaxed);
        namespace.fetch_add(bytes, Ordering::Relaxed);
        Some(Taken {
            client: client.clone(),
            bytes,
        })
    }
}

impl RowMemory {
    /// Merges two charges of the same client.
    pub(super) fn join(&mut self, mut other: Self) {
        if Arc::ptr_eq(&self.client, &other.client) {
            self.bytes += mem::take(&mut other.bytes);
        }
    }
}

impl<const STORE: usize> Drop for Taken<STORE> {
    fn drop(&mut self) {
        let client = &self.client;
        let mut stores = client.budget.stores();
        stores[STORE].used -= self.bytes;
        client.own[STORE].fetch_sub(self.bytes, Ordering::Relaxed);
        client.namespace[STORE].fetch_sub(self.bytes, Ordering::Relaxed);
        drop(stores);
        if STORE == CALLS {
            client.budget.0.more_room.notify_waiters();
        }
    }
}

impl<const STORE: usize> fmt::Debug for Taken<STORE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes)
    }
}

#[cfg(test)]
mod tests;
