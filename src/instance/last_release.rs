//! The fields of status that version 0.1.0 did not write, derived once from what it wrote instead.

use crate::api::conditions::{READY, Reason};
use crate::api::{Cause, HistoryEntry, InstanceStatus, PowerState, Retry, Verb};
use crate::instance::times::pause_after;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Fills `retries`, `missingSince` and `applied.powerState` of a status that version 0.1.0 wrote. Remove this module in the
/// release after the next one, when no such status exists any more.
pub fn complete(status: &mut InstanceStatus, desired: PowerState) {
    let ready = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == READY);
    let missing = [Reason::ServerMissing, Reason::RecreateLimitReached].map(Reason::as_str);
    let is_missing = ready.filter(|ready| missing.contains(&ready.reason.as_str()));
    if let (None, Some(_), Some(ready)) = (&status.missing_since, &status.id, is_missing) {
        status.missing_since = Some(ready.last_transition_time.clone());
    }
    let is_ready = ready.is_some_and(|ready| ready.status == "True");
    if let Some(applied) = &mut status.applied
        && applied.power_state.is_none()
    {
        applied.power_state = match is_ready {
            true => Some(desired),
            false => status.history.iter().find_map(left_in),
        };
    }
    if status.retries.is_empty() {
        status.retries.extend(retry(status));
    }
}

/// The power state in which a successful operation left the server, if it set one. An adopted or imported server keeps its own.
fn left_in(entry: &HistoryEntry) -> Option<PowerState> {
    let was_found = matches!(entry.cause, Some(Cause::Adoption | Cause::Import));
    match entry.verb {
        _ if was_found || !entry.succeeded => None,
        Verb::Stop => Some(PowerState::Stopped),
        Verb::Create | Verb::Start | Verb::Restart => Some(PowerState::Running),
        Verb::Release | Verb::Reinstall | Verb::ModifyPassword => None,
    }
}

/// The wait that follows from the end of the newest operation.
fn retry(status: &InstanceStatus) -> Option<Retry> {
    let operation = status.operation.as_ref()?;
    let end = operation.end.as_ref()?;
    let pause = pause_after(end.reason, end.times).filter(|_| operation.verb != Verb::Create)?;
    Some(Retry {
        verb: operation.verb,
        generation: operation.generation,
        target: operation.target.clone(),
        reason: end.reason,
        message: end.message.clone(),
        times: end.times,
        not_before: Some(Time(end.finished_at.0.saturating_add(pause).ok()?)),
    })
}
