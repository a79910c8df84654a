//! The objects of one kind as a watch shows them, kept small.
//!
//! Few of ten thousand objects are reconciled at a time. So the store keeps an object as the compressed text of its JSON and makes a
//! value of it for each reconcile. The properties that are needed of all objects at once are kept next to the text, in its
//! [`Kept::Brief`].

use super::compressed::Compressed;
use super::guarded::Guarded;
use super::shown::{Shown, Watched};
use super::watch::ObjectKey;
use kube::api::ObjectMeta;
use kube::core::error_boundary::InvalidObject;
use kube::runtime::watcher::Event;
use std::collections::HashMap;
use std::io::Error;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// An object that a store can keep.
pub trait Kept: Watched {
    /// What is asked of all objects at once.
    type Brief: Send + Sync + 'static;

    fn brief(object: &Guarded<Self>) -> Self::Brief;
}

/// A store that is empty, and what fills it.
pub fn store<K: Kept>() -> (Store<K>, Writer<K>) {
    let entries = Arc::new(RwLock::new(HashMap::new()));
    let writer = Writer {
        entries: entries.clone(),
        listing: HashMap::new(),
    };
    (Store { entries }, writer)
}

/// An entry is an allocation of its own, since a table reserves room for half as many again. A new listing shares the entries of
/// objects that did not change.
type Entries<K> = HashMap<ObjectKey, Arc<Entry<K>>>;

struct Entry<K: Kept> {
    brief: K::Brief,
    text: Compressed,
}

/// The objects of one kind; cheap to clone.
pub struct Store<K: Kept> {
    entries: Arc<RwLock<Entries<K>>>,
}

impl<K: Kept> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self {
            entries: self.entries.clone(),
        }
    }
}

impl<K: Kept> Store<K> {
    /// An object as the watch shows it now.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Guarded<K>>> {
        let entry = self.read().get(key)?.clone();
        // An object whose text cannot be decompressed still exists: it is reported as one that does not decode.
        let object = decode(&entry.text).unwrap_or_else(|error| {
            let metadata = ObjectMeta {
                name: Some(key.name.clone()),
                namespace: Some(key.namespace.clone()),
                ..ObjectMeta::default()
            };
            let error = error.to_string();
            Guarded(Err(InvalidObject { error, metadata }))
        });
        Some(Arc::new(object))
    }

    /// What its brief says.
    pub fn brief<T>(&self, key: &ObjectKey, look: impl FnOnce(&K::Brief) -> T) -> Option<T> {
        self.read().get(key).map(|entry| look(&entry.brief))
    }

    /// Looks at the brief of every object.
    pub fn for_each(&self, mut look: impl FnMut(&ObjectKey, &K::Brief)) {
        for (key, entry) in self.read().iter() {
            look(key, &entry.brief);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Entries<K>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn decode<K: Kept>(text: &Compressed) -> Result<Guarded<K>, Error> {
    Ok(Guarded::read(&text.text()?)?)
}

/// Fills a store with the events of a watch.
pub struct Writer<K: Kept> {
    entries: Arc<RwLock<Entries<K>>>,
    /// The listing that is being read. It replaces the entries when it is complete.
    listing: Entries<K>,
}

impl<K: Kept> Writer<K> {
    /// Stores an event, whose object has this key if the event is about an object.
    pub fn take(&mut self, event: &Event<Shown<K>>, key: &ObjectKey) {
        match event {
            Event::Init => self.listing = HashMap::new(),
            Event::InitApply(shown) => {
                let entry = self.unchanged(key, shown);
                let entry = entry.unwrap_or_else(|| Entry::of(shown));
                self.listing.insert(key.clone(), entry);
            }
            Event::InitDone => {
                let mut listing = std::mem::take(&mut self.listing);
                listing.shrink_to_fit();
                // Dropped after the lock.
                let _former = std::mem::replace(&mut *self.write(), listing);
            }
            Event::Apply(shown) => {
                self.write().insert(key.clone(), Entry::of(shown));
            }
            Event::Delete(_) => {
                self.write().remove(key);
            }
        }
    }

    /// The same for tests, which do not have the key.
    #[cfg(test)]
    pub fn hear(&mut self, event: &Event<K>)
    where
        K: serde::Serialize,
    {
        let (key, event) = match event {
            Event::Init => (ObjectKey::new("", ""), Event::Init),
            Event::InitDone => (ObjectKey::new("", ""), Event::InitDone),
            Event::InitApply(it) => (ObjectKey::of(it), Event::InitApply(Shown::of(it))),
            Event::Apply(it) => (ObjectKey::of(it), Event::Apply(Shown::of(it))),
            Event::Delete(it) => (ObjectKey::of(it), Event::Delete(Shown::of(it))),
        };
        self.take(&event, &key);
    }

    /// The entry of an object, if that has the same text still. Most objects do when they are listed again.
    fn unchanged(&self, key: &ObjectKey, shown: &Shown<K>) -> Option<Arc<Entry<K>>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.get(key)?.clone();
        drop(entries);
        let is_same = entry.text.text().is_ok_and(|text| *text == *shown.text);
        is_same.then_some(entry)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries<K>> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Kept> Entry<K> {
    fn of(shown: &Shown<K>) -> Arc<Self> {
        Arc::new(Self {
            brief: K::brief(&shown.object),
            text: Compressed::of(&shown.text),
        })
    }
}

#[cfg(test)]
mod tests;
