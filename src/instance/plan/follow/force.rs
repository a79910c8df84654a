//! A server that was asked to stop and does not: its power is cut, where the spec allows it.
//!
//! The cut is a call within the attempt of the stop. It is not recorded: a process that takes over waits for the grace period
//! again, which is late, never early.

use super::open::{End, Open};
use crate::api::{PowerState, Verb};
use crate::cloud::{Detail, TaskState};
use crate::instance::fact::Fact;
use crate::instance::memory::kinds::Auxiliary;
use crate::instance::observation::{is_idle, is_off};
use crate::instance::plan::evidence::breaker_open;
use crate::instance::plan::step::{Needs, Plan, Request, Step};
use crate::instance::plan::{judge, policy};
use crate::instance::times;
use tokio::time::Instant;

impl Open<'_> {
    /// The plan for a stop that was taken and did not come about in its time; none where it is followed as ever.
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
            // It was made, and did not help: the stop has failed, and is tried again in its time.
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
            // No power is cut after a look of yesterday.
            Fact::NotAsked if may_look => {
                let mut plan = self.cutting();
                plan.needs = Needs::Detail;
                Some(plan)
            }
            Fact::NotAsked if cut.is_some() => Some(self.cutting()),
            Fact::NotAsked | Fact::Known(_) | Fact::Absent | Fact::Unknown(_) => None,
        }
    }

    /// The stop failed, and its power was cut a moment ago: the server may be at work on that, whatever is wanted of it by now.
    pub(super) fn cut_is_under_way(&self) -> Option<Plan> {
        let observed = self.observed;
        self.cut()
            .filter(|cut| observed.now < cut.at + times::POWER_CUT_RETRY)?;
        match &observed.detail {
            Fact::Absent => None,
            Fact::Known(detail) if is_idle(detail.pending()) => None,
            Fact::NotAsked => {
                let mut plan = self.cutting();
                if observed.has_not_looked_for(times::UNREADABLE_RETRY) {
                    plan.needs = Needs::Detail;
                }
                Some(plan)
            }
            Fact::Known(_) | Fact::Unknown(_) => Some(self.cutting()),
        }
    }

    /// Whether the detail is asked for by reason of the cut alone: not since it is due, or not lately, and never where the last
    /// look leaves nothing to cut. A stop whose task goes on for ever costs no more than any other operation.
    fn may_look_again(&self, due: Instant) -> bool {
        let (observed, memory) = (self.observed, &self.observed.memory);
        if memory.observations.unread {
            // What does not answer is asked no more often because a cut waits for it.
            return observed.has_not_looked_for(times::UNREADABLE_RETRY);
        }
        memory
            .observations
            .observed_at
            .is_none_or(|observed_at| observed_at < due)
            || (!memory.observations.was_off
                && observed.has_not_looked_for(times::POWER_CUT_RECHECK))
    }

    /// The newest cut within this attempt.
    fn cut(&self) -> Option<&Auxiliary> {
        let auxiliary = self.observed.memory.calls.auxiliary.as_deref();
        auxiliary.filter(|auxiliary| auxiliary.verb == Verb::Stop)
    }

    /// The server is ours and nothing is in doubt. It may well be busy: with the stop that does not come about.
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
