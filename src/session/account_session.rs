//! What one (endpoint, token) shares, and the place of an Account in it.

use super::line::Line;
use super::{Durations, Most};
use crate::api::conditions::Reason;
use crate::api::{AccountSpec, Imports, KeyLoginPassword, PasswordSpecialCharacters};
use crate::catalog::Catalog;
use crate::cloud::{Client, Limits, Tls};
use crate::inventory::Inventory;
use jiff::tz::Offset;
use secrecy::SecretString;
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
    /// How long its tasks take.
    pub durations: Durations,
    /// Who may call the service now: shared as the request limit is.
    pub(super) line: Line,
    /// What the request limit is shared by.
    pub(super) limiter_key: [u8; 32],
    pub(super) cancel: CancellationToken,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// An Account's place in a session.
#[derive(Clone, Debug)]
pub struct AccountSession {
    /// The shared part.
    pub shared: Arc<Session>,
    /// What the account session was made from; another version of the Secret, or another Account, makes another account session.
    pub made_from: MadeFrom,
    /// Endpoint and token under the key of the installation: as long as it stands, the account at the service is the same. None
    /// where nobody has the key: then what a record says is believed.
    pub credential: Option<Arc<str>>,
    /// How long the outcome of a lost create stays open (`Account.spec.settleSeconds`).
    pub settle: Duration,
    /// What is sent as password with key login.
    pub key_login_password: KeyLoginPassword,
    /// The time zone in which the service writes its times.
    pub utc_offset: Offset,
    /// How many servers the Account may have, and how fast.
    pub most: Most,
    /// The Account's spec and its credentials, for a copy of both.
    pub(super) source: Arc<(AccountSpec, Credentials)>,
}

impl AccountSession {
    /// Whether servers that exist may be taken over.
    pub fn imports(&self) -> Imports {
        self.source.0.imports
    }

    /// How many special characters the service allows in a password.
    pub fn password_special_characters(&self) -> PasswordSpecialCharacters {
        self.source.0.password_special_characters
    }

    /// Where the service is, as the Account says, without a slash at its end.
    pub(super) fn endpoint(&self) -> &str {
        self.source.0.endpoint.trim_end_matches('/')
    }
}

/// What the Secrets and the ConfigMap hold that an Account names.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The token.
    pub token: SecretString,
    /// Whom we trust, and who we say we are.
    pub tls: Tls,
}

impl From<SecretString> for Credentials {
    /// A token alone.
    fn from(token: SecretString) -> Self {
        Self {
            token,
            tls: Tls::default(),
        }
    }
}

/// The objects that an account session was made from, beside what the Account's spec says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeFrom {
    /// UID and resourceVersion of the token Secret.
    pub secret: String,
    /// UID and resourceVersion of each object that `spec.tls` names.
    pub tls: String,
    /// UID of the Account.
    pub account: String,
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
    Usable(Arc<AccountSession>),
    /// It exists and has not been looked at yet.
    Pending,
    /// It exists and cannot be used.
    Unusable(Problem),
    /// There is no such Account.
    NotFound,
}

/// The time zone of the service, as the Account says. The schema admits no text that cannot be read.
pub(super) fn utc_offset(spec: &AccountSpec) -> Offset {
    let parsed = jiff::fmt::strtime::parse("%:z", &spec.utc_offset);
    parsed
        .ok()
        .and_then(|time| time.offset())
        .unwrap_or(Offset::UTC)
}

/// The request limits of an Account.
pub fn limits(spec: &AccountSpec) -> Limits {
    let positive = |n: i32| u32::try_from(n).unwrap_or(1).max(1);
    let requests = &spec.requests;
    let windows = [(requests.per_minute, 60.0), (requests.per_hour, 3600.0)];
    let windows = windows.map(|(most, seconds)| Some((positive(most?), seconds)));
    let windows = || windows.iter().flatten().copied();
    // In any such time the burst passes, and what the rate allows: both together are no more than the user allows.
    let burst = windows().map(|(most, _)| (most / 2).max(1));
    let burst = burst.fold(positive(requests.burst), u32::min);
    let rates = windows().map(|(most, seconds)| f64::from((most - burst).max(1)) / seconds);
    Limits {
        per_second: rates.fold(f64::from(positive(requests.per_second)), f64::min),
        burst,
        concurrent: positive(requests.concurrent) as usize,
    }
}

pub(super) fn most(spec: &AccountSpec) -> Most {
    let count = |n: i32| usize::try_from(n).unwrap_or(0);
    Most {
        instances: spec.max_instances.map(count),
        creates: spec.create_rate.as_ref().map(|rate| count(rate.per_minute)),
    }
}
