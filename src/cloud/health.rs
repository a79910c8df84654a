//! Tracks whether the service answers, from the calls that are made anyway: while listings succeed, no extra call is needed.

use super::cloud_call::CloudCall;
use super::error::Error;
use super::times;
use crate::runtime::chance;
use jiff::Timestamp;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The state of the service as one client observes it. Cheap to clone; all clones share the state.
#[derive(Clone, Default)]
pub struct Health(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    doubted: OnceLock<Box<dyn Fn(Doubt) + Send + Sync>>,
}

#[derive(Default)]
struct State {
    answered: Option<Instant>,
    trouble: Option<Trouble>,
    account: AccountHealth,
}

/// Whether the service accepts operations of the account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AccountHealth {
    /// No create was accepted yet, and no operation was refused because of the account's status.
    #[default]
    Unknown,
    /// A create was accepted, or the operation that had been refused.
    Normal,
    /// An operation was refused because of the account's status, and the same operation was not accepted since.
    Abnormal(Abnormal),
}

/// A question that should be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Whether the service answers: a call failed or is waiting too long, and no trouble was known.
    Service,
    /// Whether the service accepts the token and the account: a call was refused because of them.
    Credentials,
}

/// No call was answered since a certain time: calls failed or are waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The start of this time.
    pub since: Instant,
    /// The same time, to be shown to users.
    pub began: Timestamp,
}

/// The service refuses an operation because of the account's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abnormal {
    /// The refused operation.
    pub operation: CloudCall,
    /// The last refusal of this operation.
    pub at: Instant,
    /// The message of the first refusal of this operation.
    pub message: String,
}

impl Health {
    /// Registers a function that is called with each doubt. A doubt about the service comes once for each trouble. A doubt about
    /// the credentials comes with each refusal of the token or the account, except repeated refusals of mutating calls because of
    /// the account's status. Only the first registration counts.
    pub fn on_doubt(&self, notify: impl Fn(Doubt) + Send + Sync + 'static) {
        // Set once, when the session is opened.
        let _ = self.0.doubted.set(Box::new(notify));
    }

    /// The current trouble; none if calls are answered.
    pub fn trouble(&self) -> Option<Trouble> {
        self.lock().trouble
    }

    /// The health of the account, derived from the results of operations.
    pub fn account(&self) -> AccountHealth {
        self.lock().account.clone()
    }

    /// Waits for a call, and records trouble if it takes too long.
    pub(super) async fn watch<T>(&self, call: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let mut call = pin!(call);
        match timeout(times::DOUBTED_UNANSWERED_AFTER, call.as_mut()).await {
            Ok(done) => done,
            Err(_) => {
                self.trouble_since(began);
                call.await
            }
        }
    }

    /// Records the end of a call that began at this time.
    pub(super) fn ended(&self, operation: CloudCall, began: Instant, error: Option<&Error>) {
        match error {
            Some(error) if error.is_outage() => return self.trouble_since(began),
            // The error has a cause in this process, not in the service.
            Some(error) if error.status().is_none() => return,
            Some(_) | None => {}
        }
        let mut state = self.lock();
        state.answered = Some(Instant::now());
        state.trouble = None;
        let was_refused = matches!(state.account, AccountHealth::Abnormal(_));
        state.note_account(operation, error);
        drop(state);
        // The refusal of an operation because of the account's status casts doubt once: further refusals show nothing new.
        let is_known = was_refused && operation.is_mutating();
        let casts_doubt =
            |error: &Error| error.is_unauthorized() || (error.is_account_not_normal() && !is_known);
        if error.is_some_and(casts_doubt) {
            self.doubt(Doubt::Credentials);
        }
    }

    /// Records that a call that began at this time failed or is not answered. If another call was answered since then, the
    /// trouble begins at that answer.
    fn trouble_since(&self, began: Instant) {
        let mut state = self.lock();
        if state.trouble.is_some() {
            return;
        }
        let since = state.answered.map_or(began, |answered| answered.max(began));
        state.trouble = Some(Trouble {
            since,
            began: chance::time_of_day()
                .checked_sub(Duration::from_secs(since.elapsed().as_secs()))
                .unwrap_or_default(),
        });
        drop(state);
        self.doubt(Doubt::Service);
    }

    fn doubt(&self, doubt: Doubt) {
        if let Some(notify) = self.0.doubted.get() {
            notify(doubt);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn note_account(&mut self, operation: CloudCall, error: Option<&Error>) {
        let refused =
            error.filter(|error| operation.is_mutating() && error.is_account_not_normal());
        match (refused, error, &mut self.account) {
            (Some(_), _, AccountHealth::Abnormal(known)) if known.operation == operation => {
                known.at = Instant::now();
            }
            (Some(refused), _, account) => {
                *account = AccountHealth::Abnormal(Abnormal {
                    operation,
                    at: Instant::now(),
                    message: refused.to_string(),
                });
            }
            (None, None, AccountHealth::Abnormal(known)) if known.operation == operation => {
                self.account = AccountHealth::Normal;
            }
            (None, None, account @ AccountHealth::Unknown) if operation == CloudCall::Create => {
                *account = AccountHealth::Normal;
            }
            (None, _, _) => {}
        }
    }
}

#[cfg(test)]
mod tests;
