//! The objects of one kind as a watch shows them, kept small.
//!
//! Few of ten thousand objects are reconciled at a time. So the store keeps an object as the compressed text of its JSON, and
//! decodes it for each reconcile. The properties that are needed of all objects at once are kept next to the text, in its
//! [`Brief`].

use super::compressed::Compressed;
use super::metrics::ObjectState;
use super::queue::schedule::{Flow, Priority};
use super::watch::ObjectKey;
use jiff::Timestamp;
use kube::Resource;
use kube::api::ObjectMeta;
use kube::core::DeserializeGuard;
use kube::core::error_boundary::InvalidObject;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// An object that a store can keep.
pub trait Stored: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone {
    fn brief(object: &DeserializeGuard<Self>) -> Brief;
}

/// The properties of an object that are needed of all objects at once.
#[derive(Clone, Debug)]
pub struct Brief {
    /// The flow and the priority with which the object queues.
    pub flow: (Flow, Priority),
    pub state: ObjectState,
    pub is_drifted: bool,
    /// The open operation of an Instance: its verb, and when it was announced.
    pub operation: Option<(&'static str, Timestamp)>,
}

/// Each entry is an allocation of its own, since the table also has many unused slots, which should be small.
type Entries = HashMap<ObjectKey, Arc<StoreEntry>>;

struct StoreEntry {
    brief: Brief,
    /// The JSON of the object, or the error if the object did not decode.
    text: Result<Compressed, Box<InvalidObject>>,
}

/// The objects of one kind; cheap to clone.
#[derive(Clone)]
pub struct Store<K> {
    entries: Arc<RwLock<Entries>>,
    kind: PhantomData<K>,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self {
            entries: Arc::default(),
            kind: PhantomData,
        }
    }
}

impl<K: Stored> Store<K> {
    /// Stores an object as a watch shows it now.
    pub fn put(&self, key: &ObjectKey, object: &DeserializeGuard<K>) {
        let text = match &object.0 {
            Ok(object) => serde_json::to_string(object)
                .map(|json| Compressed::of(&json))
                .map_err(|error| Box::new(invalid(key, &error))),
            Err(invalid) => Err(Box::new(invalid.clone())),
        };
        let brief = K::brief(object);
        let entry = Arc::new(StoreEntry { brief, text });
        self.write().insert(key.clone(), entry);
    }

    /// Removes an object that is gone.
    pub fn remove(&self, key: &ObjectKey) {
        self.write().remove(key);
    }

    /// An object as the watch shows it now.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<DeserializeGuard<K>>> {
        let entry = self.read().get(key)?.clone();
        let object = match &entry.text {
            Ok(text) => decode(text).map_err(|error| invalid(key, &error)),
            Err(invalid) => Err(InvalidObject::clone(invalid)),
        };
        Some(Arc::new(DeserializeGuard(object)))
    }

    /// The flow and the priority with which an object queues; None if the store does not hold it.
    pub fn flow(&self, key: &ObjectKey) -> Option<(Flow, Priority)> {
        self.read().get(key).map(|entry| entry.brief.flow.clone())
    }

    /// Whether the store holds an object of this name.
    pub fn has(&self, key: &ObjectKey) -> bool {
        self.read().contains_key(key)
    }

    /// Reads the brief of every object.
    pub fn for_each(&self, mut read: impl FnMut(&ObjectKey, &Brief)) {
        for (key, entry) in self.read().iter() {
            read(key, &entry.brief);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Entries> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn decode<K: Stored>(text: &Compressed) -> Result<K, serde_json::Error> {
    serde_json::from_str(&text.text().map_err(serde_json::Error::io)?)
}

/// The error of an object whose JSON this store cannot write, or cannot read again: the object still exists.
fn invalid(key: &ObjectKey, error: &serde_json::Error) -> InvalidObject {
    let metadata = ObjectMeta {
        name: Some(key.name.clone()),
        namespace: Some(key.namespace.clone()),
        ..ObjectMeta::default()
    };
    InvalidObject {
        error: error.to_string(),
        metadata,
    }
}

#[cfg(test)]
pub(super) mod tests;
