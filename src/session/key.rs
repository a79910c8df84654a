//! The key for the HMAC of endpoint and token in each purchase record.
//!
//! Everybody who may read an Instance can read its record. A digest without a key would confirm a guess at the token. A keyed
//! one, whose key is in no annotation, only shows whether two tokens are the same. The first process that needs the key creates
//! it in a Secret of the operator's own namespace, so that all replicas share it and a restart keeps it. If the key is lost,
//! every token looks as if it had been replaced: then "no such server" from the service proves nothing until a listing has shown
//! one of our servers. Losing the key therefore buys nothing and releases nothing.

use crate::api::AccountSpec;
use crate::api::names::{CREDENTIAL_KEY, MANAGED_BY, MANAGER};
use crate::runtime::KubeError;
use crate::runtime::kubernetes::call;
use data_encoding::HEXLOWER;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use rand::Rng;
use ring::hmac;
use secrecy::{ExposeSecret, SecretString};
use std::sync::Arc;
use zeroize::{Zeroize, Zeroizing};

/// Name of the Secret.
const NAME: &str = "cloud-server-operator-credential-key";
/// The data key in that Secret.
const KEY: &str = "key";
/// A shorter value is not a key that the operator wrote.
const SHORTEST: usize = 16;
/// Bytes of a generated key: as many as an HMAC-SHA-256 has.
const LENGTH: usize = 32;

/// A key. It is cheap to clone, and `Debug` hides it.
#[derive(Clone)]
pub struct CredentialKey(Arc<hmac::Key>);

impl CredentialKey {
    /// A random key that this process alone knows and that is lost with it.
    pub fn random() -> Self {
        let mut bytes = Zeroizing::new([0; LENGTH]);
        rand::rng().fill_bytes(bytes.as_mut_slice());
        Self::of(bytes.as_slice())
    }

    /// The key of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    /// The installation's key, from its Secret in this namespace; creates the Secret if there is none. When several processes do
    /// so at the same time, one create succeeds and all read the same key.
    ///
    /// # Errors
    /// The Secret can be neither read nor created. Returns `None` if the Secret holds no key.
    pub async fn find(client: &Client, namespace: &str) -> Result<Option<Self>, KubeError> {
        const READ: &str = "read the Secret with the key of credentials";
        let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let found = match call(READ, api.get(NAME)).await {
            Err(error) if error.is_not_found() => None,
            found => Some(found?),
        };
        let found = match found {
            Some(found) => found,
            None => {
                let params = PostParams {
                    field_manager: Some(MANAGER.to_owned()),
                    ..PostParams::default()
                };
                let mut fresh = fresh();
                let made = api.create(&params, &fresh);
                let made = call("make the Secret with the key of credentials", made).await;
                wipe(&mut fresh);
                match made {
                    Ok(made) => made,
                    // Another process was first.
                    Err(error) if error.is_conflict() => call(READ, api.get(NAME)).await?,
                    Err(error) => return Err(error),
                }
            }
        };
        Ok(Self::in_secret(found))
    }

    fn in_secret(mut secret: Secret) -> Option<Self> {
        let bytes = secret.data.as_ref().and_then(|data| data.get(KEY));
        let bytes = bytes.filter(|bytes| bytes.0.len() >= SHORTEST);
        let key = bytes.map(|bytes| Self::of(&bytes.0));
        wipe(&mut secret);
        key
    }

    /// Identifies the account at the service in a purchase record: a truncated HMAC-SHA-256 of cluster, endpoint and token. A
    /// quarter of it is enough to avoid collisions; half would only make a longer word.
    pub(super) fn credential(
        &self,
        cluster: &str,
        spec: &AccountSpec,
        token: &SecretString,
    ) -> String {
        let endpoint = spec.endpoint.trim_end_matches('/');
        let mut signed = hmac::Context::with_key(&self.0);
        // The lengths keep the boundaries of the parts apart.
        for part in [cluster, endpoint, token.expose_secret()] {
            signed.update(&part.len().to_be_bytes());
            signed.update(part.as_bytes());
        }
        HEXLOWER.encode(&signed.sign().as_ref()[..8])
    }
}

impl std::fmt::Debug for CredentialKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CredentialKey")
    }
}

fn fresh() -> Secret {
    let labels = [(MANAGED_BY.to_owned(), MANAGER.to_owned())];
    // Fill the buffer in place, where it is wiped later: an array would leave a second copy on the stack.
    let mut bytes = vec![0; LENGTH];
    rand::rng().fill_bytes(&mut bytes);
    Secret {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        type_: Some(CREDENTIAL_KEY.to_owned()),
        // A changed key would make every token look as if it had been replaced.
        immutable: Some(true),
        data: Some([(KEY.to_owned(), ByteString(bytes))].into()),
        ..Secret::default()
    }
}

fn wipe(secret: &mut Secret) {
    for bytes in secret.data.iter_mut().flat_map(|data| data.values_mut()) {
        bytes.0.zeroize();
    }
}

#[cfg(test)]
mod tests;
