//! The answer to a release, which has no intent because it may be repeated until its effect shows.

use super::{Attempt, ServerAndTask};
use crate::cloud::{Error, ServerId};
use crate::instance::memory::call::{Release, ReleaseCall};
use crate::instance::memory::open;
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
        let mut memory = open(self.memory);
        let former = memory.release_call(&id).cloned();
        let former_failure = former.as_ref().and_then(|call| call.failure.clone());
        let has_unknown_outcome =
            |failure: &Option<ReleaseFailure>| failure.as_ref().is_some_and(|it| it.is_unknown);
        // An earlier call that was accepted remains valid, regardless of the result of its repetition.
        let accepted = former.filter(|call| call.accepted);
        let was_accepted = accepted.is_some();
        let mut call = ReleaseCall {
            at: Instant::now(),
            accepted: was_accepted,
            task: accepted.and_then(|call| call.task),
            failure: None,
            not_before: None,
        };
        match answer {
            Ok((_, task)) => {
                (call.accepted, call.task) = (true, task);
                // A new task with its own poll schedule.
                memory.observations.poll = None;
                if why == ReleaseReason::Surplus {
                    self.context.metrics.surplus_released.inc();
                }
            }
            Err(error) => {
                let wait = memory.pace.backoff.fail();
                let wait = wait.max(error.retry_after().unwrap_or_default());
                // A service that is down is called again soon after it is back, even if it asked for a longer wait.
                let wait = match error.is_retryable() {
                    true => wait.min(times::DEPENDENCY_RETRY_MAX),
                    false => wait,
                };
                if error.is_unauthorized() {
                    (self.context.doubt_account)(&self.observed.account_key);
                }
                call.failure = Some(ReleaseFailure {
                    message: error.to_string(),
                    is_unknown: error.may_have_happened(),
                });
                call.not_before = Some(call.at + wait);
            }
        }
        let failure = call.failure.clone();
        if let Some(failure) = failure
            .as_ref()
            .filter(|new| former_failure.as_ref() != Some(*new))
        {
            let what = match failure.is_unknown {
                true => "the outcome of a call is unknown",
                false => "the service did not accept the call",
            };
            journal::not_done(&self.observed.facts, &failure.message, what);
        }
        let is_repetition =
            was_accepted || (has_unknown_outcome(&former_failure) && has_unknown_outcome(&failure));
        memory.releases.insert(id, Release::Asked(call));
        memory.observations.look.at = None;
        Outcome::Release {
            is_new: !is_repetition,
            failure,
        }
    }
}
