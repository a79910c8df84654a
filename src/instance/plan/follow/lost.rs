//! The outcome of a call is unknown: the server's state decides.

use super::OpenOperation;
use crate::api::EndReason;
use crate::instance::observation::is_idle;
use crate::instance::plan::step::Plan;
use crate::instance::plan::verbs::Effect;
use crate::instance::plan::words;
use tokio::time::Instant;

impl OpenOperation<'_> {
    /// No answer arrived: after the settling time, the state of the idle server decides.
    pub(super) fn unanswered(&self, settled: Instant) -> Plan {
        let observed = self.observed;
        let Some(detail) = observed.detail.known() else {
            return self.unconfirmed(settled);
        };
        let effect = self.effect();
        // A call whose effect shows cannot take effect later. For a reinstall there must be evidence that the effect is ours.
        let is_power = matches!(self.row().effect, Effect::PowerState(_));
        let is_evident = effect == Some(true) && (is_power || self.was_busy());
        if !is_idle(detail.pending()) || (observed.now < settled && !is_evident) {
            return self.unconfirmed(settled);
        }
        match effect {
            Some(true) => self.ended_at_service(detail, true),
            Some(false) => self.lost("the server shows that it did not happen"),
            // The image would show it, and a later detail may have it.
            None if self.installs_another_image() && detail.image().is_none() => {
                self.unconfirmed(settled)
            }
            // Nothing shows whether the disk was erased, and a repeat could erase it twice.
            None if self.row().effect == Effect::Image => {
                let doubt = words::doubt(self.newest_call(), self.operation.verb);
                self.call_failed(EndReason::OutcomeUnknown, &doubt)
            }
            // This includes a password: a generated one counts as in force only if the service has confirmed it.
            None => self.lost("nothing at the service shows whether it happened"),
        }
    }

    /// Ends the current call without evidence that it took effect.
    fn lost(&self, evidence: &str) -> Plan {
        let doubt = self
            .newest_call()
            .and_then(|attempt| attempt.doubt.as_deref());
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
        // The message differs from the one while it ran, because the cause or the end is another one.
        plan.why = plan.why.map(|why| why.at_once_if(true));
        let rest = settled.saturating_duration_since(self.observed.now);
        if !rest.is_zero() {
            plan = plan.within(rest);
        }
        plan
    }
}
