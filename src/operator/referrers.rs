//! Who refers to an Account or a Secret: what a change of one costs does not grow with the fleet.

use crate::runtime::watch::ObjectKey;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Objects of one kind by what they refer to in their namespace; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Referrers(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// What is referred to, with who refers to it.
    of: BTreeSet<(ObjectKey, ObjectKey)>,
    /// What each object refers to, sorted.
    by: HashMap<ObjectKey, Box<[ObjectKey]>>,
}

impl Inner {
    /// Who refers to a thing, each with the thing's key as it stands here.
    fn of(&self, thing: &ObjectKey) -> impl Iterator<Item = &(ObjectKey, ObjectKey)> {
        let first = (thing.clone(), ObjectKey::new("", ""));
        let from = self.of.range(first..);
        from.take_while(move |(known, _)| known == thing)
    }

    /// The thing's key as it stands here, if it does: ten thousand referrers share it.
    fn known(&self, thing: ObjectKey) -> ObjectKey {
        let known = self.of(&thing).next().map(|(known, _)| known.clone());
        known.unwrap_or(thing)
    }
}

impl Referrers {
    /// An object refers to things of these names from now on, and to nothing else.
    pub(super) fn note(&self, object: &ObjectKey, names: impl IntoIterator<Item = String>) {
        let mut inner = self.lock();
        let names = names.into_iter();
        let things: BTreeSet<ObjectKey> = names
            .map(|name| inner.known(ObjectKey::new(&object.namespace, &name)))
            .collect();
        // The key that stands in both maps goes on to be one.
        let former = inner.by.remove_entry(object);
        let (object, former) = former.unwrap_or_else(|| (object.clone(), Box::default()));
        for gone in former.iter().filter(|thing| !things.contains(*thing)) {
            inner.of.remove(&(gone.clone(), object.clone()));
        }
        for thing in &things {
            inner.of.insert((thing.clone(), object.clone()));
        }
        if !things.is_empty() {
            inner.by.insert(object, things.into_iter().collect());
        }
    }

    /// The objects that refer to it.
    pub(super) fn of(&self, thing: &ObjectKey) -> Vec<ObjectKey> {
        let inner = self.lock();
        inner.of(thing).map(|(_, object)| object.clone()).collect()
    }

    /// Whether anything refers to it.
    pub(super) fn is_referred(&self, thing: &ObjectKey) -> bool {
        self.lock().of(thing).next().is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: &str, name: &str) -> ObjectKey {
        ObjectKey::new(namespace, name)
    }

    #[test]
    fn it_knows_who_refers_to_what_and_forgets_what_is_referred_to_no_more() {
        let referrers = Referrers::default();
        let named = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        referrers.note(&key("a", "web"), named(&["login", "connection"]));
        referrers.note(&key("a", "db"), named(&["login"]));
        referrers.note(&key("b", "web"), named(&["login"]));
        assert_eq!(
            referrers.of(&key("a", "login")),
            [key("a", "db"), key("a", "web")]
        );
        assert_eq!(referrers.of(&key("b", "login")), [key("b", "web")]);
        assert_eq!(referrers.of(&key("a", "connection")), [key("a", "web")]);
        referrers.note(&key("a", "web"), named(&["other"]));
        assert_eq!(referrers.of(&key("a", "login")), [key("a", "db")]);
        assert!(referrers.of(&key("a", "connection")).is_empty());
        for object in [key("a", "web"), key("a", "db"), key("b", "web")] {
            referrers.note(&object, []);
        }
        let inner = referrers.lock();
        assert!(inner.of.is_empty() && inner.by.is_empty());
    }
}
