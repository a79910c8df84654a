//! The answers to calls that have no intent, because they may be repeated until their effect shows: a release, and an auxiliary
//! stop or start within an attempt.

use super::{Accepted, Attempt};
use crate::api::Verb;
use crate::cloud::{Error, ServerId};
use crate::instance::memory::call::{Release, ReleaseCall};
use crate::instance::memory::kinds::Auxiliary;
use crate::instance::memory::open;
use crate::instance::outcome::{Outcome, Trouble};
use crate::instance::plan::step::{ReleaseReason, Request};
use crate::instance::times;
use tokio::time::Instant;

impl Attempt<'_> {
    pub(super) fn release(
        &self,
        id: ServerId,
        why: ReleaseReason,
        answer: Result<Accepted, Error>,
    ) -> Outcome {
        let mut memory = open(self.memory);
        let former = memory.release_call(&id).cloned();
        let was_unknown = former.as_ref().is_some_and(|call| call.is_unknown);
        // An earlier call that was accepted remains valid, regardless of the result of its repetition.
        let accepted = former.filter(|call| call.accepted);
        let was_accepted = accepted.is_some();
        let mut call = ReleaseCall {
            at: Instant::now(),
            accepted: was_accepted,
            task: accepted.and_then(|call| call.task),
            trouble: None,
            is_unknown: false,
            not_before: None,
        };
        let trouble = match answer {
            Ok((_, task)) => {
                (call.accepted, call.task) = (true, task);
                // A new task with its own poll schedule.
                memory.observations.poll = None;
                if why == ReleaseReason::Surplus {
                    self.context.metrics.surplus_released();
                }
                None
            }
            Err(error) => {
                let wait = memory.pace.backoff.fail();
                let wait = wait.max(error.retry_after().unwrap_or_default());
                let wait = match error.is_retryable() {
                    true => wait.min(times::DEPENDENCY_RETRY_MAX),
                    false => wait,
                };
                if error.is_unauthorized() {
                    (self.context.doubt_account)(&self.observed.account_key);
                }
                call.trouble = Some(error.to_string());
                call.is_unknown = error.may_have_happened();
                call.not_before = Some(call.at + wait);
                Some(Trouble::of(&error))
            }
        };
        let is_known = was_accepted || (call.is_unknown && was_unknown);
        memory.calls.releases.insert(id, Release::Asked(call));
        memory.observations.look.at = None;
        Outcome::Repeatable {
            is_new: !is_known,
            trouble,
        }
    }

    pub(super) fn auxiliary(&self, request: &Request, error: Option<Error>) -> Outcome {
        let may_have_happened = error.as_ref().is_none_or(Error::may_have_happened);
        let is_refused = error
            .as_ref()
            .is_some_and(|error| error.is_conflict() || !error.is_retryable());
        let trouble = error.as_ref().map(Trouble::of);
        let power_cut = matches!(request, Request::Stop { force: true, .. });
        let verb = request.verb();
        let mut memory = open(self.memory);
        let open_now = self.observed.open();
        let attempt = open_now.as_ref().map(|open| open.attempt);
        // After failed tries, the try that is accepted counts as the first and is reported.
        let former = memory.calls.auxiliary.take();
        let same = former.as_ref().filter(|former| former.verb == verb);
        let was_accepted = same.is_some_and(|former| former.trouble.is_none());
        let was_unknown = same.is_some_and(|former| former.is_unknown);
        let is_first = !was_accepted || (power_cut && memory.calls.cut_for != attempt);
        if power_cut && may_have_happened {
            memory.calls.cut_for = attempt;
        }
        if verb == Verb::Stop && open_now.is_some_and(|open| open.verb == Verb::Reinstall) {
            memory.calls.stopped_for = attempt;
        }
        // A repeated refusal shows no new state, so it does not need another read.
        if !(is_refused && former.as_ref().is_some_and(|former| former.is_refused)) {
            memory.observations.look.at = None;
        }
        let is_unknown = trouble.as_ref().is_some_and(|trouble| trouble.is_unknown);
        memory.calls.auxiliary = Some(Box::new(Auxiliary {
            verb,
            at: Instant::now(),
            trouble: trouble.as_ref().map(|trouble| trouble.message.clone()),
            is_unknown,
            is_refused,
        }));
        Outcome::Repeatable {
            is_new: is_first && !(is_unknown && was_unknown),
            trouble,
        }
    }
}
