//! Digests that stand for settings and tokens in memory: to find a session, or to recognize an outdated copy. A digest of this
//! module that covers a token is never written.

use super::account_session::ServiceCredentials;
use super::credential::endpoint;
use crate::api::AccountSpec;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

/// The key of an Account's session. Accounts with the same key share a session. Accounts with different paths do not, since they
/// may use different services. The same holds for different `missingCodes`, and for different TLS settings or proxies: one Account
/// may trust what the other does not.
pub(super) fn session_key(spec: &AccountSpec, credentials: &ServiceCredentials) -> [u8; 32] {
    let ServiceCredentials { token, tls } = credentials;
    let proxy = spec.proxy.as_ref().map(|proxy| proxy.url.as_bytes());
    let paths = serde_json::to_vec(&spec.paths).unwrap_or_default();
    let codes = serde_json::to_vec(&spec.missing_codes).unwrap_or_default();
    digest(&[
        endpoint(spec).as_bytes(),
        token.expose_secret().as_bytes(),
        &paths,
        &codes,
        &tls.digest(),
        proxy.unwrap_or_default(),
    ])
}

/// The key of a session's request limit. Sessions with the same key share one limit: the service applies its limit per token,
/// regardless of the other settings of an Account.
pub(super) fn limiter_key(spec: &AccountSpec, token: &SecretString) -> [u8; 32] {
    digest(&[endpoint(spec).as_bytes(), token.expose_secret().as_bytes()])
}

/// One digest of several parts. It covers their boundaries, too.
pub(super) fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}
