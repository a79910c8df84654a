//! The objects of one kind as a watch shows them, kept small.
//!
//! Few of ten thousand objects are reconciled at a time. So the store keeps an object as the compressed text of its JSON and makes a
//! value of it for each reconcile. The properties that are needed of all objects at once are kept next to the text, in its
//! [`Kept::Brief`].

use super::compressed::Compressed;
use super::watch::ObjectKey;
use kube::Resource;
use kube::api::ObjectMeta;
use kube::core::DeserializeGuard;
use kube::core::error_boundary::InvalidObject;
use kube::runtime::watcher::Event;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// An object that a store can keep.
pub trait Kept: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone {
    /// The properties that are needed of all objects at once.
    type Brief: Send + Sync + 'static;

    fn brief(object: &DeserializeGuard<Self>) -> Self::Brief;
}

/// An entry is an allocation of its own, since a table reserves room for half as many again. A new listing shares the entries of
/// objects that did not change.
type Entries<K> = HashMap<ObjectKey, Arc<Entry<K>>>;

struct Entry<K: Kept> {
    brief: K::Brief,
    /// The JSON of the object, unless that did not decode.
    text: Result<Compressed, Box<InvalidObject>>,
}

/// The objects of one kind; cheap to clone.
pub struct Store<K: Kept> {
    entries: Arc<RwLock<Entries<K>>>,
}

impl<K: Kept> Default for Store<K> {
    fn default() -> Self {
        Self {
            entries: Arc::default(),
        }
    }
}

impl<K: Kept> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self {
            entries: self.entries.clone(),
        }
    }
}

impl<K: Kept> Store<K> {
    /// The writer for a watch of this namespace, or of all namespaces.
    pub fn writer(&self, namespace: Option<String>) -> Writer<K> {
        Writer {
            entries: self.entries.clone(),
            namespace,
            listing: HashMap::new(),
        }
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

    /// Reads the brief of an object.
    pub fn brief<T>(&self, key: &ObjectKey, read: impl FnOnce(&K::Brief) -> T) -> Option<T> {
        self.read().get(key).map(|entry| read(&entry.brief))
    }

    /// Reads the brief of every object.
    pub fn for_each(&self, mut read: impl FnMut(&ObjectKey, &K::Brief)) {
        for (key, entry) in self.read().iter() {
            read(key, &entry.brief);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Entries<K>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn decode<K: Kept>(text: &Compressed) -> Result<K, serde_json::Error> {
    serde_json::from_str(&text.text().map_err(serde_json::Error::io)?)
}

/// The error of an object whose own JSON cannot be read again: the object still exists.
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

/// Fills a store with the events of a watch.
pub struct Writer<K: Kept> {
    entries: Arc<RwLock<Entries<K>>>,
    namespace: Option<String>,
    /// The listing that is being read. It replaces the entries of its namespace when it is complete.
    listing: Entries<K>,
}

impl<K: Kept> Writer<K> {
    /// Stores an event, whose object has this key if the event is about an object.
    pub fn take(&mut self, event: &Event<DeserializeGuard<K>>, key: &ObjectKey) {
        match event {
            Event::Init => self.listing = HashMap::new(),
            Event::InitApply(object) => {
                let entry = Entry::of(object, self.read().get(key));
                self.listing.insert(key.clone(), entry);
            }
            Event::InitDone => {
                let listing = std::mem::take(&mut self.listing);
                let mut entries = self.write();
                let of_scope = |key: &ObjectKey, _: &mut Arc<Entry<K>>| {
                    let namespace = self.namespace.as_ref();
                    namespace.is_none_or(|namespace| *namespace == key.namespace)
                };
                let former: Vec<_> = entries.extract_if(of_scope).collect();
                entries.extend(listing);
                entries.shrink_to_fit();
                drop(entries);
                // Without the lock, since there may be ten thousand.
                drop(former);
            }
            Event::Apply(object) => {
                let entry = Entry::of(object, None);
                self.write().insert(key.clone(), entry);
            }
            Event::Delete(_) => {
                self.write().remove(key);
            }
        }
    }

    /// The same for tests, which do not have the key.
    #[cfg(test)]
    pub fn hear(&mut self, event: Event<K>) {
        let object = |object: K| (ObjectKey::of(&object), DeserializeGuard(Ok(object)));
        let none = ObjectKey::new("", "");
        let (key, event) = match event {
            Event::Init => (none, Event::Init),
            Event::InitDone => (none, Event::InitDone),
            Event::InitApply(it) => {
                let (key, it) = object(it);
                (key, Event::InitApply(it))
            }
            Event::Apply(it) => {
                let (key, it) = object(it);
                (key, Event::Apply(it))
            }
            Event::Delete(it) => {
                let (key, it) = object(it);
                (key, Event::Delete(it))
            }
        };
        self.take(&event, &key);
    }

    fn read(&self) -> RwLockReadGuard<'_, Entries<K>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries<K>> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Kept> Entry<K> {
    /// The entry of an object: the former one if the object did not change, as is the case of most that are listed again.
    fn of(object: &DeserializeGuard<K>, former: Option<&Arc<Self>>) -> Arc<Self> {
        let json = match &object.0 {
            Ok(object) => serde_json::to_string(object)
                .map_err(|error| Box::new(invalid(&ObjectKey::of(object), &error))),
            Err(invalid) => Err(Box::new(invalid.clone())),
        };
        let is_same = |former: &&Arc<Self>| match (&json, &former.text) {
            (Ok(json), Ok(text)) => text.text().is_ok_and(|text| text == *json),
            _ => false,
        };
        if let Some(former) = former.filter(is_same) {
            return former.clone();
        }
        Arc::new(Self {
            brief: K::brief(object),
            text: json.map(|json| Compressed::of(&json)),
        })
    }
}

#[cfg(test)]
mod tests;
