//! The memories of all Instances.

use super::Memory;
use crate::runtime::watch::ObjectKey;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// How often, and when last, the cluster's state was found to have gone back in time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Doubts {
    pub(super) epoch: u64,
    pub(super) since: Option<Instant>,
}

/// The memories of all Instances, by UID; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Memories {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    by_uid: HashMap<String, Remembered>,
    doubts: Doubts,
}

#[derive(Clone, Debug)]
struct Remembered {
    key: ObjectKey,
    memory: Arc<Mutex<Memory>>,
}

impl Memories {
    /// An object was seen by the watch; `born_here` counts only at the first sight.
    pub fn saw(&self, uid: &str, key: &ObjectKey, born_here: bool) {
        let mut inner = self.lock();
        if inner.by_uid.contains_key(uid) {
            return;
        }
        let mut memory = Memory::new(born_here, Instant::now());
        memory.epoch = inner.doubts.epoch;
        let memory = Arc::new(Mutex::new(memory));
        inner.by_uid.insert(
            uid.to_owned(),
            Remembered {
                key: key.clone(),
                memory,
            },
        );
    }

    /// What is remembered of an object; none when it is gone.
    pub fn get(&self, uid: &str) -> Option<Arc<Mutex<Memory>>> {
        self.lock()
            .by_uid
            .get(uid)
            .map(|remembered| remembered.memory.clone())
    }

    /// The state went back in time (etcd was restored): no object is known to be new any more. Each memory takes it in
    /// at its next turn, and a turn that is under way finds out before it buys.
    pub fn doubt_all(&self) {
        let mut inner = self.lock();
        inner.doubts = Doubts {
            epoch: inner.doubts.epoch + 1,
            since: Some(Instant::now()),
        };
    }

    /// The doubts so far.
    pub fn doubts(&self) -> Doubts {
        self.lock().doubts
    }

    /// An object is gone for good.
    pub fn forget(&self, uid: &str) {
        self.lock().by_uid.remove(uid);
    }

    /// Which object has this UID.
    pub fn key_of(&self, uid: &str) -> Option<ObjectKey> {
        self.lock()
            .by_uid
            .get(uid)
            .map(|remembered| remembered.key.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
