//! Makes a call of an open operation: the current one, if it certainly had no effect so far, or the next one.

use super::OpenOperation;
use crate::api::conditions::{Readiness, Reason};
use crate::api::{EndReason, Operation, PowerState, Stage, Verb};
use crate::cloud::{Detail, ServerPower, TaskState};
use crate::credentials::LoginFact;
use crate::instance::fact::Fact;
use crate::instance::observation::is_idle;
use crate::instance::plan::step::{NeededRead, Plan};
use crate::instance::plan::{begin, policy, secret};
use crate::instance::times;

/// A service that answers "busy" this often about an idle server will not accept the call.
const BUSY_TRIES: u32 = 4;

impl OpenOperation<'_> {
    /// No call is in flight: none was made, or status shows that it was refused.
    pub(super) fn not_sent(&self) -> Plan {
        match self.is_still_requested() {
            true => self.make_call(self.operation.clone(), self.operation.is_refused()),
            false if self.operation.is_refused() => self.superseded("the service refused it"),
            false => self.superseded("it was not sent"),
        }
    }

    /// The service refused the current call, so it had no effect.
    pub(super) fn refused(&self, message: &str, reason: Reason) -> Plan {
        let observed = self.observed;
        let detail = observed.detail.known();
        let is_idle = detail.is_some_and(|detail| is_idle(detail.pending()));
        let tries = self.newest_call().map_or(0, |attempt| attempt.tries);
        let is_final = match reason {
            Reason::OperationRefused => true,
            // Nothing keeps the server busy, so the service refuses the call in the server's current state.
            Reason::ServiceBusy => tries >= BUSY_TRIES && is_idle,
            _ => false,
        };
        let not_before = observed.memory.pace.not_before.unwrap_or(observed.now);
        let left = not_before.saturating_duration_since(observed.now);
        match reason {
            // The server already has this state, which is why the service refused.
            _ if self.shows_sufficient_effect() => self.call_ended(None),
            // The disk is erased next, so nothing is lost if the operating system is not asked.
            _ if is_final && self.may_cut_for_reinstall() => self.next_call(|operation| {
                operation.power_cut = true;
            }),
            _ if is_final => self.call_failed(EndReason::Refused, message),
            _ if !self.is_still_requested() => self.superseded(message),
            // The service reinstalls only stopped servers.
            Reason::Stopping
                if detail.is_some_and(|detail| detail.power() != Some(ServerPower::Stopped)) =>
            {
                self.next_call(|operation| operation.stage = Some(Stage::Stopping))
            }
            _ if reason == Reason::Stopping || left.is_zero() => match self.operation.call() {
                // The call needs a new intent, because status shows the refusal of the last one, or may show it soon.
                Verb::Reinstall => self.next_call(|_| ()),
                _ => self.make_call(self.operation.clone(), false),
            },
            _ => {
                let plan = self.because(Readiness::refused(message, reason), left);
                match self.operation.call() {
                    Verb::Reinstall => plan.with_operation(Some(self.operation.clone().refused())),
                    _ => plan,
                }
            }
        }
    }

    fn superseded(&self, message: &str) -> Plan {
        self.call_failed(EndReason::Superseded, message)
    }

    fn may_cut_for_reinstall(&self) -> bool {
        let is_stopping = self.operation.stage == Some(Stage::Stopping);
        is_stopping && !self.operation.power_cut && self.is_still_requested()
    }

    /// Cuts the power of a server whose stop was accepted and took no effect in time, or failed; None if the stop is followed as
    /// usual. A process that takes over starts the grace period again, so it may cut later, but never earlier.
    pub(super) fn cut_power(&self) -> Option<Plan> {
        let observed = self.observed;
        let spec = &observed.facts.spec;
        let grace = match self.operation.stage {
            Some(_) => self
                .may_cut_for_reinstall()
                .then_some(times::STOP_BEFORE_REINSTALL_GRACE),
            None => {
                let is_wanted = self.operation.verb == Verb::Stop
                    && !self.operation.power_cut
                    && spec.power_state == PowerState::Stopped
                    && policy::restriction(observed).is_none();
                spec.stop_policy.grace().filter(|_| is_wanted)
            }
        }?;
        let due = self.newest_call()?.since + grace;
        let has_failed = matches!(observed.task, Fact::Known(TaskState::Failed { .. }));
        if !has_failed && observed.now < due {
            return None;
        }
        let observed_at = observed.look().at;
        match &observed.detail {
            Fact::Known(detail)
                if detail.power() != Some(ServerPower::Stopped)
                    && begin::may_cut_power(observed, &detail.fields) =>
            {
                Some(self.next_call(|operation| operation.power_cut = true))
            }
            // Never cut power based on an old observation. One read after the grace period is enough.
            Fact::NotRead
                if has_failed
                    || observed_at.is_none_or(|at| at < due)
                    || observed.look().is_unreadable =>
            {
                Some(self.running().reading_detail(observed))
            }
            Fact::NotRead | Fact::Known(_) | Fact::Absent | Fact::Unknown(_) => None,
        }
    }

    /// Announces and makes another call of the operation. It has the operation's number and an intent of its own.
    pub(super) fn next_call(&self, change: impl FnOnce(&mut Operation)) -> Plan {
        let mut next = self.operation.clone();
        (next.accepted, next.task_id) = (false, None);
        change(&mut next);
        self.make_call(next, true)
    }

    /// Makes this call if the server's state, read in this reconcile, allows it. If status was lost, the operation is written to
    /// status again before any call for it.
    fn make_call(&self, operation: Operation, announce: bool) -> Plan {
        let observed = self.observed;
        if observed.facts.operation().is_none() {
            return self.running();
        }
        let next = OpenOperation {
            operation: &operation,
            observed,
        };
        let may_call = |detail: &Detail| match operation.power_cut && operation.call() == Verb::Stop
        {
            true => begin::may_cut_power(observed, &detail.fields),
            false => begin::may_operate(observed, &detail.fields),
        };
        match &observed.detail {
            // The image was installed externally, or by this operation before an old status came back. The operation ends, and the
            // spec is compared again.
            Fact::Known(detail) if may_call(detail) && next.shows_a_new_image(detail) => {
                return self.superseded("the server has another image by now");
            }
            Fact::Known(detail) if may_call(detail) => {}
            Fact::Known(detail) => {
                let pending = detail.pending().filter(|word| !is_idle(Some(word)));
                let Some(state) = pending.or_else(|| observed.unknown_state(&detail.fields)) else {
                    return self
                        .while_breaker_open()
                        .unwrap_or_else(|| self.superseded("the server was changed externally"));
                };
                let message = format!("the service is busy with server {} ({state})", observed.id);
                let why = Readiness::refused(&message, Reason::ServiceBusy);
                return self.because(why, times::SERVER_BUSY_RECHECK);
            }
            Fact::Absent | Fact::Unknown(_) => return Plan::wait(times::UNREADABLE_RETRY),
            Fact::NotRead => return Plan::needing(NeededRead::Detail),
        }
        let credentials = match secret::credentials(observed, operation.call()) {
            Ok(credentials) => credentials,
            // An unusable login must not delay other operations.
            Err(_) if matches!(observed.login, LoginFact::Problem(_)) => {
                return self.superseded("its login cannot be used");
            }
            Err(plan) => return *plan,
        };
        let announced = &operation.target.password_secret;
        if let Some(read) = &credentials
            && read.secret != *announced
        {
            return self.superseded("its Secret was changed");
        }
        // The announcement changes the operation in status; the plan must not put the former one back.
        begin::call(&observed.id, operation, announce)
    }
}
