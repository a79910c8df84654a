//! A call has ended: the next call of the operation, or its end in status.

use super::{End, Open};
use crate::api::{Applied, EndReason, OperationEnd, Stage};
use crate::instance::fact::Fact;
use crate::instance::observation::{is_idle, is_off};
use crate::instance::plan::step::Plan;
use crate::instance::plan::{begin, diff, due, ended, judge, secret, words};
use crate::instance::times;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value};

impl Open<'_> {
    /// The current call has ended like this.
    pub(super) fn call_ended(&self, end: End) -> Plan {
        match (self.operation.stage, end) {
            (Some(Stage::Stopping), End::Well) if self.is_still_asked() => {
                self.next_call(|operation| operation.stage = Some(Stage::Erasing))
            }
            (Some(Stage::Stopping), End::Well) => {
                let message = "the spec asks for something else now".to_owned();
                self.start_first(End::Badly(EndReason::Superseded, message))
            }
            // A second start does no harm.
            (Some(Stage::Starting), End::Badly(EndReason::AnswerLost, _)) => {
                self.next_call(|operation| operation.stage = Some(Stage::Starting))
            }
            // The reinstall has ended before. A start that fails becomes an operation of its own.
            (Some(Stage::Starting), _) => self.close(match &self.operation.end {
                Some(end) => End::Badly(end.reason, end.message.clone().unwrap_or_default()),
                None => End::Well,
            }),
            (Some(Stage::Stopping | Stage::Erasing) | None, end) => self.start_first(end),
        }
    }

    /// Ends the operation. If a reinstall leaves a server off that should run, it is started first: the end of the reinstall is
    /// written together with the stage, so that it survives a crash.
    fn start_first(&self, ended: End) -> Plan {
        let observed = self.observed;
        let was_stopped = self.operation.stage.is_some();
        match &observed.detail {
            _ if !self.is_reinstall() => self.close(ended),
            Fact::Known(detail)
                if self.should_run()
                    && is_off(detail)
                    && begin::may_operate(observed, &detail.fields) =>
            {
                let end = match ended {
                    End::Well => None,
                    End::Badly(reason, message) => Some(OperationEnd {
                        reason,
                        message: Some(message),
                        times: 0,
                        finished_at: Time(observed.wall_clock),
                    }),
                };
                self.next_call(|operation| {
                    (operation.stage, operation.end) = (Some(Stage::Starting), end);
                })
            }
            // The service may show late that the server is being stopped.
            Fact::Known(detail) if was_stopped && !is_idle(detail.pending()) => self.running(),
            Fact::NotAsked if was_stopped => self.reading(),
            Fact::Unknown(_) if was_stopped => self.running().within(times::UNREADABLE_RETRY),
            Fact::NotAsked | Fact::Known(_) | Fact::Absent | Fact::Unknown(_) => self.close(ended),
        }
    }

    /// Ends the operation in status. The next step is planned from the status that shows the end.
    fn close(&self, end: End) -> Plan {
        if matches!(end, End::Well)
            && let Some(plan) = secret::settle_first(self.observed, self.operation, self.id)
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
            End::Badly(reason, message) => self.ended_badly(reason, &message, fields),
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
        if operation.power_cut {
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
}
