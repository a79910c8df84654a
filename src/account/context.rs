//! What every look at an Account works with, and what is remembered of it.

use crate::api::AccountStatus;
use crate::api::conditions::{Readiness, Reason};
use crate::cloud::{Doubt, ServerId};
use crate::runtime::events::Events;
use crate::runtime::watch::ObjectKey;
use crate::runtime::{Backoff, Metrics, Rights, Term};
use crate::session::{Problem, SecretVersions, Sessions};
use jiff::Timestamp;
use kube::Client;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// What is the same for all Accounts; cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The apiserver.
    pub client: Client,
    /// Where the account sessions are.
    pub sessions: Sessions,
    /// Which Secrets exist.
    pub secrets: SecretVersions,
    /// Events.
    pub events: Events,
    /// Counters.
    pub metrics: Metrics,
    /// The term of this process.
    pub term: Term,
    /// What the operator may do although it must not.
    pub rights: Rights,
    /// What is remembered of each Account, by UID.
    pub memories: Memories,
    /// Wakes the Instances of an Account.
    pub wake_instances: Arc<dyn Fn(&ObjectKey) + Send + Sync>,
}

/// What this process remembers of all Accounts; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Memories(Arc<Mutex<HashMap<ObjectKey, Memory>>>);

/// What this process remembers of one Account.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The last cheap call: when, and whether the service took it.
    pub probed: Option<(Instant, bool)>,
    /// When the ConfigMap of the CA bundle was read last, and in which version it stood.
    pub bundle: Option<(Instant, String)>,
    /// A call was refused for the token or the account: look again now.
    pub doubted: bool,
    /// Since when the service does not answer, while that is so.
    pub outage: Option<Timestamp>,
    /// Why it cannot be used, in the words of the first try that showed it: the service may put an identifier of the request into
    /// each of its refusals, and other words are a write and wake every Instance.
    pub problem: Option<Problem>,
    /// Late servers of finalised Instances, and from when on their release may be called again.
    pub late: HashMap<ServerId, Instant>,
    /// When this process found that it can be used, for the first time.
    pub began: Option<Instant>,
    /// Since when the Account can be used without a break.
    pub usable_since: Option<Instant>,
    /// The last write of status.
    pub written: Option<Written>,
    /// Failures in a row.
    pub backoff: Backoff,
}

/// A write of status.
#[derive(Clone, Debug)]
pub struct Written {
    /// When.
    pub at: Instant,
    /// What.
    pub status: Box<AccountStatus>,
    /// What its conditions were made from.
    pub said: Readiness,
}

impl Memory {
    pub(super) fn is_unusable(&mut self, reason: Reason) {
        self.usable_since = None;
        if reason != Reason::ServiceUnreachable {
            self.outage = None;
        }
        self.problem = self.problem.take().filter(|known| known.reason == reason);
    }

    /// What is wrong, in the words of the first try that showed it.
    pub(super) fn first_words(&mut self, problem: Problem) -> Problem {
        let known = self.problem.take();
        let known = known.filter(|known| known.reason == problem.reason);
        self.problem.insert(known.unwrap_or(problem)).clone()
    }
}

impl Memories {
    /// What calls show of the service may make the Account unusable: the next reconcile looks. Where the service refused the
    /// Account's token to somebody, it tries it in any case.
    pub fn doubt(&self, account: &ObjectKey, doubt: Doubt) {
        if doubt == Doubt::Credentials {
            self.lock().entry(account.clone()).or_default().doubted = true;
        }
    }

    /// The Account is gone.
    pub fn forget(&self, account: &ObjectKey) {
        self.lock().remove(account);
    }

    pub(super) fn get(&self, account: &ObjectKey) -> Memory {
        self.lock().entry(account.clone()).or_default().clone()
    }

    pub(super) fn update(&self, account: &ObjectKey, change: impl FnOnce(&mut Memory)) {
        change(self.lock().entry(account.clone()).or_default());
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Memory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
