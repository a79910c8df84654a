use super::*;
use crate::api::conditions::Readiness;
use jiff::Timestamp;
use serde_json::json;

fn detail(status: &str, address: &str) -> Map<String, Value> {
    let detail =
        json!({"ecsStatus": status, "ecsPendingStatus": "NONE", "publicIpAddress": address});
    detail.as_object().unwrap().clone()
}

fn status(detail: Map<String, Value>, readiness: &Readiness) -> InstanceStatus {
    InstanceStatus {
        detail,
        conditions: readiness.to_conditions(&[], 1, Timestamp::UNIX_EPOCH),
        ..InstanceStatus::default()
    }
}

fn starts(status: &InstanceStatus, detail: &Map<String, Value>) -> bool {
    let now = Instant::now();
    let temporary = Temporary::next(None, status, detail, now);
    temporary.is_some_and(|temporary| temporary.read_at(Some(now)).is_some())
}

#[test]
fn only_an_unknown_state_and_a_missing_address_are_awaited() {
    let new = InstanceStatus::default();
    for (shown, is_waited_for) in [
        (detail("STARTED", "203.0.113.7"), false),
        (detail("STARTED", ""), true),
        (detail("STOPPED", ""), false),
        (detail("MIGRATING", "203.0.113.7"), true),
        (Map::new(), false),
    ] {
        assert_eq!(starts(&new, &shown), is_waited_for, "{shown:?}");
    }
}

#[test]
fn a_new_process_continues_a_wait_and_does_not_restart_one_that_has_ended() {
    let ready = Readiness::ready(Reason::Available, "");
    let waits = Readiness::reconciling(Reason::ForeignOperationRunning, "");
    let drifted = Readiness::drifted(Reason::PowerStateDiffers, "");
    let (late, migrating) = (detail("STARTED", ""), detail("MIGRATING", "203.0.113.7"));
    assert!(!starts(&status(late.clone(), &ready), &late));
    assert!(starts(&status(migrating.clone(), &waits), &migrating));
    assert!(!starts(&status(migrating.clone(), &drifted), &migrating));
    assert!(starts(&status(late.clone(), &ready), &migrating));
    // Any other condition is no evidence that a wait has ended.
    let unreachable = Readiness::reconciling(Reason::ServiceUnreachable, "");
    for shown in [late, migrating] {
        assert!(starts(&status(shown.clone(), &unreachable), &shown));
    }
}

#[test]
fn an_address_that_never_appears_costs_fourteen_reads() {
    let (new, late) = (InstanceStatus::default(), detail("STARTED", ""));
    let begun = Instant::now();
    let (mut now, mut reads) = (begun, 0);
    let temporary = Temporary::next(None, &new, &late, begun).unwrap();
    while let Some(next) = temporary.read_at(Some(now)) {
        assert!(next > now);
        (now, reads) = (next, reads + 1);
    }
    assert_eq!(now - begun, times::ADDRESS_SHOWN_WITHIN);
    assert!(reads <= 14, "{reads}");
}
