//! The memories of all Instances.

use crate::instance::memory::Memory;
use crate::runtime::watch::ObjectKey;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// The memories of all Instances, by UID; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Memories {
    inner: Arc<Mutex<Inner>>,
    /// How often the cluster's state was found to have gone back in time.
    epoch: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Inner {
    by_uid: HashMap<Arc<str>, Remembered>,
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
        let mut inner = self.lock();
        let epoch = self.epoch();
        let made = || {
            let mut memory = Memory::new(created_in_this_term, Instant::now());
            memory.epoch = epoch;
            Remembered {
                key: key.clone(),
                memory: Arc::new(Mutex::new(memory)),
            }
        };
        let remembered = inner.by_uid.entry(uid.into()).or_insert_with(made);
        remembered.memory.clone()
    }

    /// This process becomes the leader. Objects that it saw while on standby do not count as created in its term, and its waits
    /// begin now, since another process may have acted until a moment ago.
    pub fn begin_term(&self) {
        let mut inner = self.lock();
        for remembered in inner.by_uid.values_mut() {
            let mut memory = Memory::new(false, Instant::now());
            memory.epoch = self.epoch();
            remembered.memory = Arc::new(Mutex::new(memory));
        }
    }

    /// The memory of an object; None if it is gone.
    pub fn get(&self, uid: &str) -> Option<Arc<Mutex<Memory>>> {
        self.lock()
            .by_uid
            .get(uid)
            .map(|remembered| remembered.memory.clone())
    }

    /// The state of the cluster went back in time (etcd was restored), so no object counts as new any more. Each memory applies
    /// this in its next reconcile, and a reconcile in progress notices it before it buys.
    pub fn doubt_all(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// An object is gone for good. Returns its memory.
    pub fn forget(&self, uid: &str) -> Option<Arc<Mutex<Memory>>> {
        let forgotten = self.lock().by_uid.remove(uid);
        forgotten.map(|forgotten| forgotten.memory)
    }

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
