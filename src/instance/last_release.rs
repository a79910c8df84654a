//! The pauses in status, which version 0.1.0 did not write, derived once from what it wrote instead.

use crate::api::{InstanceStatus, Retry, Verb};
use crate::instance::times::pause_after;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Fills `retries` if it is empty, as in a status that version 0.1.0 wrote. Remove this module in the release after the next one,
/// when no status of that version exists any more.
pub fn complete(status: &mut InstanceStatus) {
    if status.retries.is_empty() {
        status.retries.extend(retry(status));
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

    #[test]
    fn a_status_of_the_last_release_gets_the_pauses_that_it_lacks() {
        let at = "2026-01-01T00:00:00Z";
        let mut status: InstanceStatus = serde_json::from_value(json!({
            "id": "ecs-1", "applied": {"image": "img-1"},
            "operation": {"verb": "Start", "attempt": 3, "startedAt": at,
                "end": {"reason": "Failed", "message": "no", "times": 2, "finishedAt": at}}}))
        .unwrap();
        complete(&mut status);
        let retry = &status.retries[0];
        assert_eq!((retry.verb, retry.times), (Verb::Start, 2));
        let again: Time = serde_json::from_value(json!("2026-01-01T00:01:00Z")).unwrap();
        assert_eq!(retry.not_before, Some(again));
        // A second derivation changes nothing.
        let once = status.clone();
        complete(&mut status);
        assert_eq!(status, once);
    }
}
