//! The context of every Account reconcile, and the memory of each Account.

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
pub struct AccountContext {
    pub client: Client,
    pub sessions: Sessions,
    pub secrets: SecretVersions,
    pub events: Events,
    pub metrics: Metrics,
    pub term: Term,
    /// Permissions that the operator has and should not have.
    pub rights: Rights,
    pub memories: AccountMemories,
    pub wake_instances: Arc<dyn Fn(&ObjectKey) + Send + Sync>,
}

/// The memory of this process about all Accounts; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct AccountMemories(Arc<Mutex<HashMap<ObjectKey, AccountMemory>>>);

/// The memory of this process about one Account.
#[derive(Clone, Debug, Default)]
pub struct AccountMemory {
    /// The last probe that was sent with the newest account session: when it began, and whether it succeeded.
    pub probed: Option<(Instant, bool)>,
    /// When the objects of `spec.tls` were last read, and the version of the CA bundle. Used only for a bundle in a ConfigMap,
    /// which no watch covers.
    pub bundle: Option<(Instant, String)>,
    /// A call was refused because of the token or the account: probe in the next reconcile.
    pub doubted: bool,
    /// The problem that the last probe found, with the message of the first probe that found the same reason: the service may
    /// put a new request identifier into each refusal, and a changed message means a write and a wake-up of every Instance. Also
    /// since when the service has not answered, if that is the problem.
    pub problem: Option<(Problem, Timestamp)>,
    /// Late servers of finalized Instances, and when their release may be retried.
    pub late: HashMap<ServerId, Instant>,
    /// Since when the Account has been usable without interruption.
    pub usable_since: Option<Instant>,
    pub written: Option<LastReport>,
    pub backoff: Backoff,
}

/// The last status that this process wrote.
#[derive(Clone, Debug)]
pub struct LastReport {
    pub at: Instant,
    pub generation: i64,
    pub readiness: Readiness,
}

impl AccountMemory {
    /// The Account is usable. Returns since when.
    pub(super) fn mark_usable(&mut self) -> Instant {
        self.backoff.reset();
        self.problem = None;
        *self.usable_since.get_or_insert_with(Instant::now)
    }

    pub(super) fn mark_unusable(&mut self, reason: Reason) {
        self.usable_since = None;
        self.problem.take_if(|(known, _)| known.reason != reason);
    }

    /// Records the problem that a probe found. Returns it with the message of the first probe that found the same reason.
    pub(super) fn first_report(&mut self, problem: Problem, since: Timestamp) -> Problem {
        self.mark_unusable(problem.reason);
        self.problem.get_or_insert((problem, since)).0.clone()
    }

    /// Since when the service has not answered; None if that is not the problem that the last probe found.
    pub(super) fn unreachable_since(&self) -> Option<Timestamp> {
        let problem = self.problem.as_ref();
        let problem = problem.filter(|(known, _)| known.reason == Reason::ServiceUnreachable);
        problem.map(|(_, since)| *since)
    }
}

impl AccountMemories {
    /// Failed calls suggest that the Account may have become unusable. If the service refused the token or the account, the next
    /// reconcile probes the service, unless a probe within `TOKEN_REFUSED_RETRY` showed that it refuses the token.
    pub fn doubt(&self, account: &ObjectKey, doubt: Doubt) {
        if doubt == Doubt::Credentials {
            self.update(account, |memory| memory.doubted = true);
        }
    }

    pub fn forget(&self, account: &ObjectKey) {
        self.lock().remove(account);
    }

    pub(super) fn get(&self, account: &ObjectKey) -> AccountMemory {
        self.update(account, |memory| memory.clone())
    }

    pub(super) fn update<T>(
        &self,
        account: &ObjectKey,
        change: impl FnOnce(&mut AccountMemory) -> T,
    ) -> T {
        change(self.lock().entry(account.clone()).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, AccountMemory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_reported_as_the_first_probe_found_it() {
        let mut memory = AccountMemory::default();
        let mut report =
            |problem: &Problem| memory.first_report(problem.clone(), Timestamp::UNIX_EPOCH);
        let first = Problem::new(Reason::RateLimited, "429, request 1");
        assert_eq!(report(&first), first);
        // Each refusal may carry its own number. A report of the new one would mean a write and a wake-up of every Instance.
        let again = Problem::new(Reason::RateLimited, "429, request 2");
        assert_eq!(report(&again), first);
        let other = Problem::new(Reason::TokenRefused, "401, request 3");
        assert_eq!(report(&other), other);
        assert_eq!(report(&again), again);
        // A problem that was not found by a probe comes in between.
        memory.mark_unusable(Reason::TokenNotFound);
        assert_eq!(
            memory.first_report(first.clone(), Timestamp::UNIX_EPOCH),
            first
        );
    }
}
