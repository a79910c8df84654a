//! An operation on a recorded server is open: follows it from call to call until it ends, well or badly.
//!
//! A call that the service accepted is never repeated; a new attempt follows a failed task. Without a receipt, the server's state
//! decides after the settling time, or sooner if the effect is evident. If the state shows nothing, the operation is requested
//! again, except for a reinstall (rules 10 and 11 of `docs/maintainers/proof.md`).
//!
//! [`follow`] distinguishes what is known about the current call. Each of its arms waits, usually for the call that goes on
//! ([`OpenOperation::running`]), makes a call ([`OpenOperation::make_call`]), or ends it ([`OpenOperation::call_ended`]).

mod call;
mod end;

use crate::api::conditions::Readiness;
use crate::api::{EndReason, Operation, Stage};
use crate::cloud::{Detail, TaskState};
use crate::instance::fact::Fact;
use crate::instance::memory::call::{CallState, NewestCall};
use crate::instance::observation::is_idle;
use crate::instance::plan::observed::OnRecord;
use crate::instance::plan::step::Plan;
use crate::instance::plan::verbs::{Evidence, VerbRow, row};
use crate::instance::plan::{evidence, words};
use crate::instance::{observation, times};
use std::time::Duration;

/// An open operation and its server.
struct OpenOperation<'a> {
    observed: &'a OnRecord<'a>,
    operation: &'a Operation,
}

pub(super) fn follow(observed: &OnRecord<'_>, operation: &Operation) -> Plan {
    let open = OpenOperation {
        observed,
        operation,
    };
    let attempt = observed.memory.call_of(operation);
    let state = attempt.map_or(&CallState::Unknown, |attempt| &attempt.state);
    let is_accepted = matches!(state, CallState::Accepted { .. });
    if evidence::is_reported_missing(observed) && !is_accepted {
        return Plan::wait(times::PASS_RECHECK).listing_often();
    }
    let since = attempt.map_or(observed.now, |attempt| attempt.since);
    match (state, &operation.task_id) {
        (_, Some(_)) | (CallState::Accepted { .. }, None) => open.accepted(),
        (CallState::NotSent, None) => open.not_sent(),
        (CallState::Refused { message, reason }, None) => open.refused(message, *reason),
        (CallState::Unknown, None) => open.unanswered(since + observed.session.settle),
    }
}

