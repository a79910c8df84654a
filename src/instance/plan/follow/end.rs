//! Ends an operation in status.

use super::open::{End, Open};
use crate::api::{Applied, EndReason, Verb};
use crate::instance::fact::Fact;
use crate::instance::observation::is_idle;
use crate::instance::plan::step::{Plan, Read, Request};
use crate::instance::plan::{begin, diff, due, ended, judge, secret, words};
use crate::instance::times;
use serde_json::{Map, Value};

impl Open<'_> {
    /// Ends the operation in status. The next step is planned from the status that shows the end. A server that was stopped for a
    /// reinstall that failed is started first.
    pub(super) fn conclude(&self, end: End) -> Plan {
        if matches!(end, End::Well)
            && let Some(plan) = secret::settle_first(self.observed, self.operation, self.id)
        {
            return plan;
        }
        if let (Verb::Reinstall, End::Badly(..)) = (self.verb(), &end)
            && let Some(plan) = self.start_first()
        {
            return plan;
        }
        let detail = match &self.observed.detail {
            Fact::Known(detail) => Some(&detail.fields),
            Fact::NotAsked | Fact::Absent | Fact::Unknown(_) => None,
        };
        let fields = detail.unwrap_or(&self.observed.facts.status.detail);
        let mut plan = match end {
            End::Well => self.done(&diff::brought(self.observed, self.operation), fields),
            End::Assumed => {
                let brought = diff::brought(self.observed, self.operation);
                let without_password = Applied {
                    password_secret: None,
                    ..brought
                };
                self.done(&without_password, fields)
            }
            End::Badly(reason, words) => self.ended_badly(reason, &words, fields),
        };
        plan.changes.detail = detail.cloned();
        plan.with_id(Some(self.id.clone()))
    }

    fn done(&self, applied: &Applied, fields: &Map<String, Value>) -> Plan {
        let (observed, operation) = (self.observed, self.operation);
        let readiness = judge::judge(observed, applied, fields);
        let mut plan = Plan::rest(readiness, times::AFTER_OWN_WRITE);
        plan.changes.applied = Some(due::taken_over(observed, applied, fields));
        plan.changes.ended = Some(ended::ended(observed, operation, None, None));
        let mut event = words::done(operation, self.id);
        if observed.memory.calls.cut_for == Some(operation.attempt) || operation.power_cut {
            event.note.push_str("; its power was cut");
        }
        plan.with_event(event)
    }

    fn ended_badly(&self, reason: EndReason, words: &str, fields: &Map<String, Value>) -> Plan {
        let observed = self.observed;
        let changes = ended::badly(observed, self.operation.clone(), reason, words);
        let applied = self.applied();
        // The spec may request another reinstall than the one whose outcome is unknown.
        let is_asked_anew = |target: &Applied| {
            reason == EndReason::OutcomeUnknown
                && !ended::is_same_installation(observed, &applied, target)
        };
        let waits = changes.retry.as_ref();
        let why = match waits.filter(|retry| !is_asked_anew(&retry.target)) {
            Some(retry) => ended::why(retry),
            None => judge::judge(observed, &applied, fields).into(),
        };
        let plan = Plan::rest(why, times::AFTER_OWN_WRITE);
        Plan { changes, ..plan }
    }

    /// The state that the service last accepted before this operation.
    fn applied(&self) -> Applied {
        let record = self.observed.facts.purchase();
        record.map_or_else(Applied::default, |record| {
            diff::applied(self.observed, record)
        })
    }

    /// A server that was stopped for a reinstall is started again if the reinstall fails.
    fn start_first(&self) -> Option<Plan> {
        let was_stopped = self.observed.memory.calls.stopped_for == Some(self.operation.attempt);
        match &self.observed.detail {
            Fact::Known(detail) if !is_idle(detail.pending()) && was_stopped => {
                Some(self.stopping())
            }
            Fact::Known(detail)
                if self.is_to_be_started(detail)
                    && begin::may_operate(self.observed, &detail.fields) =>
            {
                Some(self.auxiliary(Verb::Start, Request::Start(self.id.clone())))
            }
            Fact::NotAsked if was_stopped => {
                let (observed, mut plan) = (self.observed, self.stopping());
                if !observed.look().is_unreadable()
                    || observed.is_look_older_than(times::UNREADABLE_RETRY)
                {
                    plan.needs = Some(Read::Detail);
                }
                Some(plan)
            }
            // The server may be busy with the start.
            Fact::Unknown(_) if was_stopped => {
                Some(self.stopping().within(times::UNREADABLE_RETRY))
            }
            Fact::NotAsked | Fact::Known(_) | Fact::Absent | Fact::Unknown(_) => None,
        }
    }
}
