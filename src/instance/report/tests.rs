use super::*;
use crate::api::conditions::Readiness;
use jiff::Timestamp;
use serde_json::json;
use std::sync::Arc;

/// A status with this readiness.
fn status_of(readiness: &Readiness) -> InstanceStatus {
    InstanceStatus {
        conditions: readiness.to_conditions(&[], 1, Timestamp::UNIX_EPOCH),
        observed_generation: 1,
        ..InstanceStatus::default()
    }
}

fn releasing(message: &str) -> InstanceStatus {
    status_of(&Readiness::reconciling(Reason::Releasing, message))
}

/// The object with this status.
fn shows(status: &InstanceStatus) -> Facts {
    let instance = json!({
        "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance",
        "metadata": {"name": "web", "namespace": "ns", "uid": "u", "generation": 1},
        "spec": {"region": "r", "zone": "z", "package": {"code": "p"}, "image": {"id": "i"},
                 "firewall": {"id": "f"}, "login": {"sshKey": {"id": "k"}}},
        "status": status,
    });
    Facts::of("cluster", &serde_json::from_value(instance).unwrap())
}

fn progress(facts: &Facts, reason: Reason, writes: &mut StatusWrites) -> Option<Duration> {
    let why = Readiness::progress(reason, "it goes on");
    let next = status_of(&why);
    wait(facts, &StatusChanges::default(), Some(&why), &next, writes)
}

#[tokio::test(start_paused = true)]
async fn progress_is_written_once_it_lasts_and_at_once_after_an_edit() {
    let mut facts = shows(&releasing("ours"));
    let writes = &mut StatusWrites::default();
    let shown = progress(&facts, Reason::Releasing, writes);
    assert_eq!(shown, Some(times::IDLE_REQUEUE), "status shows it");
    let left = progress(&facts, Reason::Creating, writes).unwrap();
    tokio::time::advance(left).await;
    assert_eq!(progress(&facts, Reason::Creating, writes), None);
    assert!(progress(&facts, Reason::Importing, writes).is_some());
    facts.generation = 2;
    assert_eq!(progress(&facts, Reason::Importing, writes), None);
    // No status was written yet, so this is no edit.
    facts.status = Arc::default();
    assert!(progress(&facts, Reason::Creating, writes).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_replaced_status_waits_and_news_under_the_same_conditions_do_not() {
    let ours = Readiness::ready(Reason::Available, "ours");
    let mut next = status_of(&ours);
    let writes = &mut StatusWrites {
        pause: Some(StatusPause {
            until: Instant::now() + times::SAME_STATUS_REWRITE,
            digest: Some(digest(&next)),
        }),
        ..StatusWrites::default()
    };
    let mut wait = |former: &InstanceStatus, next: &InstanceStatus| {
        let changes = StatusChanges::default();
        super::wait(&shows(former), &changes, Some(&ours), next, writes)
    };
    let replaced = releasing("theirs");
    assert_eq!(wait(&replaced, &next), Some(times::SAME_STATUS_REWRITE));
    let other = status_of(&Readiness::ready(Reason::Available, "another message"));
    assert_eq!(wait(&replaced, &other), None);
    let former = next.clone();
    next.last_reconcile_token = Some("new".to_owned());
    assert_eq!(wait(&former, &next), None);
    tokio::time::advance(times::SAME_STATUS_REWRITE).await;
    assert_eq!(wait(&replaced, &next), None);
}

#[test]
fn an_operation_that_status_lacks_is_written_at_once() {
    let operation = serde_json::from_value::<Operation>(json!({
        "verb": "Reinstall", "attempt": 2, "nonce": "n", "generation": 1,
        "target": {"image": "i"}, "startedAt": "2026-11-22T10:00:00Z",
    }));
    let changes = StatusChanges {
        operation: Some(operation.unwrap()),
        ..StatusChanges::default()
    };
    let lost = releasing("lost");
    assert!(lacks_operation(&lost, &changes));
    let shown = InstanceStatus {
        operation: changes.operation.clone(),
        ..lost
    };
    assert!(!lacks_operation(&shown, &changes));
    let ready = InstanceStatus {
        conditions: status_of(&Readiness::ready(Reason::Available, "old")).conditions,
        ..shown
    };
    assert!(lacks_operation(&ready, &changes));
}
