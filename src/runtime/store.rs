//! The objects of one kind as a watch shows them, kept small.
//!
//! Of ten thousand objects a few are reconciled at a time. So an object is kept as the compressed text of its JSON, and made into a
//! value for each reconcile. What is asked of all objects at once stands beside the text: its [`Kept::Brief`].

use super::packed::{Packed, Packer};
use super::watch::ObjectKey;
use kube::Resource;
use kube::runtime::watcher::Event;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// An object that a store can keep.
pub trait Kept: Resource<DynamicType = ()> + Clone + Send + Sync + 'static {
    /// What is asked of all objects at once.
    type Brief: Send + Sync + 'static;

    /// The brief of this object.
    fn brief(&self) -> Self::Brief;

    /// Its JSON, of which [`Kept::parse`] makes the same object. Without one the object is kept as a value.
    fn text(&self) -> Option<Vec<u8>> {
        None
    }

    /// The object of a text, and what it is called.
    fn parse(_text: &[u8], _key: &ObjectKey) -> Option<Self> {
        None
    }
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
    body: Body<K>,
}

#[derive(Clone)]
enum Body<K> {
    Text(Packed),
    Value(Arc<K>),
}

impl<K: Kept> Body<K> {
    fn of(object: &K, former: Option<Packed>, packer: &mut Packer) -> Self {
        let packed = object.text().and_then(|text| {
            let is_same = |former: &Packed| {
                packer.would_keep(former, text.len())
                    && former.unpack().is_ok_and(|former| former == text)
            };
            let former = former.filter(is_same);
            former.or_else(|| packer.pack(&text).ok())
        });
        packed.map_or_else(|| Self::Value(Arc::new(object.clone())), Self::Text)
    }

    fn open(self, key: &ObjectKey) -> Option<Arc<K>> {
        match self {
            Self::Value(object) => Some(object),
            // What cannot be opened is told of as what cannot be read: it is not gone.
            Self::Text(packed) => K::parse(&packed.unpack().unwrap_or_default(), key).map(Arc::new),
        }
    }
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
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        let body = self.read().get(key)?.body.clone();
        body.open(key)
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

/// Fills a store with what a watch tells.
pub struct Writer<K: Kept> {
    entries: Arc<RwLock<Entries<K>>>,
    /// The listing that is being read: it takes the place of what is there when it is whole.
    listing: Entries<K>,
    packer: Packer,
}

impl<K: Kept> Writer<K> {
    /// Takes an event in, which is about the object of this key, if about one.
    pub fn take(&mut self, event: &Event<K>, key: &ObjectKey) {
        match event {
            Event::Init => {
                self.listing = HashMap::new();
                self.packer.rush(true);
            }
            Event::InitApply(object) => {
                let former = self.former(key);
                let entry = self.entry(object, former);
                self.listing.insert(key.clone(), entry);
            }
            Event::InitDone => {
                self.packer.rush(false);
                let mut listing = std::mem::take(&mut self.listing);
                listing.shrink_to_fit();
                // Dropped after the lock.
                let _former = std::mem::replace(&mut *self.write(), listing);
            }
            Event::Apply(object) => {
                let entry = self.entry(object, None);
                self.write().insert(key.clone(), entry);
            }
            Event::Delete(_) => {
                self.write().remove(key);
            }
        }
    }

    /// The same for tests, which have no key at hand.
    #[cfg(test)]
    pub fn hear(&mut self, event: &Event<K>) {
        let key = match event {
            Event::InitApply(object) | Event::Apply(object) | Event::Delete(object) => {
                ObjectKey::of(object)
            }
            Event::Init | Event::InitDone => ObjectKey::new("", ""),
        };
        self.take(event, &key);
    }

    /// The packed text of an object as it was shown before: a listing shows most as they were.
    fn former(&self, key: &ObjectKey) -> Option<Packed> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        match &entries.get(key)?.body {
            Body::Text(packed) => Some(packed.clone()),
            Body::Value(_) => None,
        }
    }

    fn entry(&mut self, object: &K, former: Option<Packed>) -> Box<Entry<K>> {
        Box::new(Entry {
            brief: object.brief(),
            body: Body::of(object, former, &mut self.packer),
        })
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries<K>> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
