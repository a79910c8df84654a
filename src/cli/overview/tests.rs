//! What is printed of objects as they are at one moment.

use super::objects::Objects;
use super::progress::Durations;
use super::standing::about;
use super::{describe, tree};
use crate::api::{Account, Instance};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

const NOW: &str = "2026-03-01T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn instance(name: &str, status: &Value) -> Instance {
    let object = json!({
        "metadata": {"namespace": "team-a", "name": name, "generation": 2, "creationTimestamp": "2026-02-27T12:00:00Z"},
        "spec": {"region": "r", "zone": "z", "package": {"code": "p"}, "image": {"id": "img-1"}, "firewall": {"id": "fw-1"},
            "login": {"sshKey": {"id": "key-1"}}},
        "status": status,
    });
    serde_json::from_value(object).unwrap()
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-03-01T11:57:00Z"})
}

fn entry(verb: &str, attempt: i64, seconds: i64) -> Value {
    let finished: Timestamp = "2026-03-01T10:00:00Z".parse().unwrap();
    json!({"verb": verb, "attempt": attempt, "succeeded": true, "cause": "Spec", "finishedAt": finished,
        "startedAt": finished - SignedDuration::from_secs(seconds)})
}

/// It was bought in 30 s, and is reinstalled for 20 s, where others took 40.
fn reinstalled() -> Instance {
    instance(
        "db",
        &json!({
            "observedGeneration": 2,
            "id": "ecs-2",
            "operation": {"verb": "Reinstall", "attempt": 2, "accepted": true, "taskId": "task-7", "cause": "Spec",
                "startedAt": "2026-03-01T11:59:40Z"},
            "history": [entry("Reinstall", 2, 40), entry("Create", 1, 30)],
            "conditions": [condition("Ready", "False", "Reinstalling", "its disk is erased"),
                condition("Reconciling", "True", "Reinstalling", "its disk is erased")],
        }),
    )
}

fn refused() -> Instance {
    let words = "the service says no\u{1b}[31m";
    let conditions = [
        condition("Ready", "False", "CreateRefused", words),
        condition("Stalled", "True", "CreateRefused", words),
    ];
    instance(
        "app",
        &json!({"observedGeneration": 2, "conditions": conditions}),
    )
}

fn ready() -> Instance {
    instance(
        "web",
        &json!({
            "observedGeneration": 2,
            "id": "ecs-1",
            "package": "p",
            "detail": {"instanceName": "web-abc", "ecsStatus": "STARTED", "publicIpAddress": "198.18.0.1", "imageName": "Debian"},
            "history": [entry("Create", 1, 30)],
            "conditions": [condition("Ready", "True", "Available", "as the spec says")],
        }),
    )
}

fn account() -> Account {
    let object = json!({
        "metadata": {"namespace": "team-a", "name": "default"},
        "spec": {"endpoint": "https://cloud.example", "tokenSecretRef": {"name": "t", "key": "token"}},
        "status": {"observedGeneration": 1, "servers": 3, "unownedServers": 1,
            "limits": {"instances": {"used": 2, "allowed": 2}, "waiting": 1},
            "conditions": [condition("Ready", "True", "Available", "it answers")]},
    });
    serde_json::from_value(object).unwrap()
}

#[test]
fn the_tree_shows_each_instance_below_its_account_and_how_far_it_is() {
    let mut elsewhere = refused();
    elsewhere.metadata.name = Some("lost".to_owned());
    elsewhere.spec.account_ref.name = "other".to_owned();
    elsewhere.status = None;
    let objects = Objects {
        accounts: vec![account()],
        instances: vec![ready(), reinstalled(), refused(), elsewhere],
        unreadable: vec!["team-b/odd".to_owned()],
    };
    assert_eq!(
        tree::tree(&objects, now()).lines().collect::<Vec<_>>(),
        [
            "team-a",
            "├─ Account default: Ready · https://cloud.example · 3 servers, 1 of them nobody's · 2 of 2 Instances · 1 waiting",
            "│  ├─ app  Stalled (CreateRefused) · the service says no [31m",
            "│  ├─ db   Reconciling (Reinstalling) · reinstall [#####-----] 50 %, about 20 s left · ecs-2",
            "│  └─ web  Ready · ecs-1 STARTED 198.18.0.1",
            "└─ Account other: does not exist",
            "   └─ lost  not looked at yet",
            "team-b/odd: this version of the command cannot read it",
        ]
    );
}

#[test]
fn what_runs_is_described_with_its_task_and_what_was_done_with_its_time() {
    let others = [ready(), reinstalled()];
    let told = describe::describe(&reinstalled(), &Durations::of(&others), now());
    for words in [
        "Instance team-a/db, 2 d old, of Account default\n",
        "Its server is ecs-2.",
        "How it stands: Reconciling (Reinstalling)",
        "Ready is False since 3 min (Reinstalling): its disk is erased",
        "The reinstall (number 2, as the spec asks) is followed to its end; the service took it as task task-7. [#####-----] 50 %",
        "2 h ago: create 1: done in 30 s, as the spec asks",
    ] {
        assert!(told.contains(words), "{words:?} is not in\n{told}");
    }
}

#[test]
fn what_needs_a_person_is_described_with_its_remedy_and_cannot_steer_the_terminal() {
    let told = describe::describe(&refused(), &Durations::default(), now());
    let remedy = crate::api::conditions::Reason::CreateRefused.remedy();
    assert!(told.contains("It has no server."), "{told}");
    assert!(
        told.contains(&format!("Somebody has to mend something. {remedy}")),
        "{told}"
    );
    assert!(!told.contains('\u{1b}'), "{told}");
    let told = describe::describe(&ready(), &Durations::default(), now());
    assert!(told.contains("Its server is ecs-1, called web-abc, STARTED, at 198.18.0.1, with image Debian, package p."), "{told}");
    assert!(
        told.contains("Nothing, until the spec, a Secret or the server changes."),
        "{told}"
    );
}

#[test]
fn nobody_is_promised_an_end_that_nothing_tells_of() {
    let one = reinstalled();
    let open = one.status.as_ref().unwrap().operation.clone().unwrap();
    assert_eq!(Durations::default().progress(&open, now()), "for 20 s");
    let known = Durations::of(&[one]);
    let late = now() + SignedDuration::from_secs(60);
    assert_eq!(
        known.progress(&open, late),
        "[##########] for 80 s, longer than the usual 40 s"
    );
    let early = now() - SignedDuration::from_secs(60);
    assert_eq!(
        known.progress(&open, early),
        "[----------] 0 %, about 40 s left"
    );
    assert_eq!(about(SignedDuration::from_secs(-5)), "0 s");
}
