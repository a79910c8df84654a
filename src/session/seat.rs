//! What one (endpoint, token) shares, the place of an Account in it, and what tells both apart.

use super::Most;
use crate::api::conditions::Reason;
use crate::api::{AccountSpec, KeyLoginPassword};
use crate::catalog::Catalog;
use crate::cloud::{Client, Limits};
use crate::inventory::Inventory;
use data_encoding::HEXLOWER;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What is shared by all Accounts with one endpoint and one token.
#[derive(Debug)]
pub struct Session {
    /// Tells sessions apart.
    pub number: u64,
    /// Calls to the service, under the shared limit.
    pub client: Client,
    /// What the service says exists.
    pub inventory: Inventory,
    /// What the service offers.
    pub catalog: Catalog,
    /// What the request limit is shared by.
    pub(super) gate_key: [u8; 32],
    pub(super) cancel: CancellationToken,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// An Account's place in a session.
#[derive(Clone, Debug)]
pub struct Seat {
    /// The shared part.
    pub session: Arc<Session>,
    /// What the seat was made from; another version of Secret or Account makes another seat.
    pub made_from: MadeFrom,
    /// A short digest of endpoint and token: as long as it stands, the account at the service is the same.
    pub credential: String,
    /// How long the outcome of a lost create stays open (`Account.spec.settleSeconds`).
    pub settle: Duration,
    /// What is sent as password with key login.
    pub key_login_password: KeyLoginPassword,
    /// How many servers the Account may have, and how fast.
    pub most: Most,
    /// The Account's spec and the token, for a copy of both.
    pub(super) source: Arc<(AccountSpec, SecretString)>,
}

impl Seat {
    /// Where the service is, as the Account says, without a slash at its end.
    pub(super) fn endpoint(&self) -> &str {
        self.source.0.endpoint.trim_end_matches('/')
    }
}

/// The versions that a seat was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeFrom {
    /// UID and resourceVersion of the token Secret.
    pub secret: String,
    /// UID of the Account.
    pub account: String,
    /// Generation of the Account's spec.
    pub generation: i64,
}

/// Why an Account cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The reason for the conditions of the Account.
    pub reason: Reason,
    /// A sentence that names the thing and the remedy.
    pub message: String,
}

/// What is known of an Account.
#[derive(Clone, Debug)]
pub enum Standing {
    /// It can be used.
    Usable(Arc<Seat>),
    /// It exists and has not been looked at yet.
    Pending,
    /// It exists and cannot be used.
    Unusable(Problem),
    /// There is no such Account.
    NotFound,
}

/// The request limits of an Account.
pub fn limits(spec: &AccountSpec) -> Limits {
    let positive = |n: i32| u32::try_from(n).unwrap_or(1).max(1);
    Limits {
        per_second: f64::from(positive(spec.requests.per_second)),
        burst: positive(spec.requests.burst),
        concurrent: positive(spec.requests.concurrent) as usize,
    }
}

pub(super) fn most(spec: &AccountSpec) -> Most {
    let count = |n: i32| usize::try_from(n).unwrap_or(0);
    Most {
        instances: spec.max_instances.map(count),
        creates: spec.create_rate.as_ref().map(|rate| count(rate.per_minute)),
    }
}

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

pub(super) fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}