impl OpenOperation<'_> {
    /// The service accepted the current call: its task and the idle server show when it is over. Once the server has been idle
    /// for long, an effect that does not show never will.
    fn accepted(&self) -> Plan {
        if let Some(plan) = self.cut_power() {
            return plan;
        }
        let (task, is_settled) = (&self.observed.task, self.observed.has_been_idle());
        if let Fact::Known(TaskState::Failed { reason }) = task {
            if self.shows_sufficient_effect() {
                return self.call_ended(None);
            }
            let message = reason.as_deref().unwrap_or("the service gave no reason");
            return self.call_failed(EndReason::Failed, message);
        }
        let detail = match &self.observed.detail {
            Fact::Known(detail) if is_idle(detail.pending()) => detail,
            // The stop is done. While the circuit breaker is open, the next call waits, and status shows that as in `make_call`.
            _ if self.operation.stage == Some(Stage::Stopping)
                && matches!(task, Fact::Known(TaskState::Succeeded)) =>
            {
                return self.while_breaker_open().unwrap_or_else(|| self.running());
            }
            _ => return self.running(),
        };
        let has_ended = match task {
            Fact::Known(TaskState::Succeeded) => true,
            // The answer named no task.
            Fact::NotRead if self.operation.task_id.is_none() => {
                is_settled || self.effect() == Some(true)
            }
            // The service forgot the task, or has given no useful answer for long.
            Fact::Absent => is_settled,
            Fact::Unknown(_) | Fact::Known(TaskState::Unknown { .. }) => {
                is_settled && self.is_task_unreadable()
            }
            // Believe the task, until it has run too long for a server that shows no operation.
            Fact::Known(TaskState::Running) => {
                is_settled && self.is_overdue() && self.effect() != Some(false)
            }
            Fact::Known(TaskState::Failed { .. }) | Fact::NotRead => false,
        };
        match has_ended {
            true => self.ended_at_service(detail, is_settled),
            false => self.running(),
        }
    }

    /// The service is done with the current call. `is_settled`: an effect that does not show by now never will.
    fn ended_at_service(&self, detail: &Detail, is_settled: bool) -> Plan {
        let is_unshown = self.effect() == Some(false);
        let may_show = !is_settled || self.observed.unknown_state(&detail.fields).is_some();
        match self.row().evidence {
            _ if is_unshown && may_show => self.running(),
            Evidence::PowerState(_) if is_unshown => self.call_failed(
                EndReason::Failed,
                "the service reports success, but the server does not show it",
            ),
            // The receipt forbids a repeat, so an image that does not show counts as drift. Its password may not have been set
            // either, so it is set again.
            Evidence::Image if !self.shows_its_image(detail) => {
                let mut operation = self.operation.clone();
                operation.target.password_secret = None;
                let operation = &operation;
                OpenOperation { operation, ..*self }.call_ended(None)
            }
            Evidence::PowerState(_) | Evidence::Image | Evidence::Work | Evidence::Nothing => {
                self.call_ended(None)
            }
        }
    }

    /// Whether the server has the image that the operation was to install; true if it shows no image.
    fn shows_its_image(&self, detail: &Detail) -> bool {
        let target = &self.operation.target.image;
        let shown = observation::text(&detail.fields, "imageResourceUUID");
        target.is_empty() || shown.is_none_or(|image| image == target)
    }

    /// Whether the current call is a reinstall that changes the image.
    fn installs_another_image(&self) -> bool {
        let (target, before) = (&self.operation.target.image, &self.operation.before.image);
        let is_other = before.as_ref().is_some_and(|before| before != target);
        matches!(self.row().evidence, Evidence::Image) && is_other
    }

    /// Whether the current call is a reinstall to another image, and the server no longer has its former one.
    fn shows_a_new_image(&self, detail: &Detail) -> bool {
        let before = self.operation.before.image.as_deref();
        let image = detail.image();
        let is_new = image.is_some_and(|image| before != Some(image.as_str()));
        self.installs_another_image() && is_new
    }

    /// Whether the server shows the effect of the current call; None if its detail leaves that open, or was not read.
    fn effect(&self) -> Option<bool> {
        let detail = self.observed.detail.known()?;
        let (target, before) = (
            &self.operation.target.image,
            self.operation.before.image.as_ref(),
        );
        match self.row().evidence {
            Evidence::PowerState(state) => Some(detail.power() == Some(state)),
            Evidence::Image if self.installs_another_image() => {
                match detail.image()?.as_str() {
                    image if image == target => Some(true),
                    image if before.is_some_and(|before| before == image) => Some(false),
                    // Another image was installed externally, after our reinstall or instead of it.
                    _ => None,
                }
            }
            Evidence::Image | Evidence::Work => self.was_busy().then_some(true),
            Evidence::Nothing => None,
        }
    }

    /// Whether the idle server shows the effect of the call, and that is enough: it has the power state that the call requests.
    fn shows_sufficient_effect(&self) -> bool {
        let detail = self.observed.detail.known();
        let is_idle = detail.is_some_and(|detail| is_idle(detail.pending()));
        self.row().evidence.is_enough() && self.effect() == Some(true) && is_idle
    }

    /// Whether this process made the current call and then saw the service busy with the server.
    fn was_busy(&self) -> bool {
        self.newest_call()
            .is_some_and(|attempt| attempt.was_busy_after_call)
    }

    /// Whether the task has given no useful answer for long. A single failed query is no evidence.
    fn is_task_unreadable(&self) -> bool {
        let poll = self.observed.memory.observations.poll.as_ref();
        let since = poll.and_then(|poll| poll.inconclusive_since);
        since.is_some_and(|since| self.observed.now >= since + times::IDLE_COUNTS_AS_DONE)
    }

    fn is_overdue(&self) -> bool {
        let attempt = self.newest_call();
        attempt.is_some_and(|attempt| self.observed.now >= attempt.since + self.row().overdue)
    }

    /// Whether spec and Secret are still those for which the operation was announced.
    fn is_still_requested(&self) -> bool {
        let (secret, announced) = (
            &self.observed.secret_version,
            &self.operation.target.password_secret,
        );
        let is_same_secret = secret.is_none() || announced.is_none() || secret == announced;
        self.operation.generation == self.observed.facts.generation
            && (!self.operation.verb.bears_login() || is_same_secret)
    }

    /// Does nothing: the current call goes on.
    fn running(&self) -> Plan {
        self.waiting(words::running(self.operation, &self.observed.id))
    }

    fn waiting(&self, note: String) -> Plan {
        let why = match self.is_overdue() {
            true => words::overdue(&note),
            false => Readiness::progress(row(self.operation.verb).reason, note),
        };
        self.because(why, times::PASS_RECHECK)
            .listing_often_while_readable(self.observed)
    }

    /// Delays the next call while the circuit breaker is open. An open breaker shows nothing about this server.
    fn while_breaker_open(&self) -> Option<Plan> {
        let plan = evidence::plan_while_breaker_open(self.observed)?;
        Some(plan.with_operation(Some(self.operation.clone())))
    }

    /// Does nothing about the open operation, for this reason.
    fn because(&self, why: Readiness, again: Duration) -> Plan {
        Plan::rest(why, again).with_operation(Some(self.operation.clone()))
    }

    /// The row of the current call.
    fn row(&self) -> VerbRow {
        row(self.operation.call())
    }

    fn newest_call(&self) -> Option<&NewestCall> {
        self.observed.memory.call_of(self.operation)
    }
}
