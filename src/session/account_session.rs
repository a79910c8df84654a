//! A session, which Accounts with the same endpoint, token and connection settings share, and the account session of each of them.

use super::AccountLimits;
use super::slots::CallSlots;
use crate::api::conditions::Reason;
use crate::api::{AccountSpec, Verb};
use crate::catalog::Catalog;
use crate::cloud::{Client, Limits, Tls};
use crate::inventory::Inventory;
use jiff::tz::Offset;
use secrecy::SecretString;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Shared by all Accounts with the same endpoint, token and connection settings (see `digest::session_key`).
#[derive(Debug)]
pub struct Session {
    /// A unique number, to distinguish sessions.
    pub number: u64,
    /// Calls the service, under the shared limit.
    pub client: Client,
    /// The servers that the service lists.
    pub inventory: Inventory,
    /// The service's offers (images, packages, …).
    pub catalog: Catalog,
    /// For each verb: the age of the last task when the query was due that found its end.
    pub(super) took: Mutex<HashMap<Verb, Duration>>,
    /// The slots for calls to the service. Sessions that share the request limit share them, too.
    pub(super) slots: CallSlots,
    /// Sessions with this key share one request limit.
    pub(super) limiter_key: [u8; 32],
    pub(super) cancel: CancellationToken,
}

impl Session {
    /// How long the last task of this verb took, as far as this process knows.
    pub fn last_took(&self, verb: Verb) -> Option<Duration> {
        self.took().get(&verb).copied()
    }

    /// Records the age at which the query was due that found a task done. Call it only for a task that this process has followed
    /// from its begin.
    pub fn task_took(&self, verb: Verb, time: Duration) {
        self.took().insert(verb, time);
    }

    fn took(&self) -> MutexGuard<'_, HashMap<Verb, Duration>> {
        self.took.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// An Account's use of a session.
#[derive(Clone, Debug)]
pub struct AccountSession {
    /// The part that other Accounts share.
    pub shared: Arc<Session>,
    /// The objects that this account session was made from. A new version of a Secret, or another Account, needs a new account
    /// session.
    pub made_from: MadeFrom,
    /// The credential of records that are written now, a digest of cluster, endpoint and token. While it is the same, the
    /// account at the service is the same. None in a process that only reads, which believes the records.
    pub credential: Option<Arc<str>>,
    /// The credential that records of an earlier version have for the same endpoint and token.
    pub former_credential: Option<Arc<str>>,
    /// The settling time: how long a call whose answer was lost may still take effect (`Account.spec.settleSeconds`).
    pub settle: Duration,
    /// The time zone in which the service writes its times.
    pub utc_offset: Offset,
    /// How many servers the Account may have, and how many it may create per minute.
    pub limits: AccountLimits,
    /// The Account's spec and its credentials, for a copy of both.
    pub(super) source: Arc<(AccountSpec, ServiceCredentials)>,
}

impl AccountSession {
    /// The Account's spec.
    pub fn spec(&self) -> &AccountSpec {
        &self.source.0
    }

    /// Whether a record with this credential names the endpoint and token of this account session.
    pub fn is_named_by(&self, credential: &str) -> bool {
        let mut ours = self.credential.iter().chain(&self.former_credential);
        ours.any(|ours| **ours == *credential)
    }
}

/// The contents of the Secrets and the ConfigMap that an Account names.
#[derive(Clone, Debug)]
pub struct ServiceCredentials {
    pub token: SecretString,
    /// Which authorities we trust, and our client certificate.
    pub tls: Tls,
}

/// The objects that an account session was made from, in addition to the Account's spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// A sentence that names the object and the remedy.
    pub message: String,
}

impl Problem {
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { reason, message }
    }
}

/// The state of an Account, as this process knows it.
#[derive(Clone, Debug)]
pub enum AccountState {
    /// It can be used.
    Usable(Arc<AccountSession>),
    /// It exists and its first reconcile has not finished.
    Pending,
    /// It exists and cannot be used.
    Unusable(Problem),
    /// There is no such Account.
    NotFound,
}

/// An Account, or one that is gone and whose last account session deletions may still use.
pub(super) struct KnownAccount {
    pub state: AccountState,
    /// The newest account session, whether it can be used or not.
    pub newest: Option<Arc<AccountSession>>,
    /// The last usable account session. If none was usable yet: one that was made from a copy of the token, or whose probe
    /// failed. An Instance that is being deleted uses it if the Account is gone or cannot be used.
    pub last: Option<Arc<AccountSession>>,
}

impl KnownAccount {
    pub const fn new(state: AccountState) -> Self {
        Self {
            state,
            newest: None,
            last: None,
        }
    }

    /// Changes the state of an Account that is not gone. Returns whether `state` differs from the former one.
    pub fn set(&mut self, state: AccountState) -> bool {
        let is_same = match (&self.state, &state) {
            (AccountState::Usable(known), AccountState::Usable(new)) => Arc::ptr_eq(known, new),
            (AccountState::Unusable(known), AccountState::Unusable(new)) => known == new,
            _ => false,
        };
        if !matches!(self.state, AccountState::NotFound) {
            self.state = state;
        }
        !is_same
    }
}

/// The time zone of the service from the Account's spec. The schema rejects text that does not parse.
pub(super) fn utc_offset(spec: &AccountSpec) -> Offset {
    let parsed = jiff::fmt::strtime::parse("%:z", &spec.utc_offset);
    parsed
        .ok()
        .and_then(|time| time.offset())
        .unwrap_or(Offset::UTC)
}

pub fn limits(spec: &AccountSpec) -> Limits {
    let positive = |n: i32| u32::try_from(n).unwrap_or(1).max(1);
    let requests = &spec.requests;
    let windows = [(requests.per_minute, 60.0), (requests.per_hour, 3600.0)];
    let windows = windows.map(|(most, seconds)| Some((positive(most?), seconds)));
    let windows = || windows.iter().flatten().copied();
    // In any such period the service sees at most the burst plus what the rate allows: the sum must not exceed the user's limit.
    let burst = windows().map(|(most, _)| (most / 2).max(1));
    let burst = burst.fold(positive(requests.burst), u32::min);
    let rates = windows().map(|(most, seconds)| f64::from((most - burst).max(1)) / seconds);
    Limits {
        per_second: rates.fold(f64::from(positive(requests.per_second)), f64::min),
        burst,
        concurrent: positive(requests.concurrent) as usize,
    }
}

pub(super) fn account_limits(spec: &AccountSpec) -> AccountLimits {
    let count = |n: i32| usize::try_from(n).unwrap_or(0);
    AccountLimits {
        instances: spec.max_instances.map(count),
        creates: spec.create_rate.as_ref().map(|rate| count(rate.per_minute)),
    }
}
