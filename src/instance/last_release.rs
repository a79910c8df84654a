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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn completed(status: serde_json::Value) -> InstanceStatus {
        let mut status = serde_json::from_value(status).unwrap();
        complete(&mut status, PowerState::Running);
        // A second derivation changes nothing.
        let once = status.clone();
        complete(&mut status, PowerState::Stopped);
        assert_eq!(status, once);
        status
    }

    #[test]
    fn a_status_of_the_last_release_gets_the_fields_that_it_lacks() {
        let at = "2026-01-01T00:00:00Z";
        let ready = |status: &str, reason: &str| {
            json!([{"type": "Ready", "status": status, "reason": reason, "message": "",
                "lastTransitionTime": at}])
        };
        let applied = json!({"image": "img-1"});
        let is_ready = completed(json!({
            "id": "ecs-1", "applied": applied, "conditions": ready("True", "Available")}));
        assert_eq!(
            is_ready.applied.unwrap().power_state,
            Some(PowerState::Running)
        );
        assert_eq!(
            (is_ready.missing_since, is_ready.retries),
            (None, Vec::new())
        );
        let stop = json!([{"verb": "Stop", "attempt": 2, "succeeded": true, "startedAt": at, "finishedAt": at}]);
        let operation = json!({"verb": "Start", "attempt": 3, "startedAt": at,
            "end": {"reason": "Failed", "message": "no", "times": 2, "finishedAt": at}});
        let failed = completed(json!({
            "id": "ecs-1", "applied": applied, "history": stop, "operation": operation,
            "conditions": ready("False", "OperationFailed")}));
        assert_eq!(
            failed.applied.unwrap().power_state,
            Some(PowerState::Stopped)
        );
        let retry = &failed.retries[0];
        assert_eq!((retry.verb, retry.times), (Verb::Start, 2));
        let again: Time = serde_json::from_value(json!("2026-01-01T00:01:00Z")).unwrap();
        assert_eq!(retry.not_before, Some(again));
        let missing = completed(json!({
            "id": "ecs-1", "conditions": ready("False", "ServerMissing")}));
        assert!(missing.missing_since.is_some());
    }
}
