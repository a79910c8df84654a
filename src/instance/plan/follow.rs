//! An operation on a recorded server is open: follows it to its end, regardless of the outcome of its call.
//!
//! With a receipt, nothing that erases or reboots is ever repeated. Without one, the server's state after the settling time
//! decides; if that shows nothing, only harmless operations are repeated (rules 10 and 11).

mod call;
mod end;
mod force;
mod open;
mod settle;

use crate::api::{Operation, Verb};
use crate::cloud::{Detail, ServerId, TaskState};
use crate::instance::fact::Fact;
use crate::instance::memory::call::CallState;
use crate::instance::observation::{Observation, SessionFacts, is_idle};
use crate::instance::plan::step::{Plan, Request};
use crate::instance::plan::why::Why;
use crate::instance::plan::{evidence, replace, words};
use crate::instance::{observation, times};
use open::{End, Open};
use std::time::Duration;

pub(super) fn follow(
    observed: &Observation,
    session: &SessionFacts,
    operation: &Operation,
    id: &ServerId,
) -> Plan {
    let open = Open {
        observed,
        operation,
        id,
    };
    if observed.look().is_absent() && evidence::is_missing(observed, session, id) {
        return replace::gone(observed, session, id);
    }
    let attempt = observed.memory.call_of(operation);
    let was_taken =
        attempt.is_some_and(|attempt| matches!(attempt.state, CallState::Accepted { .. }));
    if evidence::is_reported_missing(observed, id)
        && !was_taken
        && !matches!(observed.detail, Fact::Known(_))
    {
        let plan = Plan::wait(times::PASS_RECHECK).in_flight();
        return plan.with_id(Some(id.clone()));
    }
    let since = attempt.map_or(observed.now, |attempt| attempt.since);
    match (attempt.map(|attempt| &attempt.state), &operation.task_id) {
        (_, Some(_)) => open.by_task(),
        // The service accepted the call and named no task.
        (Some(CallState::Accepted { .. }), None) => open.by_state(),
        // This process knows that the call had no effect.
        (Some(CallState::NotSent), None) => open.not_sent(),
        (Some(CallState::Refused { message, reason }), None) => {
            open.after_refusal(message, *reason)
        }
        // The outcome is unknown.
        (Some(CallState::Unknown) | None, None) => open.settle(since + session.settle),
    }
}

