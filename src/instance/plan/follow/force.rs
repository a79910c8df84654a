//! Cuts the power of a server that was asked to stop and does not, if the spec allows that.
//!
//! The cut is an auxiliary call within the attempt of the stop. It is not recorded: a process that takes over waits for the grace
//! period again, so it may cut later, but never earlier.

use super::open::{End, Open};
use crate::api::{PowerState, Verb};
use crate::cloud::{Detail, TaskState};
use crate::instance::fact::Fact;
use crate::instance::memory::kinds::Auxiliary;
use crate::instance::observation::{is_idle, is_off};
use crate::instance::plan::evidence::breaker_open;
use crate::instance::plan::step::{Plan, Read, Request, Step};
use crate::instance::plan::{judge, policy};
use crate::instance::times;
use tokio::time::Instant;

impl Open<'_> {
    /// The plan for a stop that was accepted and did not take effect in time; None if it is followed as usual.
    pub(super) fn cut_power(&self) -> Option<Plan> {
        let observed = self.observed;
        let grace = observed.facts.spec.stop_policy.grace()?;
        let is_wanted = self.verb() == Verb::Stop
            && observed.facts.spec.power_state == PowerState::Stopped
            && policy::restriction(observed).is_none();
        let attempt = self.call().filter(|_| is_wanted)?;
        let has_failed = matches!(observed.task, Fact::Known(TaskState::Failed { .. }));
        let due = attempt.since + grace;
        if !has_failed && observed.now < due {
            return None;
        }
        let may_look = has_failed || self.may_look_again(due);
        let cut = self
            .cut()
            .map(|cut| observed.now < cut.at + times::POWER_CUT_RETRY);
        match &observed.detail {
            Fact::Known(detail) if is_off(detail) && (cut.is_some() || has_failed) => {
                Some(self.conclude(End::Well))
            }
            // The cut was made and did not help: the stop has failed, and is repeated after a pause.
            _ if has_failed && cut == Some(false) => None,
            _ if cut == Some(true) => Some(self.cutting()),
            Fact::Known(detail)
                if detail.status() != Some("STOPPED") && self.is_told() && self.may_cut(detail) =>
            {
                let mut plan = self.cutting();
                let (id, force) = (self.id.clone(), true);
                let request = Box::new(Request::Stop { id, force });
                plan.step = Step::Auxiliary { request };
                Some(plan)
            }
            // Never cut power based on an old observation.
            Fact::NotAsked if may_look => {
                let mut plan = self.cutting();
                plan.needs = Some(Read::Detail);
                Some(plan)
            }
            Fact::NotAsked if cut.is_some() => Some(self.cutting()),
            Fact::NotAsked | Fact::Known(_) | Fact::Absent | Fact::Unknown(_) => None,
        }
    }

    /// The stop failed, and the power was cut a moment ago: the server may be busy with that, even if the spec has changed.
    pub(super) fn cut_is_under_way(&self) -> Option<Plan> {
        let observed = self.observed;
        self.cut()
            .filter(|cut| observed.now < cut.at + times::POWER_CUT_RETRY)?;
        match &observed.detail {
            Fact::Absent => None,
            Fact::Known(detail) if is_idle(detail.pending()) => None,
            Fact::NotAsked => {
                let mut plan = self.cutting();
                if observed.is_look_older_than(times::UNREADABLE_RETRY) {
                    plan.needs = Some(Read::Detail);
                }
                Some(plan)
            }
            Fact::Known(_) | Fact::Unknown(_) => Some(self.cutting()),
        }
    }

    /// Whether the cut alone is a reason to read the detail: there was no read since the cut became due, or no recent one, and
    /// the last read showed something left to cut. A stop whose task never ends costs no more calls than any other operation.
    fn may_look_again(&self, due: Instant) -> bool {
        let (observed, look) = (self.observed, self.observed.look());
        if look.is_unreadable() {
            // A server that does not answer is not queried more often because of a cut.
            return observed.is_look_older_than(times::UNREADABLE_RETRY);
        }
        look.at.is_none_or(|at| at < due)
            || (!look.was_off() && observed.is_look_older_than(times::POWER_CUT_RECHECK))
    }

    fn cut(&self) -> Option<&Auxiliary> {
        let auxiliary = self.observed.memory.calls.auxiliary.as_deref();
        auxiliary.filter(|auxiliary| auxiliary.verb == Verb::Stop)
    }

    /// The server is ours and nothing is in doubt. It may be busy, with the stop that does not take effect.
    fn may_cut(&self, detail: &Detail) -> bool {
        judge::is_ours(self.observed, &detail.fields)
            && judge::bought_otherwise(self.observed).is_none()
            && breaker_open(self.observed).is_none()
    }

    fn cutting(&self) -> Plan {
        let note = format!(
            "server {} did not stop within spec.stopPolicy.gracePeriodSeconds, or its stop failed: cutting its power",
            self.id
        );
        let trouble = self.cut().and_then(|cut| cut.trouble.as_ref());
        let note = trouble.map_or(note.clone(), |trouble| format!("{note}: {trouble}"));
        self.running(note)
    }
}
