//! The key under which endpoint and token of an Account stand in the records of what was bought with them.
//!
//! A record is for everybody who may read its Instance. A digest of a token that has no key confirms a guess at the token; one
//! under a key that stands in no annotation tells whether two are the same, and nothing else. The key is made once, by whoever
//! acts first, and stands in a Secret of the operator's own namespace, so that a restart and every replica has the same. With
//! another key each Account looks as if its token had been replaced: the service's "no such server" proves nothing until a
//! listing has shown a server of ours, so losing the key buys nothing and releases nothing.

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
/// Key in it.
const KEY: &str = "key";
/// Fewer bytes are no key: somebody put something else there.
const SHORTEST: usize = 16;
/// Bytes of a key that we make: as many as its digests have.
const LENGTH: usize = 32;

/// A key; cheap to clone, and shown to nobody.
#[derive(Clone)]
pub struct CredentialKey(Arc<hmac::Key>);

impl CredentialKey {
    /// One that nobody else has, and that is gone with the process.
    pub fn random() -> Self {
        let mut bytes = Zeroizing::new([0; LENGTH]);
        rand::rng().fill_bytes(bytes.as_mut_slice());
        Self::of(bytes.as_slice())
    }

    /// The key of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    /// The key of the installation, from its Secret in this namespace; made where there is none. Several may do this at once:
    /// one of them makes it, and all have the same.
    ///
    /// # Errors
    /// It can be neither read nor made. None where the Secret holds no key.
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
                    // Another one was first.
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

    /// What tells accounts apart in the record of what was bought: half of an HMAC-SHA-256 of cluster, endpoint and token would
    /// be more than enough, and is a long word; with a quarter of it no two are alike by chance.
    pub(super) fn credential(
        &self,
        cluster: &str,
        spec: &AccountSpec,
        token: &SecretString,
    ) -> String {
        let endpoint = spec.endpoint.trim_end_matches('/');
        let mut signed = hmac::Context::with_key(&self.0);
        // The borders of the parts count.
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
    // Drawn where they stay until they are wiped: an array would leave them on the stack as well.
    let mut bytes = vec![0; LENGTH];
    rand::rng().fill_bytes(&mut bytes);
    Secret {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        type_: Some(CREDENTIAL_KEY.to_owned()),
        // Another key would make every Account look as if its token had been replaced.
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
