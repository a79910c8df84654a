//! The context of every Account reconcile, and the memory of each Account.

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

/// Shared by all Accounts; cheap to clone.
#[derive(Clone)]
pub struct Context {
    pub client: Client,
    pub sessions: Sessions,
    pub secrets: SecretVersions,
    pub events: Events,
    pub metrics: Metrics,
    pub term: Term,
    /// Permissions that the operator has and should not have.
    pub rights: Rights,
    pub memories: Memories,
    pub wake_instances: Arc<dyn Fn(&ObjectKey) + Send + Sync>,
}

/// The memory of this process about all Accounts; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Memories(Arc<Mutex<HashMap<ObjectKey, Memory>>>);

/// The memory of this process about one Account.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The last probe: when, and whether it succeeded.
    pub probed: Option<(Instant, bool)>,
    /// When the ConfigMap of the CA bundle was last read, and its version.
    pub bundle: Option<(Instant, String)>,
    /// A call was refused because of the token or the account: probe in the next reconcile.
    pub doubted: bool,
    /// Since when the service has not answered; None while it answers.
    pub outage: Option<Timestamp>,
    /// Why the Account is not usable, in the words of the first failure. The service may put a new request identifier into each
    /// refusal, and a changed message means a write and a wake-up of every Instance.
    pub problem: Option<Problem>,
    /// Late servers of finalized Instances, and when their release may be retried.
    pub late: HashMap<ServerId, Instant>,
    /// When this process first found the Account usable.
    pub began: Option<Instant>,
    /// Since when the Account has been usable without interruption.
    pub usable_since: Option<Instant>,
    pub written: Option<Written>,
    pub backoff: Backoff,
}

#[derive(Clone, Debug)]
pub struct Written {
    pub at: Instant,
    pub status: Box<AccountStatus>,
    /// The readiness that its conditions were made from.
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

    /// The problem, in the words of the first failure that showed it.
    pub(super) fn first_words(&mut self, problem: Problem) -> Problem {
        let known = self.problem.take();
        let known = known.filter(|known| known.reason == problem.reason);
        self.problem.insert(known.unwrap_or(problem)).clone()
    }
}

impl Memories {
    /// Failed calls suggest that the Account may have become unusable. If the service refused its token, the next reconcile
    /// probes the service in any case.
    pub fn doubt(&self, account: &ObjectKey, doubt: Doubt) {
        if doubt == Doubt::Credentials {
            self.lock().entry(account.clone()).or_default().doubted = true;
        }
    }

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
