//! The objects of one kind as a watch shows them, kept small.
//!
//! Of ten thousand objects a few are reconciled at a time. So an object is kept as the compressed text of its JSON, and made into a
//! value for each reconcile. What is asked of all objects at once stands beside the text: its [`Kept::Brief`].

use super::guarded::Guarded;
use super::packed::{Packed, Packer};
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
        packer: Packer::default(),
    };
    (Store { entries }, writer)
}

/// Each for itself: a table has room for half as many again.
type Entries<K> = HashMap<ObjectKey, Box<Entry<K>>>;

struct Entry<K: Kept> {
    brief: K::Brief,
    text: Packed,
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
        let packed = self.read().get(key)?.text.clone();
        // What cannot be opened is told of as what cannot be read: it is not gone.
        let object = open(&packed).unwrap_or_else(|error| {
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

fn open<K: Kept>(packed: &Packed) -> Result<Guarded<K>, Error> {
    let text = String::from_utf8(packed.unpack()?).map_err(Error::other)?;
    Ok(Guarded::read(&text)?)
}

/// Fills a store with what a watch tells.
pub struct Writer<K: Kept> {
    entries: Arc<RwLock<Entries<K>>>,
    /// The listing that is being read: it takes the place of what is there when it is whole.
    listing: Entries<K>,
    packer: Packer,
}

impl<K: Kept> Writer<K> {
    /// Takes an event in, which is about the object of this key, if about one.
    pub fn take(&mut self, event: &Event<Shown<K>>, key: &ObjectKey) {
        match event {
            Event::Init => {
                self.listing = HashMap::new();
                self.packer.rush(true);
            }
            Event::InitApply(shown) => {
                let former = self.former(key);
                let entry = self.entry(shown, former);
                self.listing.insert(key.clone(), entry);
            }
            Event::InitDone => {
                self.packer.rush(false);
                let mut listing = std::mem::take(&mut self.listing);
                listing.shrink_to_fit();
                // Dropped after the lock.
                let _former = std::mem::replace(&mut *self.write(), listing);
            }
            Event::Apply(shown) => {
                let entry = self.entry(shown, None);
                self.write().insert(key.clone(), entry);
            }
            Event::Delete(_) => {
                self.write().remove(key);
            }
        }
    }

    /// The same for tests, which have no key at hand.
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

    /// The packed text of an object as it was shown before: a listing shows most as they were.
    fn former(&self, key: &ObjectKey) -> Option<Packed> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        Some(entries.get(key)?.text.clone())
    }

    fn entry(&mut self, shown: &Shown<K>, former: Option<Packed>) -> Box<Entry<K>> {
        let text = shown.text.as_bytes();
        let is_same = |former: &Packed| {
            self.packer.would_keep(former, text.len())
                && former.unpack().is_ok_and(|former| former == text)
        };
        let brief = K::brief(&shown.object);
        let former = former.filter(is_same);
        let text = former.unwrap_or_else(|| self.packer.pack(text));
        Box::new(Entry { brief, text })
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries<K>> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
