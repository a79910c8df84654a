//! Whether the service answers, as the calls of all who use it show: nobody has to ask for it while all is well.

use super::error::Error;
use super::operation::Operation;
use super::times;
use crate::runtime::chance;
use jiff::Timestamp;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// What one client has seen of the service; cheap to clone, all clones are one.
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
    standing: Standing,
}

/// Whether the service does for the account what is asked of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Nothing was asked of it yet.
    #[default]
    Unknown,
    /// A create was taken.
    Normal,
    /// An operation was refused because of the account's standing, and was not taken since.
    Abnormal(Abnormal),
}

/// What ought to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Whether the service answers: the first call failed, or is not answered, since others were.
    Service,
    /// Whether it takes the token, or the account: a call was refused for them.
    Credentials,
}

/// No call was answered since then: calls failed, or wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Since when.
    pub since: Instant,
    /// The same, to show to people.
    pub began: Timestamp,
}

/// The service refuses an operation because of the account's standing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abnormal {
    /// What was refused.
    pub operation: Operation,
    /// The last refusal.
    pub at: Instant,
    /// Its words, those of the first refusal.
    pub message: String,
}

impl Health {
    /// Has somebody told of each doubt, once for as long as it lasts. Only the first who asks is told.
    pub fn on_doubt(&self, told: impl Fn(Doubt) + Send + Sync + 'static) {
        // Set once, when the client is made.
        let _ = self.0.doubted.set(Box::new(told));
    }

    /// Set while no call is answered.
    pub fn trouble(&self) -> Option<Trouble> {
        self.lock().trouble
    }

    /// How the account stands, as what was asked of the service shows.
    pub fn standing(&self) -> Standing {
        self.lock().standing.clone()
    }

    /// Waits for a call, and notes when it takes too long.
    pub(super) async fn subscribe<T>(&self, call: impl Future<Output = T>) -> T {
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

    /// A call that began then ended.
    pub(super) fn heard(&self, operation: Operation, began: Instant, error: Option<&Error>) {
        match error {
            Some(error) if error.is_outage() => return self.trouble_since(began),
            // It has to do with us and not with the service.
            Some(error) if error.status().is_none() => return,
            Some(_) | None => {}
        }
        let mut state = self.lock();
        state.answered = Some(Instant::now());
        state.trouble = None;
        let was_refused = matches!(state.standing, Standing::Abnormal(_));
        state.stands(operation, error);
        drop(state);
        // That an operation is refused for the account's standing says so once: the next refusals show nothing new.
        let is_known = was_refused && operation.is_mutating();
        let casts_doubt =
            |error: &Error| error.is_unauthorized() || (error.is_account_not_normal() && !is_known);
        if error.is_some_and(casts_doubt) {
            self.doubt(Doubt::Credentials);
        }
    }

    /// A call that began then failed, or is not answered. Who was answered meanwhile was answered by the same service.
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
        if let Some(told) = self.0.doubted.get() {
            told(doubt);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn stands(&mut self, operation: Operation, error: Option<&Error>) {
        let refused =
            error.filter(|error| operation.is_mutating() && error.is_account_not_normal());
        match (refused, error, &mut self.standing) {
            (Some(_), _, Standing::Abnormal(known)) if known.operation == operation => {
                known.at = Instant::now();
            }
            (Some(refused), _, standing) => {
                *standing = Standing::Abnormal(Abnormal {
                    operation,
                    at: Instant::now(),
                    message: refused.to_string(),
                });
            }
            (None, None, Standing::Abnormal(known)) if known.operation == operation => {
                self.standing = Standing::Normal;
            }
            (None, None, standing @ Standing::Unknown) if operation == Operation::Create => {
                *standing = Standing::Normal;
            }
            (None, _, _) => {}
        }
    }
}

#[cfg(test)]
mod tests;
