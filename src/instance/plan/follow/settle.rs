//! The outcome of a call is unknown: the server's state decides.

use super::open::{End, Open};
use crate::api::{EndReason, Verb};
use crate::instance::fact::Fact;
use crate::instance::observation::is_idle;
use crate::instance::plan::step::{Plan, Read};
use crate::instance::plan::words;
use crate::instance::times;
use tokio::time::Instant;

impl Open<'_> {
    /// The outcome is unknown: after the settling time, the state of the idle server decides.
    pub(super) fn settle(&self, settled: Instant) -> Plan {
        let observed = self.observed;
        let Fact::Known(detail) = &observed.detail else {
            return self.settle_unseen(settled);
        };
        let effect = self.effect();
        // A call whose effect shows cannot take effect later. For a reinstall there must be evidence that the effect is ours.
        let is_power = matches!(self.verb(), Verb::Start | Verb::Stop);
        let is_evident = effect == Some(true) && (is_power || observed.memory.calls.pending_seen);
        if !is_idle(detail.pending()) || (observed.now < settled && !is_evident) {
            return self.unconfirmed(settled);
        }
        match effect {
            Some(true) => self.finish(detail, true),
            Some(false) => self.conclude(self.lost("the server shows that it was not carried out")),
            // Nothing shows whether the disk was erased, and a repeat could erase it twice.
            None if self.verb() == Verb::Reinstall => {
                let doubt = words::doubt(self.call(), self.verb());
                self.conclude(End::Badly(EndReason::OutcomeUnknown, doubt))
            }
            // This includes a password: a generated one counts as in force only if the service has confirmed it.
            None => {
                self.conclude(self.lost("nothing at the service tells whether it was carried out"))
            }
        }
    }

    /// The server was not read in this reconcile.
    fn settle_unseen(&self, settled: Instant) -> Plan {
        let observed = self.observed;
        let was_settled = observed.look().was_answered_since(settled);
        if !was_settled || self.verb() != Verb::Reinstall {
            return self.unconfirmed(settled);
        }
        let mut plan = self.unconfirmed(settled);
        // Each listing triggers a reconcile. If the apiserver refuses the write that follows from the read, these reconciles must
        // not all read again at once.
        if observed.is_look_older_than(times::UNREADABLE_RETRY) {
            plan.needs = Some(Read::Detail);
        }
        plan
    }

    /// The end of an operation without evidence that it took effect.
    fn lost(&self, shows: &str) -> End {
        let doubt = self.call().and_then(|attempt| attempt.doubt.as_deref());
        let doubt = doubt.unwrap_or("no answer is on record");
        End::lost(format!("{doubt}, and {shows}"))
    }

    fn unconfirmed(&self, settled: Instant) -> Plan {
        let note = format!(
            "{}: server {} is looked at{}, and will show whether it was",
            words::doubt(self.call(), self.verb()),
            self.id,
            words::until(self.observed, settled)
        );
        let mut plan = self.running(note);
        // The message differs from the one while it ran, because the cause or the end is another one.
        plan.why = plan.why.map(|why| why.at_once_if(true));
        let rest = settled.saturating_duration_since(self.observed.now);
        plan.again = if rest.is_zero() {
            times::PASS_RECHECK
        } else {
            rest.min(times::PASS_RECHECK)
        };
        plan
    }
}
