use crate::api::SecretKeyRef;
use crate::runtime::KubeError;
use crate::runtime::kubernetes::call;
use crate::runtime::watch::{Change, Notice, ObjectKey};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use secrecy::SecretString;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;
use zeroize::Zeroize;

/// Which Secrets exist, in which version: learnt from metadata alone. No content of a Secret is ever stored here.
#[derive(Clone, Debug, Default)]
pub struct SecretVersions {
    versions: Arc<Mutex<HashMap<ObjectKey, String>>>,
}

impl SecretVersions {
    /// Takes in what the watch tells. Tells whether that is news: a listing repeats what is known.
    pub fn note(&self, notice: &Notice) -> bool {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        match notice.change {
            Change::Gone => {
                let is_known = versions
                    .get(&notice.key)
                    .is_some_and(|known| known.starts_with(&notice.uid));
                is_known && versions.remove(&notice.key).is_some()
            }
            Change::Listed | Change::Applied => {
                let now = version(&notice.uid, &notice.version);
                versions.insert(notice.key.clone(), now.clone()) != Some(now)
            }
        }
    }

    /// UID and resourceVersion of a Secret, if it exists.
    pub fn of(&self, secret: &ObjectKey) -> Option<String> {
        self.versions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(secret)
            .cloned()
    }
}

fn version(uid: &str, resource_version: &str) -> String {
    format!("{uid}/{resource_version}")
}

/// Why a Secret gives nothing.
#[derive(Debug, Error)]
pub enum SecretProblem {
    /// There is no such Secret.
    #[error("Secret {0} does not exist")]
    NoSecret(String),
    /// The Secret has no such key.
    #[error("Secret {secret} has no key {key}")]
    NoKey {
        /// The Secret.
        secret: String,
        /// The key.
        key: String,
    },
    /// Nothing stands under the key, or nothing but white space.
    #[error("key {key} of Secret {secret} is empty")]
    Empty {
        /// The Secret.
        secret: String,
        /// The key.
        key: String,
    },
    /// What stands under the key is no text.
    #[error("key {key} of Secret {secret} is not UTF-8 text")]
    NotText {
        /// The Secret.
        secret: String,
        /// The key.
        key: String,
    },
    /// The Secret could not be read.
    #[error("Secret {secret} could not be read: {source}")]
    Unread {
        /// The Secret.
        secret: String,
        /// The cause.
        source: KubeError,
    },
}

/// Reads one key of a Secret, and the Secret's UID and resourceVersion. White space at the end is dropped: a line feed
/// from an editor belongs neither to a token nor to a password.
///
/// # Errors
/// See [`SecretProblem`]; none of them holds what the Secret holds.
pub async fn read_key(
    client: &Client,
    namespace: &str,
    reference: &SecretKeyRef,
) -> Result<(SecretString, String), SecretProblem> {
    let SecretKeyRef { name, key } = reference;
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let mut secret = match call("read Secret", api.get(name)).await {
        Ok(secret) => secret,
        Err(error) if error.is_not_found() => return Err(SecretProblem::NoSecret(name.clone())),
        Err(source) => {
            return Err(SecretProblem::Unread {
                secret: name.clone(),
                source,
            });
        }
    };
    let read_version = version(
        secret.metadata.uid.as_deref().unwrap_or_default(),
        secret
            .metadata
            .resource_version
            .as_deref()
            .unwrap_or_default(),
    );
    let mut data = secret.data.take().unwrap_or_default();
    let found = data.remove(key).map(|bytes| bytes.0);
    for (_, mut other) in data {
        other.0.zeroize();
    }
    let mut bytes = found.ok_or_else(|| SecretProblem::NoKey {
        secret: name.clone(),
        key: key.clone(),
    })?;
    let text = std::str::from_utf8(&bytes).map(|text| SecretString::from(text.trim_end()));
    let empty = bytes.iter().all(u8::is_ascii_whitespace);
    bytes.zeroize();
    let text = text.map_err(|_| SecretProblem::NotText {
        secret: name.clone(),
        key: key.clone(),
    })?;
    if empty {
        Err(SecretProblem::Empty {
            secret: name.clone(),
            key: key.clone(),
        })
    } else {
        Ok((text, read_version))
    }
}
