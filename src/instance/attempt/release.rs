//! The answer to a release, which has no intent because it may be repeated until its effect shows.

use super::{Attempt, ServerAndTask};
use crate::cloud::{Error, ServerId};
use crate::instance::memory::call::{Release, ReleaseCall};
use crate::instance::memory::lock;
use crate::instance::outcome::{Outcome, ReleaseFailure};
use crate::instance::plan::step::ReleaseReason;
use crate::instance::{journal, times};
use tokio::time::Instant;

impl Attempt<'_> {
    pub(super) fn release(
        &self,
        id: ServerId,
        why: ReleaseReason,
        answer: Result<ServerAndTask, Error>,
    ) -> Outcome {
        let mut memory = lock(self.memory);
        let former = memory.release_call(&id).cloned();
        let former_failure = former.as_ref().and_then(|call| call.failure.clone());
        // An earlier call that was accepted remains valid, regardless of the result of its repetition.
        let accepted = former.filter(|call| call.accepted);
        let was_accepted = accepted.is_some();
        let at = Instant::now();
        let call = match answer {
            Ok((_, task)) => {
                // A new task with its own poll schedule.
                memory.observations.poll = None;
                if why == ReleaseReason::Surplus {
                    self.context.metrics.surplus_released.inc();
                }
                ReleaseCall {
                    at,
                    accepted: true,
                    task,
                    failure: None,
                    not_before: None,
                }
            }
            Err(error) => {
                let wait = memory.pace.backoff.fail();
                let wait = wait.max(error.retry_after().unwrap_or_default());
                // A retryable error is followed by another call soon. After 429, the rate limiter waits for the requested time.
                let wait = match error.is_retryable() {
                    true => wait.min(times::DEPENDENCY_RETRY_MAX),
                    false => wait,
                };
                self.context
                    .note_failure(&self.observed.account_key, error.is_unauthorized());
                ReleaseCall {
                    at,
                    accepted: was_accepted,
                    task: accepted.and_then(|call| call.task),
                    failure: Some(ReleaseFailure {
                        message: error.to_string(),
                        category: error.category(),
                        is_unknown: error.may_have_happened(),
                    }),
                    not_before: Some(at + wait),
                }
            }
        };
        let failure = call.failure.clone();
        if let Some(failure) = &failure
            && former_failure.as_ref() != Some(failure)
        {
            let what = match failure.is_unknown {
                true => "the outcome of a call is unknown",
                false => "the service did not accept the call",
            };
            journal::not_done(&self.observed.facts, failure.category, what);
        }
        let is_unknown =
            |failure: &Option<ReleaseFailure>| failure.as_ref().is_some_and(|it| it.is_unknown);
        let is_repetition = was_accepted || (is_unknown(&former_failure) && is_unknown(&failure));
        memory.releases.insert(id, Release::Asked(call));
        memory.observations.look.at = None;
        Outcome::Release {
            is_new: !is_repetition,
            failure,
        }
    }
}
