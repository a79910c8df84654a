//! The outcome of a call is unknown: the server's state decides.

use super::open::{End, Open};
use crate::api::Verb;
use crate::api::conditions::{Readiness, Reason};
use crate::instance::fact::Fact;
use crate::instance::observation::is_idle;
use crate::instance::plan::step::{Plan, Read, Request};
use crate::instance::plan::{diff, evidence, words};
use crate::instance::{references, times};
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
            None if self.is_undecidable() && self.is_to_be_started(detail) => {
                self.auxiliary(Verb::Start, Request::Start(self.id.clone()))
            }
            None if self.is_undecidable() => self.outcome_unknown(),
            // This includes a password: a generated one counts as in force only if the service has confirmed it.
            None => {
                self.conclude(self.lost("nothing at the service tells whether it was carried out"))
            }
        }
    }

    /// The server was not read in this reconcile.
    fn settle_unseen(&self, settled: Instant) -> Plan {
        let (observed, memory) = (self.observed, &self.observed.memory);
        let was_settled = observed.look().was_answered_since(settled);
        // An observation is not kept between two reads, but status holds the conclusion.
        if was_settled && evidence::says(observed, Reason::OutcomeUnknown) && self.is_undecidable()
        {
            return self.outcome_unknown();
        }
        let was_idle = observed.look().idle_since().is_some() && !memory.calls.pending_seen;
        if !(was_settled && was_idle && self.verb() == Verb::Reinstall) {
            return self.unconfirmed(settled);
        }
        if self.is_undecidable() && !self.shows_by_image() {
            // This was the result of the last read.
            return self.outcome_unknown();
        }
        let mut plan = self.unconfirmed(settled);
        // Each listing triggers a reconcile. If the apiserver refuses the write that follows from the read, these reconciles must
        // not all read again at once.
        if observed.is_look_older_than(times::UNREADABLE_RETRY) {
            plan.needs = Some(Read::Detail);
        }
        plan
    }

    /// Whether it cannot be decided if a reinstall with the same image took effect, since both outcomes look alike. If the spec
    /// asks for another image, key or token, a new reinstall answers the question.
    fn is_undecidable(&self) -> bool {
        let Some(record) = self.observed.facts.purchase() else {
            return false;
        };
        let applied = diff::applied(self.observed, record);
        let wish = diff::target(Verb::Reinstall, &applied, diff::as_specified(self.observed));
        let target = &self.operation.target;
        // An unresolved image or key may be the same.
        let is_open = references::installation_is_open(self.observed);
        let is_same = (is_open || (wish.image == target.image && wish.key == target.key))
            && wish.reinstall == target.reinstall;
        self.verb() == Verb::Reinstall && is_same
    }

    fn outcome_unknown(&self) -> Plan {
        let message = format!(
            "{}, and nothing at the service tells whether server {} was reinstalled; it is not repeated, since that could erase the disk twice: look at the server; a new \
             spec.reinstall.token asks again, and taking back what asked for it (spec.image, spec.login or the token) asks for \
             nothing",
            words::doubt(self.call(), self.verb()),
            self.id
        );
        let readiness = Readiness::stalled(Reason::OutcomeUnknown, message);
        self.because(readiness, times::IDLE_REQUEUE)
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
