//! An index of references: finds the objects that refer to a changed Account or Secret without reading all objects.

use crate::runtime::watch::ObjectKey;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The objects of one kind, indexed by the objects that they name in their own namespace; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Referrers(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// Pairs of a target and an object that refers to it.
    pairs: BTreeSet<(ObjectKey, ObjectKey)>,
    /// The targets of each object, sorted.
    targets: HashMap<ObjectKey, Box<[ObjectKey]>>,
}

impl Inner {
    /// The pairs of this target.
    fn of(&self, target: &ObjectKey) -> impl Iterator<Item = &(ObjectKey, ObjectKey)> {
        let first = (target.clone(), ObjectKey::new("", ""));
        let from = self.pairs.range(first..);
        from.take_while(move |(known, _)| known == target)
    }

    /// The key that the index already holds for this target, or else this one: so ten thousand referrers share one allocation.
    fn known(&self, target: ObjectKey) -> ObjectKey {
        let known = self.of(&target).next().map(|(known, _)| known.clone());
        known.unwrap_or(target)
    }
}

impl Referrers {
    /// Replaces the references of an object with these names in its namespace.
    pub(super) fn note(&self, object: &ObjectKey, names: impl IntoIterator<Item = String>) {
        let mut inner = self.lock();
        let names = names.into_iter();
        let targets: BTreeSet<ObjectKey> = names
            .map(|name| inner.known(ObjectKey::new(&object.namespace, &name)))
            .collect();
        // The former key is kept, so that both collections share one allocation.
        let former = inner.targets.remove_entry(object);
        let (object, former) = former.unwrap_or_else(|| (object.clone(), Box::default()));
        for gone in former.iter().filter(|target| !targets.contains(*target)) {
            inner.pairs.remove(&(gone.clone(), object.clone()));
        }
        for target in &targets {
            inner.pairs.insert((target.clone(), object.clone()));
        }
        if !targets.is_empty() {
            inner.targets.insert(object, targets.into_iter().collect());
        }
    }

    /// The objects that refer to this one.
    pub(super) fn of(&self, target: &ObjectKey) -> Vec<ObjectKey> {
        let inner = self.lock();
        inner.of(target).map(|(_, object)| object.clone()).collect()
    }

    /// Whether any object refers to this one.
    pub(super) fn is_referred(&self, target: &ObjectKey) -> bool {
        self.lock().of(target).next().is_some()
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
    fn a_reference_is_found_until_its_object_drops_it() {
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
        assert!(inner.pairs.is_empty() && inner.targets.is_empty());
    }
}
