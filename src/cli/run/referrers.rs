//! Who refers to an Account or a Secret: what a change of one costs does not grow with the fleet.

use crate::runtime::watch::ObjectKey;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Objects of one kind by what they refer to in their namespace; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Referrers(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// The names of those that refer to it.
    of: HashMap<ObjectKey, BTreeSet<String>>,
    /// What each object refers to.
    by: HashMap<ObjectKey, BTreeSet<String>>,
}

impl Referrers {
    /// An object refers to things of these names from now on, and to nothing else.
    pub(super) fn note(&self, object: &ObjectKey, names: impl IntoIterator<Item = String>) {
        let mut inner = self.lock();
        let names: BTreeSet<String> = names.into_iter().collect();
        let former = if names.is_empty() {
            inner.by.remove(object)
        } else {
            inner.by.insert(object.clone(), names.clone())
        };
        let former = former.unwrap_or_default();
        let of = |name: &String| ObjectKey {
            namespace: object.namespace.clone(),
            name: name.clone(),
        };
        for gone in former.difference(&names) {
            let thing = of(gone);
            let referrers = inner.of.get_mut(&thing);
            let is_last = referrers.is_some_and(|referrers| {
                referrers.remove(&object.name);
                referrers.is_empty()
            });
            if is_last {
                inner.of.remove(&thing);
            }
        }
        for new in names.difference(&former) {
            let referrers = inner.of.entry(of(new)).or_default();
            referrers.insert(object.name.clone());
        }
    }

    /// The objects that refer to it.
    pub(super) fn of(&self, thing: &ObjectKey) -> Vec<ObjectKey> {
        let inner = self.lock();
        let names = inner.of.get(thing).into_iter().flatten();
        let key = |name: &String| ObjectKey {
            namespace: thing.namespace.clone(),
            name: name.clone(),
        };
        names.map(key).collect()
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
