//! Digests by which accounts and sessions are told apart without a word of their tokens.

use crate::api::AccountSpec;
use data_encoding::HEXLOWER;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

/// Tells accounts apart in the record of what was bought. 32 bits of a digest: enough to notice a change of endpoint or
/// token, far too little to confirm a guess at a token.
pub(super) fn credential(cluster: &str, spec: &AccountSpec, token: &SecretString) -> String {
    let parts = [
        cluster,
        spec.endpoint.trim_end_matches('/'),
        token.expose_secret(),
    ];
    let digest = digest(&parts.map(str::as_bytes));
    HEXLOWER.encode(&digest[..4])
}

/// Accounts that differ in their paths do not share a session either: they may well talk to different services. Nor do
/// those that read its errors differently.
pub(super) fn session_key(spec: &AccountSpec, token: &SecretString) -> [u8; 32] {
    let paths = serde_json::to_vec(&spec.paths).unwrap_or_default();
    let codes = serde_json::to_vec(&spec.missing_codes).unwrap_or_default();
    digest(&[
        spec.endpoint.trim_end_matches('/').as_bytes(),
        token.expose_secret().as_bytes(),
        &paths,
        &codes,
    ])
}

/// The service limits a token, whatever paths and codes an Account names.
pub(super) fn gate_key(spec: &AccountSpec, token: &SecretString) -> [u8; 32] {
    let endpoint = spec.endpoint.trim_end_matches('/');
    digest(&[endpoint.as_bytes(), token.expose_secret().as_bytes()])
}

/// One digest of several parts, whose borders count.
pub(super) fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}
