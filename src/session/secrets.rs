//! The versions of Secrets, as the watches show them, and the reading of a Secret.

use crate::api::valid::{self, InvalidName};
use crate::runtime::KubeError;
use crate::runtime::kubernetes::call;
use crate::runtime::watch::{Change, Notice, ObjectKey};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Api, Client};
use secrecy::{ExposeSecret, SecretString};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thiserror::Error;
use zeroize::Zeroize;

/// The versions of existing Secrets, from metadata alone. No content of a Secret is ever stored here.
#[derive(Clone, Debug, Default)]
pub struct SecretVersions {
    state: Arc<Mutex<Versions>>,
}

#[derive(Debug, Default)]
struct Versions {
    by_secret: HashMap<ObjectKey, SecretVersion>,
    /// The newest version that a watch has delivered. Versions increase over all objects, so the watch has also delivered the
    /// result of every older write, except for a Secret that came and went between two lists.
    newest: u64,
}

/// A version of a Secret.
#[derive(Debug, Default)]
struct SecretVersion {
    /// UID and resourceVersion.
    text: String,
    /// Whether it has the operator's label, but not that of the marker: an older version of the operator wrote it, or another
    /// writer removed the label.
    lacks_marker: bool,
    /// Only the answer to our own write showed it: the other objects that refer to the Secret are woken once a watch shows it.
    is_unwatched: bool,
}

impl SecretVersions {
    /// Records an event of the watch. Returns whether the event shows anything new to the watch: a list repeats known versions.
    pub fn note(&self, notice: &Notice) -> bool {
        let mut versions = self.lock();
        versions.newest = versions.newest.max(number(&notice.version));
        let known = versions.by_secret.get_mut(&notice.key);
        match notice.change {
            Change::Gone => {
                let is_known = known.is_some_and(|known| known.text.starts_with(&*notice.uid));
                is_known && versions.by_secret.remove(&notice.key).is_some()
            }
            Change::Listed | Change::Applied => {
                let text = version(&notice.uid, &notice.version);
                // An admission policy may have removed the marker's label from our own write. This version still counts as marked,
                // or the operator would write the label again endlessly.
                if let Some(known) = known.filter(|known| known.text == text) {
                    return std::mem::take(&mut known.is_unwatched);
                }
                let now = SecretVersion {
                    text,
                    lacks_marker: notice.lacks_marker,
                    is_unwatched: false,
                };
                versions.by_secret.insert(notice.key.clone(), now);
                true
            }
        }
    }

    /// Records the version in the answer to our own write, without waiting for the watch.
    pub fn note_own_write(&self, secret: ObjectKey, uid: &str, resource_version: &str) {
        let mut versions = self.lock();
        // The watch may be ahead of the answer: it already delivered a later write, or the deletion. If the newest version comes
        // from the watch of another namespace that is further ahead, the watch of this one follows a moment later.
        let known = versions.by_secret.get(&secret);
        let known = known.and_then(|known| known.text.split_once('/'));
        let newest = match known.filter(|(known_uid, _)| *known_uid == uid) {
            Some((_, known)) => number(known),
            None => versions.newest,
        };
        if newest < number(resource_version) {
            let now = SecretVersion {
                text: version(uid, resource_version),
                lacks_marker: false,
                is_unwatched: true,
            };
            versions.by_secret.insert(secret, now);
        }
    }

    /// UID and resourceVersion of a Secret, if a watch or our own write showed it. No watch covers Secrets of certain types.
    pub fn of(&self, secret: &ObjectKey) -> Option<String> {
        Some(self.lock().by_secret.get(secret)?.text.clone())
    }

    /// Whether the Secret has the operator's label, but not that of the marker.
    pub fn is_unmarked(&self, secret: &ObjectKey) -> bool {
        let versions = self.lock();
        let known = versions.by_secret.get(secret);
        known.is_some_and(|known| known.lacks_marker)
    }

    fn lock(&self) -> MutexGuard<'_, Versions> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn number(resource_version: &str) -> u64 {
    resource_version.parse().unwrap_or_default()
}

pub(super) fn version(uid: &str, resource_version: &str) -> String {
    format!("{uid}/{resource_version}")
}

/// Why a Secret yields no value.
#[derive(Debug, Error)]
pub enum SecretProblem {
    #[error("Secret {0} does not exist")]
    NoSecret(String),
    /// No object can have this name. Only an object that is older than the schema's rule, or a manifest that the plugin reads,
    /// names such a Secret.
    #[error(transparent)]
    InvalidName(InvalidName),
    /// The Secret has no such key.
    #[error("Secret {secret} has no key {key}")]
    NoKey { secret: String, key: String },
    /// The value under the key is empty or only white space.
    #[error("key {key} of Secret {secret} is empty")]
    Empty { secret: String, key: String },
    /// The value under the key is not text.
    #[error("key {key} of Secret {secret} is not UTF-8 text")]
    NotText { secret: String, key: String },
    #[error("Secret {secret} could not be read: {source}")]
    Unread { secret: String, source: KubeError },
}

/// A Secret's content. The values are wiped when it is dropped.
#[derive(Debug, Default)]
pub struct Content {
    pub uid: String,
    pub resource_version: String,
    pub type_: String,
    pub owners: Vec<OwnerReference>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Values by key, without trailing white space; None if a value is not text.
    values: BTreeMap<String, Option<SecretString>>,
}

