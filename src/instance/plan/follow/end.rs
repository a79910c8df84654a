//! A call has ended, or its outcome is unknown and the server's state decides: makes the next call of the operation, or ends the
//! operation in status.

use super::OpenOperation;
use crate::api::{EndReason, OperationEnd, Retry, Stage, Verb};
use crate::cloud::ServerPower;
use crate::instance::fact::Fact;
use crate::instance::observation::is_idle;
use crate::instance::plan::due::Comparison;
use crate::instance::plan::step::Plan;
use crate::instance::plan::verbs::Evidence;
use crate::instance::plan::{diff, ended, judge, secret, words};
use crate::instance::times;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;

impl OpenOperation<'_> {
    /// No answer arrived: the state of the idle server decides, after the settling time unless the effect is evident.
    pub(super) fn unanswered(&self, settled: Instant) -> Plan {
        let observed = self.observed;
        let Some(detail) = observed.detail.known() else {
            return self.unconfirmed(settled);
        };
        let effect = self.effect();
        // An effect counts before the settling time is over if the call changes nothing more: it sets a power state, or this
        // process saw the service busy with the server after the call. The stop before a reinstall does not count: a late stop
        // could take effect once the server has been started again.
        let is_enough = self.row().evidence.is_enough() || self.was_busy();
        let is_followed_by_a_start = self.operation.stage == Some(Stage::Stopping);
        let is_evident = effect == Some(true) && is_enough && !is_followed_by_a_start;
        // The service has worked on the server, and may show the effect a little later.
        let is_late = effect == Some(false) && self.was_busy() && !observed.has_been_idle();
        if !is_idle(detail.pending()) || is_late || (observed.now < settled && !is_evident) {
            return self.unconfirmed(settled);
        }
        match effect {
            Some(true) => self.ended_at_service(detail, true),
            Some(false) => self.lost("the server shows that it did not happen"),
            // The image would show the effect, and a later detail may have one.
            None if self.installs_another_image() && detail.image().is_none() => {
                self.unconfirmed(settled)
            }
            // Nothing shows whether the disk was erased, and a repeat could erase it twice.
            None if self.row().evidence == Evidence::Image => {
                let doubt = words::doubt(self.newest_call(), self.operation.verb);
                self.call_failed(EndReason::OutcomeUnknown, &doubt)
            }
            // This includes a password change: a generated password counts as in force only after a confirmed call.
            None => self.lost("nothing at the service shows whether it happened"),
        }
    }

    /// Ends the current call without evidence that it took effect.
    fn lost(&self, evidence: &str) -> Plan {
        let call = self.newest_call();
        let doubt = call.and_then(|call| call.doubt.as_deref());
        let doubt = doubt.unwrap_or("no answer is on record");
        self.call_failed(EndReason::AnswerLost, &format!("{doubt}, and {evidence}"))
    }

    fn unconfirmed(&self, settled: Instant) -> Plan {
        let note = format!(
            "{}: the operator reads server {}{} to find out",
            words::doubt(self.newest_call(), self.operation.call()),
            self.observed.id,
            words::until(self.observed, settled)
        );
        let mut plan = self.waiting(note);
        // This message replaces the one about a running call, so status shows it at once.
        plan.why = plan.why.map(|why| why.at_once_if(true));
        let rest = settled.saturating_duration_since(self.observed.now);
        if !rest.is_zero() {
            plan = plan.within(rest);
        }
        plan
    }

    /// The current call failed or was given up, or its outcome stays unknown.
    pub(super) fn call_failed(&self, reason: EndReason, message: &str) -> Plan {
        self.call_ended(Some(OperationEnd {
            reason,
            message: Some(message.to_owned()),
            times: 0,
            finished_at: Time(self.observed.wall_clock),
        }))
    }

    /// The current call has ended: well, or with this failure.
    pub(super) fn call_ended(&self, failure: Option<OperationEnd>) -> Plan {
        let reason = failure.as_ref().map(|failure| failure.reason);
        match (self.operation.stage, reason) {
            (Some(Stage::Stopping), None) if self.is_still_requested() => {
                self.next_call(|operation| operation.stage = Some(Stage::Erasing))
            }
            (Some(Stage::Stopping), None) => self.call_failed(
                EndReason::Superseded,
                "the spec was edited, or the Instance was deleted",
            ),
            (Some(Stage::Stopping | Stage::Erasing) | None, _) => self.end(failure),
        }
    }

    /// Ends the operation. A server that it may have left off is read first: the service may show that late.
    fn end(&self, failure: Option<OperationEnd>) -> Plan {
        let operation = self.operation;
        let may_be_off = operation.stage.is_some()
            || (operation.verb == Verb::Reinstall
                && operation.before.running
                && operation.accepted);
        match &self.observed.detail {
            Fact::Known(detail) if may_be_off && !is_idle(detail.pending()) => self.running(),
            Fact::NotRead if may_be_off => self.running().reading_detail(self.observed),
            // A single answer that the server does not exist proves nothing.
            Fact::Absent | Fact::Unknown(_) if may_be_off => {
                self.running().within(times::UNREADABLE_RETRY)
            }
            Fact::NotRead | Fact::Known(_) | Fact::Absent | Fact::Unknown(_) => self.close(failure),
        }
    }

    /// Ends the operation in status. The next step is planned from the status that shows the end.
    fn close(&self, failure: Option<OperationEnd>) -> Plan {
        if failure.is_none()
            && let Some(plan) = secret::settle_first(self.observed, self.operation)
        {
            return plan;
        }
        let detail = self.observed.detail.known().map(|detail| &detail.fields);
        let fields = detail.unwrap_or(&self.observed.facts.status.detail);
        let mut server = Comparison::of(self.observed, self.observed.record, fields);
        let is_off = ServerPower::of(fields) == Some(ServerPower::Stopped);
        if self.operation.verb == Verb::Reinstall && self.operation.before.running {
            server.left_off |= is_off || self.operation.stage.is_some();
        }
        let mut plan = match failure {
            None => {
                server.applied = diff::result_of(self.observed, self.operation);
                self.done(&server)
            }
            Some(failure) => self.ended_badly(&failure, server),
        };
        plan.changes.detail = detail.cloned();
        plan
    }

    fn done(&self, server: &Comparison<'_>) -> Plan {
        let (observed, operation) = (self.observed, self.operation);
        let mut plan = judge::report(server, times::AFTER_OWN_WRITE);
        plan.changes.ended = Some(ended::ended(observed, operation, None, None));
        let mut event = words::done(operation, &observed.id);
        if operation.power_cut {
            event.note.push_str("; its power was cut");
        }
        plan.with_event(event)
    }

    /// `server`: compared with the state that the service last accepted before this operation.
    fn ended_badly(&self, failure: &OperationEnd, mut server: Comparison<'_>) -> Plan {
        let (observed, reason) = (self.observed, failure.reason);
        let message = failure.message.as_deref().unwrap_or_default();
        let mut changes = ended::badly(observed, self.operation.clone(), reason, message);
        changes.left_off = Some(server.is_still_off());
        // The server may have the other password of this operation, so the one in the spec is set again. A reinstall may even fail
        // after it has set its password.
        let is_other = self.operation.target.password_secret != server.applied.password_secret;
        let is_in_doubt = matches!(reason, EndReason::AnswerLost | EndReason::OutcomeUnknown)
            || (reason == EndReason::Failed && self.row().evidence == Evidence::Image);
        if is_in_doubt && is_other {
            server.applied.password_secret = None;
            changes.applied = Some(server.applied.clone());
        }
        // The spec may request another reinstall than the one whose outcome is unknown.
        let waits = |retry: &&Retry| ended::waits(observed, &server.applied, retry);
        let why = match changes.retry.as_ref().filter(waits) {
            Some(retry) => ended::why(retry),
            None => judge::judge(&server),
        };
        let plan = Plan::rest(why, times::AFTER_OWN_WRITE);
        Plan { changes, ..plan }
    }
}
