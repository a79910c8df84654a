//! Who refers to an Account or a Secret: what a change of one costs does not grow with the fleet.

use crate::runtime::watch::ObjectKey;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Objects of one kind by what they refer to in their namespace; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Referrers(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// What is referred to, with the name of who refers to it.
    of: BTreeSet<(ObjectKey, Box<str>)>,
    /// What each object refers to.
    by: HashMap<ObjectKey, Box<[Box<str>]>>,
}

impl Inner {
    fn of<'a>(&'a self, thing: &'a ObjectKey) -> impl Iterator<Item = &'a str> {
        let first = (thing.clone(), Box::default());
        let from = self.of.range(first..);
        from.take_while(move |(known, _)| known == thing)
            .map(|(_, name)| &**name)
    }
}

impl Referrers {
    /// An object refers to things of these names from now on, and to nothing else.
    pub(super) fn note(&self, object: &ObjectKey, names: impl IntoIterator<Item = String>) {
        let mut inner = self.lock();
        let names: BTreeSet<Box<str>> = names.into_iter().map(String::into_boxed_str).collect();
        let former = inner.by.remove(object).unwrap_or_default();
        let of = |name: &str| {
            let thing = ObjectKey {
                namespace: object.namespace.clone(),
                name: name.to_owned(),
            };
            (thing, object.name.as_str().into())
        };
        for gone in former.iter().filter(|name| !names.contains(*name)) {
            inner.of.remove(&of(gone));
        }
        for new in names.iter().filter(|name| !former.contains(name)) {
            inner.of.insert(of(new));
        }
        if !names.is_empty() {
            inner.by.insert(object.clone(), names.into_iter().collect());
        }
    }

    /// The objects that refer to it.
    pub(super) fn of(&self, thing: &ObjectKey) -> Vec<ObjectKey> {
        let inner = self.lock();
        let key = |name: &str| ObjectKey {
            namespace: thing.namespace.clone(),
            name: name.to_owned(),
        };
        inner.of(thing).map(key).collect()
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
        ObjectKey {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
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
