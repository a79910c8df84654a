//! Memory for what services say: a part of the process's for each client, so that a hostile service costs its own Account alone.
//!
//! There are two stores. *Calls under way*: each holds, from before it is sent until it is read, what its answer may take at
//! most; who finds no room waits, and keeps nobody else waiting. *Rows kept*: what listings hold until they are
//! dropped; a listing that finds no room fails.
//!
//! Both are shared by one rule: a client may have as much as is still free. One alone gets half; fifty that want all there is
//! get a fifty-first each, and as much is left for whoever comes. A client whose latest call was not answered well finds a third
//! of the room for calls taken already, so that silent services, however many, leave that third to the others.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

const MEBIBYTE: usize = 1 << 20;

/// Room for a hundred calls under way, or fifty listings, each as large as it may be. With what 5,000 Instances take, and
/// [`KEPT`], it stays within the 128 MiB of `deploy/`.
const CALLS: usize = 48 * MEBIBYTE;
/// Some 80,000 rows of 400 bytes.
const KEPT: usize = 32 * MEBIBYTE;
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
}

/// Something that is taken and given back without waiting.
struct Store {
    size: usize,
    used: AtomicUsize,
}

struct Calls {
    size: usize,
    used: usize,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    share: Arc<Part>,
    bytes: usize,
    granted: oneshot::Sender<Room>,
}

/// The part of one client. Cheap to clone; all clones are one part.
#[derive(Clone)]
pub(super) struct Share {
    part: Arc<Part>,
}

struct Part {
    budget: Budget,
    calls: AtomicUsize,
    kept: AtomicUsize,
    answered_well: AtomicBool,
}

/// Room for one call. Dropping it gives the room back.
#[must_use = "the room is given back when this is dropped"]
pub(super) struct Room {
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
            waiting: VecDeque::new(),
        };
        let kept = Store {
            size: kept,
            used: AtomicUsize::new(0),
        };
        let inner = Inner {
            calls: Mutex::new(calls),
            kept,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The budget of a command, which reads one account's listings whole and ends.
    pub fn of_a_command() -> Self {
        Self::new(CALLS, KEPT_OF_A_COMMAND)
    }

    /// A new client's part.
    pub(super) fn share(&self) -> Share {
        let part = Part {
            budget: self.clone(),
            calls: AtomicUsize::new(0),
            kept: AtomicUsize::new(0),
            answered_well: AtomicBool::new(false),
        };
        Share {
            part: Arc::new(part),
        }
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        let calls = self.inner.calls.lock();
        calls.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Waits for room for a call whose answer may take so many bytes. Dropping the future gives the place in the line up.
    pub(super) async fn room(&self, bytes: usize) -> Room {
        let granted = {
            let mut calls = self.part.budget.calls();
            // More than there is at all would wait for ever.
            let bytes = bytes.min(calls.reserve());
            if calls.fits(&self.part, bytes) {
                return calls.grant(&self.part, bytes);
            }
            let (granted, wait) = oneshot::channel();
            calls.waiting.push_back(Waiting {
                share: self.part.clone(),
                bytes,
                granted,
            });
            wait
        };
        match granted.await {
            Ok(room) => room,
            // The budget, which holds the other end, lives as long as this.
            Err(_) => std::future::pending().await,
        }
    }

    /// What is kept of this client's listings, in bytes.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.part.kept.load(Ordering::Relaxed)
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
        // Both are taken first, so that two at a time never take the same room.
        let mine = part.kept.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let all = store.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let charge = Charge {
            share: part.clone(),
            bytes,
        };
        let others = all.saturating_sub(bytes);
        (mine <= store.size.saturating_sub(others))
            .then_some(charge)
            .ok_or(NoMemory)
    }
}

impl Calls {
    /// What is left to those whose services answer.
    fn reserve(&self) -> usize {
        self.size / 3
    }

    fn fits(&self, share: &Part, bytes: usize) -> bool {
        let reserve = if share.answered_well.load(Ordering::Relaxed) {
            0
        } else {
            self.reserve()
        };
        let free = self.size.saturating_sub(self.used + reserve);
        share.calls.load(Ordering::Relaxed) + bytes <= free
    }

    fn grant(&mut self, share: &Arc<Part>, bytes: usize) -> Room {
        self.used += bytes;
        share.calls.fetch_add(bytes, Ordering::Relaxed);
        Room {
            share: share.clone(),
            bytes,
        }
    }

    /// Everyone who waits and finds room now, the longest waiting first. Gives what came too late for its waiter.
    fn grant_all(&mut self) -> Vec<Room> {
        let mut late = Vec::new();
        for waiting in mem::take(&mut self.waiting) {
            if waiting.granted.is_closed() {
                continue;
            }
            if !self.fits(&waiting.share, waiting.bytes) {
                self.waiting.push_back(waiting);
                continue;
            }
            let room = self.grant(&waiting.share, waiting.bytes);
            late.extend(waiting.granted.send(room).err());
        }
        late
    }
}

fn wake(budget: &Budget) {
    // Dropped once the lock is free: it wants the lock itself.
    let late = budget.calls().grant_all();
    drop(late);
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut calls = self.share.budget.calls();
        calls.used -= self.bytes;
        self.share.calls.fetch_sub(self.bytes, Ordering::Relaxed);
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
        self.share.kept.fetch_sub(self.bytes, Ordering::Relaxed);
        let store = &self.share.budget.inner.kept;
        store.used.fetch_sub(self.bytes, Ordering::Relaxed);
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
