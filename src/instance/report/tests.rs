use super::*;
use crate::api::condition_list::ListedTypes;
use crate::api::conditions::Readiness;
use crate::instance::memory::all::Memories;
use crate::instance::status::write::status_written;
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

/// This process wrote a status, and another writer has replaced it once.
fn overwrites(facts: &Facts) -> Arc<Mutex<Memory>> {
    let memories = Memories::default();
    memories.met("u", &facts.key, true);
    let memory = memories.get("u").unwrap();
    status_written(facts, &releasing("ours"), "1", &mut open(&memory));
    assert_eq!(pause(facts, &releasing("ours"), &mut open(&memory)), None);
    status_written(facts, &releasing("ours"), "2", &mut open(&memory));
    memory
}

/// How long this status waits, which shows no progress.
fn pause(facts: &Facts, next: &InstanceStatus, memory: &mut Memory) -> Option<Duration> {
    wait(facts, &StatusChanges::default(), None, next, memory)
}

fn progress(facts: &Facts, reason: Reason, memory: &mut Memory) -> Option<Duration> {
    let why = Readiness::progress(reason, "it goes on");
    let next = status_of(&why);
    wait(facts, &StatusChanges::default(), Some(&why), &next, memory)
}

#[tokio::test(start_paused = true)]
async fn the_status_of_another_writer_is_replaced_at_once_and_then_once_in_half_a_minute() {
    let (theirs, ours) = (shows(&releasing("theirs")), releasing("ours"));
    let memory = overwrites(&theirs);
    let memory = &mut open(&memory).clone();
    let left = pause(&theirs, &ours, memory).unwrap();
    assert_eq!(pause(&shows(&ours), &releasing("new"), memory), None);
    tokio::time::advance(left).await;
    assert_eq!(pause(&theirs, &ours, memory), None);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_ready_and_a_status_of_an_older_generation_are_replaced_at_once() {
    let memory = overwrites(&shows(&releasing("theirs")));
    let memory = &mut open(&memory).clone();
    let ready = status_of(&Readiness::ready(Reason::Available, "theirs"));
    assert_eq!(pause(&shows(&ready), &releasing("ours"), memory), None);
    assert!(pause(&shows(&ready), &ready, memory).is_some());
    let mut edited = shows(&releasing("theirs"));
    edited.generation = 2;
    assert_eq!(pause(&edited, &releasing("ours"), memory), None);
}

#[tokio::test(start_paused = true)]
async fn a_list_without_our_conditions_is_replaced_but_an_empty_status_was_lost() {
    let mut facts = shows(&releasing("ours"));
    let all = &mut Arc::make_mut(&mut facts.status).conditions;
    let mut others = all[0].clone();
    (others.type_, *all) = ("Paid".to_owned(), Vec::new());
    facts.listed_types = ListedTypes::take(&mut vec![others]).into();
    let memory = overwrites(&facts);
    let memory = &mut open(&memory).clone();
    assert!(pause(&facts, &releasing("ours"), memory).is_some());
    facts.listed_types = Arc::default();
    assert_eq!(pause(&facts, &releasing("ours"), memory), None);
}

#[tokio::test(start_paused = true)]
async fn a_progress_is_written_once_it_lasts_and_at_once_for_an_edit() {
    let memories = Memories::default();
    let mut facts = shows(&releasing("ours"));
    let memory = memories.met("u", &facts.key, true);
    let memory = &mut open(&memory).clone();
    let shown = progress(&facts, Reason::Releasing, memory);
    assert_eq!(shown, Some(times::IDLE_REQUEUE), "status shows it");
    let left = progress(&facts, Reason::Creating, memory).unwrap();
    tokio::time::advance(left).await;
    assert_eq!(progress(&facts, Reason::Creating, memory), None);
    assert!(progress(&facts, Reason::Importing, memory).is_some());
    facts.generation = 2;
    assert_eq!(progress(&facts, Reason::Importing, memory), None);
    // No status was written yet, so this is no edit.
    facts.status = Arc::default();
    assert!(progress(&facts, Reason::Creating, memory).is_some());
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
