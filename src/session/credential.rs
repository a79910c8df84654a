//! The credential of a record: a digest of the cluster, endpoint and API token that a server was bought with.
//!
//! It shows a process whether an Account still uses the service account that bought the recorded server. Any process computes it
//! from objects that it reads anyway, so no restart, standby or restored backup mistakes a token for a replaced one. Users who may
//! read an Instance can test guesses of the token with it: each guess costs [`ROUNDS`] times as much as with a plain digest.
//!
//! An earlier version signed the same parts with a key of the installation. A record lasts while its server does, so the key is
//! read where its Secret still exists. This version makes no such key.

use crate::api::AccountSpec;
use crate::runtime::KubeError;
use crate::runtime::kubernetes::call;
use data_encoding::HEXLOWER;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use ring::{hmac, pbkdf2};
use secrecy::{ExposeSecret, SecretString};
use std::num::NonZeroU32;
use std::sync::Arc;
use zeroize::Zeroize;

/// Rounds of PBKDF2. More rounds would better protect a token that can be guessed, but the digest is computed whenever an
/// Account's session is opened: a quarter of a millisecond for each of some thousand Accounts is the most that a start should
/// spend on it.
const ROUNDS: NonZeroU32 = NonZeroU32::new(1_000).unwrap();
/// Bytes of a digest. No two tokens share one by chance, and no user can find a second token for one by trial.
const LENGTH: usize = 8;

/// The credential of records that are written from now on.
pub(super) fn credential(cluster: &str, spec: &AccountSpec, token: &SecretString) -> String {
    let mut salt = Vec::new();
    // Each part's length is included, so that moving a character to the next part changes the digest.
    for part in [cluster, endpoint(spec)] {
        salt.extend(part.len().to_be_bytes());
        salt.extend(part.as_bytes());
    }
    let mut digest = [0; LENGTH];
    let secret = token.expose_secret().as_bytes();
    pbkdf2::derive(
        pbkdf2::PBKDF2_HMAC_SHA256,
        ROUNDS,
        &salt,
        secret,
        &mut digest,
    );
    HEXLOWER.encode(&digest)
}

/// The endpoint in an Account's spec, without slashes at its end.
pub(super) fn endpoint(spec: &AccountSpec) -> &str {
    spec.endpoint.trim_end_matches('/')
}

/// The key under which an earlier version made the credentials of its records. Remove this type after version 0.2.
#[derive(Clone)]
pub struct FormerKey(Arc<hmac::Key>);

impl FormerKey {
    /// The name of its Secret, in the operator's own namespace.
    const SECRET: &str = "cloud-server-operator-credential-key";
    const KEY: &str = "key";

    /// Reads the key. None if its Secret does not exist: then no record needs the key, or all Accounts of such records look as if
    /// their token had been replaced.
    ///
    /// # Errors
    /// The Secret could not be read.
    pub async fn read(client: &Client, namespace: &str) -> Result<Option<Self>, KubeError> {
        let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let found = api.get_opt(Self::SECRET);
        let found = call("read the key of former credentials", found).await?;
        let data = found.and_then(|secret| secret.data);
        Ok(data.and_then(|mut data| {
            let key = data.get(Self::KEY).map(|bytes| Self::from_bytes(&bytes.0));
            data.values_mut().for_each(|bytes| bytes.0.zeroize());
            key
        }))
    }

    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    /// The credential that the earlier version wrote for this endpoint and token.
    pub fn credential(&self, cluster: &str, spec: &AccountSpec, token: &SecretString) -> String {
        let mut signed = hmac::Context::with_key(&self.0);
        for part in [cluster, endpoint(spec), token.expose_secret()] {
            signed.update(&part.len().to_be_bytes());
            signed.update(part.as_bytes());
        }
        HEXLOWER.encode(&signed.sign().as_ref()[..LENGTH])
    }
}

impl std::fmt::Debug for FormerKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FormerKey")
    }
}

#[cfg(test)]
mod tests;