impl Open<'_> {
    fn by_task(&self) -> Plan {
        if let Some(plan) = self.cut_power() {
            return plan;
        }
        let seen_task = &self.observed.task;
        match (seen_task, &self.observed.detail) {
            (Fact::Known(TaskState::Failed { reason }), _) => {
                if let Some(plan) = self.cut_is_under_way() {
                    return plan;
                }
                let words = reason.as_deref().unwrap_or("the service gave no reason");
                self.conclude(End::failed(words))
            }
            (Fact::Known(TaskState::Succeeded), Fact::Known(detail))
                if is_idle(detail.pending()) =>
            {
                self.finish(detail, self.observed.has_been_idle())
            }
            // The service forgot the task or never reports its end, and the server has been idle for long.
            (
                Fact::Absent | Fact::Unknown(_) | Fact::Known(TaskState::Unknown { .. }),
                Fact::Known(detail),
            ) if self.observed.has_been_idle() && is_inconclusive(seen_task, self.observed) => {
                self.finish(detail, true)
            }
            // The service reports the task as running. Believe that until it has run too long for a server that shows no
            // operation.
            (Fact::Known(TaskState::Running), Fact::Known(detail))
                if self.observed.has_been_idle()
                    && self.is_overdue()
                    && self.effect() != Some(false) =>
            {
                self.finish(detail, true)
            }
            _ => self.running(words::running(self.verb(), self.id)),
        }
    }

    /// Follows the server's state, since there is no task.
    fn by_state(&self) -> Plan {
        if let Some(plan) = self.cut_power() {
            return plan;
        }
        match (&self.observed.detail, self.effect()) {
            (Fact::Known(detail), Some(true)) if is_idle(detail.pending()) => {
                self.finish(detail, false)
            }
            (Fact::Known(detail), _) if self.observed.has_been_idle() => self.finish(detail, true),
            _ => self.running(words::running(self.verb(), self.id)),
        }
    }

    /// Whether the server has the image that the operation was to install; true if it shows no image.
    fn shows_its_image(&self, detail: &Detail) -> bool {
        let target = &self.operation.target.image;
        let shown = observation::text(&detail.fields, "imageResourceUUID");
        target.is_empty() || shown.is_none_or(|image| image == target)
    }

    /// The service reports that the operation is done. A reinstall ends when the new image shows, after a server that was
    /// running, or should run, has been started again. `for_sure`: an effect that does not show by now never will.
    fn finish(&self, detail: &Detail, for_sure: bool) -> Plan {
        let shows = self.effect();
        let may_show = !for_sure || self.observed.unknown_state(&detail.fields).is_some();
        if shows == Some(false) && may_show {
            return self.running(words::running(self.verb(), self.id));
        }
        match self.verb() {
            Verb::Reinstall if self.is_to_be_started(detail) => {
                self.auxiliary(Verb::Start, Request::Start(self.id.clone()))
            }
            // Repeating these after a pause does no harm.
            Verb::Start | Verb::Stop if shows == Some(false) => self.conclude(End::failed(
                "the service says that it is done, and the server does not show it",
            )),
            // The receipt forbids a repeat, so an image that does not show counts as drift. Its password may not have been set
            // either.
            Verb::Reinstall if !self.shows_its_image(detail) => self.conclude(End::Assumed),
            _ => self.conclude(End::Well),
        }
    }

    /// Whether the server shows the effect of the operation; None if nothing shows it.
    fn effect(&self) -> Option<bool> {
        let Fact::Known(detail) = &self.observed.detail else {
            return None;
        };
        let operation = self.operation;
        let target = operation.target.image.as_str();
        let was_seen = self.observed.memory.calls.pending_seen.then_some(true);
        match operation.verb {
            Verb::Start => Some(detail.status() == Some("STARTED")),
            Verb::Stop => Some(detail.status() == Some("STOPPED")),
            Verb::Reinstall if self.shows_by_image() => match detail.image()?.as_str() {
                image if image == target => Some(true),
                image if operation.before.image.as_deref() == Some(image) => Some(false),
                // Another image was installed externally, after our reinstall or instead of it.
                _ => None,
            },
            Verb::Reinstall => was_seen,
            Verb::Restart => was_seen,
            Verb::ModifyPassword | Verb::Create | Verb::Release => None,
        }
    }

    /// Whether the image shows if the reinstall took effect: the server had another one before.
    fn shows_by_image(&self) -> bool {
        let operation = self.operation;
        let before = operation.before.image.as_ref();
        before.is_some_and(|before| *before != operation.target.image)
    }

    fn running(&self, note: String) -> Plan {
        let why = match self.is_overdue() {
            true => words::overdue(&note).into(),
            false => Why::progress(words::reason(self.verb()), note),
        };
        self.because(why, times::PASS_RECHECK)
            .in_flight_while_readable(self.observed)
    }

    /// Does nothing about the open operation, for this reason.
    fn because(&self, why: impl Into<Why>, again: Duration) -> Plan {
        Plan::rest(why, again)
            .with_id(Some(self.id.clone()))
            .with_operation(Some(self.operation.clone()))
    }

    fn is_overdue(&self) -> bool {
        let limit = match self.verb() {
            Verb::Reinstall => times::REINSTALL_OVERDUE,
            _ => times::OPERATION_OVERDUE,
        };
        let attempt = self.call();
        attempt.is_some_and(|attempt| self.observed.now >= attempt.since + limit)
    }
}

/// Whether the task is forgotten, or has given no useful answer for long. A single failed query is no evidence.
fn is_inconclusive(task: &Fact<TaskState>, observed: &Observation) -> bool {
    let poll = observed.memory.observations.poll.as_ref();
    let since = poll.and_then(|poll| poll.inconclusive_since);
    matches!(task, Fact::Absent)
        || since.is_some_and(|since| observed.now >= since + times::IDLE_COUNTS_AS_DONE)
}
