use super::*;
use crate::api::condition_list::ListedTypes;
use crate::api::conditions::Readiness;
use crate::instance::memory::all::Memories;
use crate::instance::status::write::{digest, has_said};
use jiff::Timestamp;
use serde_json::json;
use std::sync::{Arc, Mutex};

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

/// This process wrote a status, and another writer has replaced it once.
fn overwrites(facts: &Facts) -> Arc<Mutex<Memory>> {
    let memories = Memories::default();
    memories.met("u", &facts.key, true);
    let memory = memories.get("u").unwrap();
    has_said(facts, &releasing("ours"), "1", &mut open(&memory));
    assert_eq!(damped(facts, &releasing("ours"), &open(&memory)), None);
    has_said(facts, &releasing("ours"), "2", &mut open(&memory));
    memory
}

#[tokio::test(start_paused = true)]
async fn another_writer_is_overwritten_at_once_and_then_once_in_half_a_minute() {
    let (theirs, ours) = (shows(&releasing("theirs")), releasing("ours"));
    let memory = overwrites(&theirs);
    let rest = damped(&theirs, &ours, &open(&memory)).unwrap();
    assert_eq!(
        damped(&shows(&ours), &releasing("new"), &open(&memory)),
        None
    );
    tokio::time::advance(rest).await;
    assert_eq!(damped(&theirs, &ours, &open(&memory)), None);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_ready_is_overwritten_sooner_and_a_new_generation_is_reported_at_once() {
    let memory = overwrites(&shows(&releasing("theirs")));
    let ready = status_of(&Readiness::ready(Reason::Available, "theirs"));
    {
        let memory = &open(&memory);
        let wrong = damped(&shows(&ready), &releasing("ours"), memory);
        assert_eq!(wrong, Some(times::WRONG_READY_REWRITE));
        let other = damped(&shows(&ready), &ready, memory);
        assert_eq!(other, Some(times::CONFLICTING_STATUS_REWRITE));
    }
    let mut edited = shows(&releasing("theirs"));
    edited.generation = 2;
    let next = releasing("ours");
    assert_eq!(damped(&edited, &next, &open(&memory)), None);
    has_said(&edited, &next, "3", &mut open(&memory));
    assert!(damped(&edited, &next, &open(&memory)).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_list_without_our_conditions_is_replaced_but_an_empty_status_was_lost() {
    let mut facts = shows(&releasing("ours"));
    let all = &mut Arc::make_mut(&mut facts.status).conditions;
    let mut others = all[0].clone();
    (others.type_, *all) = ("Paid".to_owned(), Vec::new());
    facts.listed_types = ListedTypes::take(&mut vec![others]).into();
    let memory = overwrites(&facts);
    assert!(damped(&facts, &releasing("ours"), &open(&memory)).is_some());
    facts.listed_types = Arc::default();
    assert_eq!(damped(&facts, &releasing("ours"), &open(&memory)), None);
}

#[tokio::test(start_paused = true)]
async fn a_status_whose_answer_was_lost_is_ours() {
    let theirs = shows(&releasing("theirs"));
    let memory = overwrites(&theirs);
    let memory = &mut open(&memory);
    assert!(damped(&theirs, &releasing("new"), memory).is_some());
    memory.told.unanswered = Some(digest(&theirs.status));
    assert_eq!(damped(&theirs, &releasing("new"), memory), None);
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
    assert!(misses_an_operation(&shows(&lost), &changes));
    let shown = InstanceStatus {
        operation: changes.operation.clone(),
        ..lost
    };
    assert!(!misses_an_operation(&shows(&shown), &changes));
    let ready = InstanceStatus {
        conditions: status_of(&Readiness::ready(Reason::Available, "old")).conditions,
        ..shown
    };
    assert!(misses_an_operation(&shows(&ready), &changes));
}