impl Content {
    /// Takes a Secret apart and wipes its data.
    pub fn of(secret: &mut Secret) -> Self {
        let meta = std::mem::take(&mut secret.metadata);
        let values = secret.data.take().unwrap_or_default().into_iter();
        Self {
            uid: meta.uid.unwrap_or_default(),
            resource_version: meta.resource_version.unwrap_or_default(),
            type_: secret.type_.take().unwrap_or_default(),
            owners: meta.owner_references.unwrap_or_default(),
            labels: meta.labels.unwrap_or_default(),
            annotations: meta.annotations.unwrap_or_default(),
            values: values
                .map(|(key, mut bytes)| {
                    let text = std::str::from_utf8(&bytes.0);
                    let text = text.map(|text| SecretString::from(text.trim_end()));
                    bytes.0.zeroize();
                    (key, text.ok())
                })
                .collect(),
        }
    }

    /// The object that controls it.
    pub fn controller(&self) -> Option<&OwnerReference> {
        let mut owners = self.owners.iter();
        owners.find(|owner| owner.controller == Some(true))
    }

    pub fn version(&self) -> String {
        version(&self.uid, &self.resource_version)
    }

    /// The value under a key, if it is text.
    pub fn text(&self, key: &str) -> Option<&str> {
        let value = self.values.get(key)?.as_ref()?;
        Some(value.expose_secret())
    }

    /// Takes the value of a required key; `secret` is the Secret's name.
    ///
    /// # Errors
    /// The key is missing, or its value is empty or not text.
    pub fn take(&mut self, secret: &str, key: &str) -> Result<SecretString, SecretProblem> {
        let (secret, key) = (secret.to_owned(), key.to_owned());
        match self.values.remove(&key) {
            None => Err(SecretProblem::NoKey { secret, key }),
            Some(None) => Err(SecretProblem::NotText { secret, key }),
            Some(Some(text)) if text.expose_secret().is_empty() => {
                Err(SecretProblem::Empty { secret, key })
            }
            Some(Some(text)) => Ok(text),
        }
    }
}

/// Reads a Secret.
///
/// # Errors
/// The Secret cannot exist, does not exist, or could not be read.
pub async fn read(client: &Client, namespace: &str, name: &str) -> Result<Content, SecretProblem> {
    valid::object_name(name).map_err(SecretProblem::InvalidName)?;
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    match call("read Secret", api.get(name)).await {
        Ok(mut secret) => Ok(Content::of(&mut secret)),
        Err(error) if error.is_not_found() => Err(SecretProblem::NoSecret(name.to_owned())),
        Err(source) => Err(SecretProblem::Unread {
            secret: name.to_owned(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::names::{SECRET_MARKER, SECRET_ROLE};
    use kube::api::ObjectMeta;

    #[test]
    fn a_secret_of_an_older_version_is_known_until_it_gets_its_marker() {
        let (versions, key) = (SecretVersions::default(), ObjectKey::new("ns", "login"));
        let shows = |version: &str, labels: &[&str]| {
            let labels = labels
                .iter()
                .map(|label| ((*label).to_owned(), "a".to_owned()));
            let meta = ObjectMeta {
                name: Some(key.name.clone()),
                namespace: Some(key.namespace.clone()),
                uid: Some("u1".to_owned()),
                resource_version: Some(version.to_owned()),
                labels: Some(labels.collect()),
                ..ObjectMeta::default()
            };
            versions.note(&Notice::of(&meta, Change::Applied));
            versions.is_unmarked(&key)
        };
        assert!(!shows("1", &["team"]), "it belongs to a user");
        assert!(shows("2", &[SECRET_ROLE]));
        assert!(!shows("3", &[SECRET_ROLE, SECRET_MARKER]));
        assert!(
            shows("4", &[SECRET_ROLE]),
            "another writer removed the marker"
        );
        versions.note_own_write(key.clone(), "u1", "5");
        assert!(!versions.is_unmarked(&key));
        assert!(!shows("5", &[SECRET_ROLE]), "a policy removed the marker");
    }

    #[test]
    fn our_own_write_is_known_at_once_new_to_the_watch_and_replaces_no_newer_version() {
        let (versions, key) = (SecretVersions::default(), ObjectKey::new("ns", "login"));
        let shows = |uid: &str, version: &str, change| {
            let meta = ObjectMeta {
                name: Some(key.name.clone()),
                namespace: Some(key.namespace.clone()),
                uid: Some(uid.to_owned()),
                resource_version: Some(version.to_owned()),
                ..ObjectMeta::default()
            };
            versions.note(&Notice::of(&meta, change))
        };
        versions.note_own_write(key.clone(), "u1", "9");
        assert_eq!(versions.of(&key).as_deref(), Some("u1/9"));
        assert!(shows("u1", "9", Change::Applied), "others must hear of it");
        assert!(
            !shows("u1", "9", Change::Listed),
            "a list repeats what is known"
        );
        assert!(shows("u1", "11", Change::Applied));
        versions.note_own_write(key.clone(), "u1", "10");
        assert_eq!(versions.of(&key).as_deref(), Some("u1/11"));
        versions.note_own_write(key.clone(), "u2", "12");
        assert_eq!(versions.of(&key).as_deref(), Some("u2/12"), "created again");
        // Created and deleted while the answer to the write was on its way.
        shows("u3", "14", Change::Applied);
        shows("u3", "", Change::Gone);
        versions.note_own_write(key.clone(), "u3", "14");
        assert_eq!(versions.of(&key), None);
    }
}
