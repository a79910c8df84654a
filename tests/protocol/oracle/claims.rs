//! Judges the outcomes in status: refused, unknown or done must match the service's answer.

use super::heard::{Begun, Call, Fate, uids};
use super::truth::ALL;
use super::{Oracle, ProcessId, Verdict, condition, name_of, operation, record, speaks};
use cloud_server_operator::api::PurchaseRecord;
use cloud_simulator::model::{Progress, Verb, World};
use serde_json::Value;

impl Oracle {
    /// Whether the reason in status matches the service's answer; none if the reason does not concern an answer.
    pub(super) fn is_claim_true(&self, process: ProcessId, now: &Value) -> Option<Verdict> {
        let ready = condition(now, "Ready");
        let message = ready["message"].as_str().unwrap_or_default();
        Some(match ready["reason"].as_str().unwrap_or_default() {
            "CreateRefused" => self.was_refused(now, &[Verb::Create], message, None),
            "OperationRefused" => self.was_refused(now, &ALL, message, None),
            "CreateUnconfirmed" => self.may_be_bought(process, now),
            _ => return None,
        })
    }

    /// Whether the service refused such a call for this object with the reported message.
    fn was_refused(
        &self,
        now: &Value,
        verbs: &[Verb],
        message: &str,
        attempt: Option<i64>,
    ) -> Verdict {
        let mut calls = self.calls_for(now, verbs);
        let is_so = calls.any(|call| {
            let is_it = attempt.is_none_or(|attempt| i64::from(call.attempt) == attempt);
            matches!(&call.fate, Fate::Refused(code) if message.contains(code.as_str())) && is_it
        });
        let why =
            || format!("reported as refused, and the service refused no such call: {message}");
        Verdict::of((!is_so).then(why), false)
    }

    /// Whether a create may have happened whose end this process does not know.
    fn may_be_bought(&self, process: ProcessId, now: &Value) -> Verdict {
        let record = record(now).filter(|record| speaks(record, now));
        if record.as_ref().is_some_and(PurchaseRecord::bought_nothing) {
            let why = "reported as unconfirmed, and the record says that the create was refused";
            return Verdict::Wrong(why.to_owned());
        }
        let is_lost = |call: &Call| match call.fate {
            Fate::Open | Fate::Lost => true,
            // Only the process that made the call got its answer.
            Fate::Accepted => call.process != process,
            Fate::NotSent | Fate::Refused(_) => false,
        };
        let announcers = &self.truth.announcers;
        let is_others = record.as_ref().is_some_and(|record| {
            record.lost > 0
                || announcers
                    .get(&record.nonce)
                    .is_some_and(|announcer| *announcer != process)
        });
        if is_others || self.calls_for(now, &[Verb::Create]).any(is_lost) {
            return Verdict::Right;
        }
        // The record is gone, by force or with the store, and its content with it.
        let is_excused = self.is_tampered(name_of(now)) || self.troubles.copied;
        let why = "reported as unconfirmed, and no create was left without an answer";
        Verdict::of(Some(why.to_owned()), is_excused)
    }

    /// Whether an entry of the history matches the result of its attempt; none if the entry makes no claim.
    pub(super) fn is_history_true(
        &self,
        process: ProcessId,
        (former, now): (&Value, &Value),
        entry: &Value,
        cloud: &World,
    ) -> Option<Verdict> {
        let attempt = entry["attempt"].as_i64().unwrap_or(0);
        let name = entry["verb"].as_str().unwrap_or_default();
        let verb = verb_of(name)?;
        if entry["reason"] == "Refused" {
            let message = entry["message"].as_str().unwrap_or_default();
            return Some(self.was_refused(now, &ALL, message, Some(attempt)));
        }
        if entry["succeeded"] != true {
            return None;
        }
        let of = uids(now);
        let on_record = record(now);
        let imported = on_record.as_ref().and_then(|r| r.imported.as_ref());
        let id = on_record.as_ref().and_then(|record| record.id.clone());
        let id = id.unwrap_or_default();
        let begun: Vec<&Begun> = self
            .talk
            .begun
            .iter()
            .filter(|begun| of.contains(&begun.object) && begun.verb == verb)
            // A process that adopts a server has it under its own attempt; and a status that is wiped between intent and call
            // does not show which attempt the call belongs to.
            .filter(|begun| {
                let is_any = verb == Verb::Create || (self.troubles.wiped && !begun.is_announced);
                is_any || i64::from(begun.attempt) == attempt
            })
            .collect();
        let has_ended = |begun: &&Begun| {
            let task = cloud.task(&begun.task);
            task.is_none_or(|task| task.progress == Progress::Succeeded)
        };
        if begun.iter().any(has_ended) {
            return Some(Verdict::Right);
        }
        let target = now["status"]["applied"]["image"].as_str();
        let shown = self.row_shown(process, &id, imported.is_some());
        if shown.is_some_and(|row| is_done_by(row, verb, target)) {
            return Some(Verdict::Right);
        }
        // The service does not report the end of a task that it claims not to know (docs).
        let is_unknown = |begun: &&Begun| self.talk.unknown_tasks.contains(&begun.task);
        // Nor of a task whose answer no process received.
        let heard = match verb {
            Verb::Create => on_record.as_ref().is_some_and(|r| r.task.is_some()),
            _ => operation(former).is_some_and(|operation| operation.task_id.is_some()),
        };
        // A server that was released before the end of its operation was known: a create or an erasure counts as done, so that
        // it is not repeated (docs).
        let is_gone = cloud
            .server(&id)
            .is_none_or(|server| !super::is_alive(&server));
        let is_assumed = matches!(verb, Verb::Create | Verb::Reinstall) && is_gone;
        let is_excused = begun.iter().any(is_unknown) || !heard || is_assumed;
        let why = format!("attempt {attempt} is reported as done, and no {name} was");
        Some(Verdict::of(Some(why), is_excused))
    }

    /// The row of the server in the newest answer to this process. For an import any row suffices, since it only proves that
    /// the server existed once.
    fn row_shown(&self, process: ProcessId, id: &str, is_import: bool) -> Option<&Value> {
        let mut shown = self.talk.shown(process, id);
        if is_import {
            shown.find_map(|shown| shown.row.as_ref())
        } else {
            shown.next().and_then(|shown| shown.row.as_ref())
        }
    }
}

/// Whether a row alone proves that such an operation was done.
fn is_done_by(row: &Value, verb: Verb, target_image: Option<&str>) -> bool {
    let shows = |field: &str, values: &[&str]| values.iter().any(|value| row[field] == *value);
    match verb {
        Verb::Create => shows("ecsStatus", &["STARTED", "STOPPED"]),
        Verb::Start => shows("ecsStatus", &["STARTED"]),
        Verb::Stop => shows("ecsStatus", &["STOPPED"]),
        Verb::Reinstall => target_image.is_some_and(|image| shows("imageResourceUUID", &[image])),
        Verb::Restart | Verb::Password | Verb::Release => false,
    }
}

/// The service's verb for an entry of the history.
pub(super) fn verb_of(name: &str) -> Option<Verb> {
    Some(match name {
        "Create" => Verb::Create,
        "Release" => Verb::Release,
        "Reinstall" => Verb::Reinstall,
        "ModifyPassword" => Verb::Password,
        "Start" => Verb::Start,
        "Stop" => Verb::Stop,
        "Restart" => Verb::Restart,
        _ => return None,
    })
}
