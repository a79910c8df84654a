//! The memories of all Instances.

use crate::instance::memory::{Memory, lock};
use crate::runtime::watch::ObjectKey;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// The memories of all Instances, by UID; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Memories {
    by_uid: Arc<Mutex<HashMap<Arc<str>, Remembered>>>,
    /// How often the cluster's state was found to have gone back in time.
    epoch: Arc<AtomicU64>,
}

#[derive(Clone, Debug)]
struct Remembered {
    key: ObjectKey,
    memory: Arc<Mutex<Memory>>,
}

impl Memories {
    /// A watch shows an object; `created_in_this_term` counts only the first time. Returns the object's memory.
    pub fn met(
        &self,
        uid: impl Into<Arc<str>>,
        key: &ObjectKey,
        created_in_this_term: bool,
    ) -> Arc<Mutex<Memory>> {
        let made = || Remembered {
            key: key.clone(),
            memory: Memory::new(created_in_this_term, Instant::now()),
        };
        let mut by_uid = self.lock();
        by_uid.entry(uid.into()).or_insert_with(made).memory.clone()
    }

    /// This process becomes the leader. Objects that it saw while on standby do not count as created in its term, and its waits
    /// begin now, since another process may have acted until a moment ago.
    pub fn begin_term(&self) {
        for remembered in self.lock().values_mut() {
            remembered.memory = Memory::new(false, Instant::now());
        }
    }

    /// The memory of an object; None if it is gone.
    pub fn get(&self, uid: &str) -> Option<Arc<Mutex<Memory>>> {
        Some(self.lock().get(uid)?.memory.clone())
    }

    /// The state of the cluster went back in time (etcd was restored), so no object counts as new any more. A reconcile in progress
    /// notices that by the epoch: it begins no mutating call, and its observation is not stored.
    pub fn doubt_all(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        // Not under the lock of the map, which a reconcile may take while it holds its memory.
        let all: Vec<_> = self.lock().values().map(|it| it.memory.clone()).collect();
        for memory in all {
            lock(&memory).doubt(Instant::now());
        }
    }

    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// An object is gone for good. Returns its memory.
    pub fn forget(&self, uid: &str) -> Option<Arc<Mutex<Memory>>> {
        Some(self.lock().remove(uid)?.memory)
    }

    pub fn key_of(&self, uid: &str) -> Option<ObjectKey> {
        Some(self.lock().get(uid)?.key.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Remembered>> {
        self.by_uid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
