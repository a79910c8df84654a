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
    /// An initial list showed the object, which may be older than this process.
    Listed,
    /// The object was created or changed while the watch ran.
    Applied,
    /// The object is gone: its deletion was shown, the next initial list lacks it, or another object has its name.
    Gone,
}

/// A change of an object. Receivers get it after the store shows the change.
#[derive(Clone, Debug)]
pub struct Notice {
    pub key: ObjectKey,
    pub uid: Arc<str>,
    /// The object's resourceVersion; empty when it is gone.
    pub version: String,
    /// A digest of the UID and the parts that users change: spec (by its generation), labels, and whether the object is being
    /// deleted.
    pub written: u64,
    /// Whether it is a Secret with the operator's label [`SECRET_ROLE`], but without [`SECRET_MARKER`]: an older version of the
    /// operator wrote it, or another writer removed the label.
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
