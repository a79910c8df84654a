//! The outcome of a call is unknown: what the server shows decides.

use super::open::{End, Open};
use crate::api::Verb;
use crate::api::conditions::{Readiness, Reason};
use crate::instance::fact::Fact;
use crate::instance::observation::is_idle;
use crate::instance::plan::step::{Needs, Plan, Request, StatusUpdate};
use crate::instance::plan::{diff, evidence, words};
use crate::instance::{references, times};
use tokio::time::Instant;

impl Open<'_> {
    /// The outcome is unknown: after the settling time, with nothing pending at the server, its state tells.
    pub(super) fn settle(&self, settled: Instant) -> Plan {
        let observed = self.observed;
        let Fact::Known(detail) = &observed.detail else {
            return self.settle_unseen(settled);
        };
        let effect = self.effect();
        // A call that shows its effect can come no later; of a reinstall that takes evidence that it was ours.
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
            // A password too: one that the operator made is in force only where the service has said so.
            None => {
                self.conclude(self.lost("nothing at the service tells whether it was carried out"))
            }
        }
    }

    /// Nothing was read in this reconcile.
    fn settle_unseen(&self, settled: Instant) -> Plan {
        let (observed, memory) = (self.observed, &self.observed.memory);
        let was_settled = memory
            .observations
            .observed_at
            .is_some_and(|observed_at| observed_at >= settled)
            && !memory.observations.unread;
        // What the server showed is forgotten between two looks, and status holds what came of it.
        if was_settled && evidence::says(observed, Reason::OutcomeUnknown) && self.is_undecidable()
        {
            return self.outcome_unknown();
        }
        let was_at_rest = memory.observations.at_rest_since.is_some() && !memory.calls.pending_seen;
        if !(was_settled && was_at_rest && self.verb() == Verb::Reinstall) {
            return self.unconfirmed(settled);
        }
        if self.is_undecidable() && !self.shows_by_image() {
            // As it was found out at the last look.
            return self.outcome_unknown();
        }
        let mut plan = self.unconfirmed(settled);
        // Each listing asks for a reconcile: where the apiserver refuses what follows from the look, none of them looks again at
        // once.
        if observed.has_not_looked_for(times::UNREADABLE_RETRY) {
            plan.needs = Needs::Detail;
        }
        plan
    }

    /// A reinstall with the same image: executed unseen, and never executed, look alike. Another image, key or token asks
    /// again.
    fn is_undecidable(&self) -> bool {
        let Some(record) = self.observed.facts.purchase() else {
            return false;
        };
        let applied = diff::applied(self.observed, record);
        let wish = diff::target(Verb::Reinstall, &applied, diff::as_specified(self.observed));
        let target = &self.operation.target;
        // What is not looked up may well be the same.
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
        let mut update = StatusUpdate::of(Readiness::stalled(Reason::OutcomeUnknown, message));
        update.operation = Some(self.operation.clone());
        Plan::rest(update.with_id(Some(self.id.clone())), times::IDLE_REQUEUE)
    }

    /// It is not known to have been carried out, as the server shows it.
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
        // Other words than while it ran: its cause or its end is another one.
        plan.update.progress = false;
        let rest = settled.saturating_duration_since(self.observed.now);
        plan.again = if rest.is_zero() {
            times::PASS_RECHECK
        } else {
            rest.min(times::PASS_RECHECK)
        };
        plan
    }
}
