//! The outcome of a call is unknown: what the server shows decides.

use super::{End, Open};
use crate::api::Verb;
use crate::api::conditions::{Reason, Verdict};
use crate::instance::observe::{Fact, is_idle};
use crate::instance::plan::{LONG, Needs, Plan, Request, SOON, Tell, keep, want, words};
use crate::instance::references;
use tokio::time::Instant;

impl Open<'_> {
    /// The outcome is unknown: after the settling time, with nothing pending at the server, its state tells.
    pub(super) fn settle(&self, settled: Instant) -> Plan {
        let seen = self.seen;
        let Fact::Known(detail) = &seen.detail else {
            return self.settle_unseen(settled);
        };
        let effect = self.effect();
        // A call that shows its effect can come no later; of a reinstall that takes evidence that it was ours.
        let is_power = matches!(self.verb(), Verb::Start | Verb::Stop);
        let is_evident = effect == Some(true) && (is_power || seen.memory.pending_seen);
        if !is_idle(detail.pending()) || (seen.now < settled && !is_evident) {
            return self.unconfirmed(settled);
        }
        match effect {
            Some(true) => self.finish(detail, true),
            Some(false) => self.conclude(self.lost("the server shows that it was not carried out")),
            // A password that the operator made is in force only where the service has said so.
            None if self.is_of_a_generated_password() => {
                self.conclude(self.lost("nothing at the service tells whether it was carried out"))
            }
            // What the spec asked for counts as applied.
            None if self.is_of_a_lost_status() && self.verb() == Verb::Reinstall => {
                self.conclude(End::Assumed)
            }
            None if self.is_of_a_lost_status() || want::is_former(seen, self.binding) => {
                self.conclude(End::Well)
            }
            None if self.is_undecidable() && self.is_to_be_started(detail) => {
                self.aside(Verb::Start, Request::Start(self.id.clone()))
            }
            None if self.is_undecidable() => self.outcome_unknown(),
            None => {
                self.conclude(self.lost("nothing at the service tells whether it was carried out"))
            }
        }
    }

    /// Nothing was read in this turn.
    fn settle_unseen(&self, settled: Instant) -> Plan {
        let (seen, memory) = (self.seen, &self.seen.memory);
        let was_settled = memory.looked.is_some_and(|looked| looked >= settled) && !memory.unread;
        // What the server showed is forgotten between two looks, and status holds what came of it.
        if was_settled && keep::is_told(seen, Reason::OutcomeUnknown) && self.is_undecidable() {
            return self.outcome_unknown();
        }
        let was_at_rest = memory.at_rest_since.is_some() && !memory.pending_seen;
        if !(was_settled && was_at_rest && self.verb() == Verb::Reinstall) {
            return self.unconfirmed(settled);
        }
        if self.is_undecidable() && !self.shows_by_image() && !self.is_of_a_lost_status() {
            // As it was found out at the last look.
            return self.outcome_unknown();
        }
        let mut plan = self.unconfirmed(settled);
        // Each listing asks for a turn: where the apiserver refuses what follows from the look, none of them looks again at once.
        if seen.has_not_looked_for(keep::UNREAD) {
            plan.needs = Needs::Detail;
        }
        plan
    }

    fn is_of_a_generated_password(&self) -> bool {
        let login = &self.seen.facts.spec.login;
        self.verb() == Verb::ModifyPassword && login.generate.is_some()
    }

    /// A reinstall with the same image: executed unseen, and never executed, look alike. Another image, key or token asks
    /// again.
    fn is_undecidable(&self) -> bool {
        let applied = want::applied(self.seen, self.binding);
        let wish = want::target(Verb::Reinstall, &applied, want::as_specified(self.seen));
        let target = &self.binding.operation.target;
        // What is not looked up may well be the same.
        let is_open = references::installation_is_open(self.seen);
        let is_same = (is_open || (wish.image == target.image && wish.key == target.key))
            && wish.reinstall == target.reinstall;
        self.verb() == Verb::Reinstall && is_same
    }

    fn outcome_unknown(&self) -> Plan {
        let message = format!(
            "{}, and nothing at the service tells whether server {} was reinstalled; it is not repeated, since that could erase the disk twice: look at the server; a new \
             spec.reinstall.token asks again, and taking back what asked for it (spec.image, spec.login or the token) asks for \
             nothing",
            words::doubt(self.seen, self.binding),
            self.id
        );
        let tell = Tell::of(Verdict::stalled(Reason::OutcomeUnknown, message));
        Plan::rest(tell.with_id(Some(self.id.clone())), LONG)
    }

    /// It is not known to have been carried out, as the server shows it.
    fn lost(&self, shows: &str) -> End {
        let attempt = self.seen.memory.attempt(self.binding);
        let doubt = attempt.and_then(|attempt| attempt.doubt.as_deref());
        let doubt = doubt.unwrap_or("no answer is on record");
        End::Lost(format!("{doubt}, and {shows}"))
    }

    fn unconfirmed(&self, settled: Instant) -> Plan {
        let note = format!(
            "{}: server {} is looked at{}, and will show whether it was",
            words::doubt(self.seen, self.binding),
            self.id,
            words::until(self.seen, settled)
        );
        let mut plan = self.running(note);
        let rest = settled.saturating_duration_since(self.seen.now);
        plan.again = if rest.is_zero() { SOON } else { rest.min(SOON) };
        plan
    }
}
