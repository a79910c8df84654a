//! The key of an object, and the notice of a change to it.

use super::strings::shared;
use crate::api::names::{SECRET_MARKER, SECRET_ROLE};
use kube::Resource;
use kube::api::ObjectMeta;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Namespace and name of an object. Cheap to clone: many maps have one for each of ten thousand objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey(pub(super) Arc<Named>);

/// The content of an [`ObjectKey`].
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Named {
    /// Namespace; empty for a cluster-scoped object.
    pub namespace: String,
    pub name: String,
}

impl ObjectKey {
    /// The key of the object of this name in this namespace.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(Arc::new(Named {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }))
    }

    pub fn of<K: Resource>(object: &K) -> Self {
        Self::of_meta(object.meta())
    }

    /// The key of the object with this metadata.
    pub fn of_meta(meta: &ObjectMeta) -> Self {
        let [namespace, name] =
            [&meta.namespace, &meta.name].map(|part| part.as_deref().unwrap_or_default());
        Self::new(namespace, name)
    }
}

impl Deref for ObjectKey {
    type Target = Named;

    fn deref(&self) -> &Named {
        &self.0
    }
}

/// How an object changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// An initial list showed it: it may be older than this process.
    Listed,
    /// It was created or changed while the watch ran.
    Applied,
    /// It is gone. An event showed that, the next initial list, or another object of the same name.
    Gone,
}

/// A change, which the store shows already.
#[derive(Clone, Debug)]
pub struct Notice {
    pub key: ObjectKey,
    pub uid: Arc<str>,
    /// Its resourceVersion; empty when it is gone.
    pub version: String,
    /// A digest of the parts that users change: spec, labels, and whether it is being deleted.
    pub written: u64,
    /// Whether it is a Secret that an older version of the operator wrote, without the label [`SECRET_MARKER`].
    pub lacks_marker: bool,
    /// How it changed.
    pub change: Change,
}

impl Notice {
    /// The notice about the object with this metadata.
    pub fn of(meta: &ObjectMeta, change: Change) -> Self {
        let (key, uid) = (
            ObjectKey::of_meta(meta),
            shared(meta.uid.as_deref().unwrap_or_default()),
        );
        if change == Change::Gone {
            return Self::gone(key, uid);
        }
        let mut written = DefaultHasher::new();
        meta.uid.hash(&mut written);
        meta.generation.hash(&mut written);
        meta.deletion_timestamp.is_some().hash(&mut written);
        meta.labels.hash(&mut written);
        let labels = meta.labels.as_ref();
        let has = |label| labels.is_some_and(|it| it.contains_key(label));
        Self {
            key,
            uid,
            version: meta.resource_version.clone().unwrap_or_default(),
            written: written.finish(),
            lacks_marker: has(SECRET_ROLE) && !has(SECRET_MARKER),
            change,
        }
    }

    pub(super) fn gone(key: ObjectKey, uid: Arc<str>) -> Self {
        Self {
            key,
            uid,
            version: String::new(),
            written: 0,
            lacks_marker: false,
            change: Change::Gone,
        }
    }
}
