//! The output for the state of objects at one moment.

use super::progress::Durations;
use super::readiness::about;
use super::{Objects, describe, next, tree};
use cloud_server_operator::api::conditions::Reason;
use cloud_server_operator::api::names::BINDING;
use cloud_server_operator::api::{Account, Instance, Marker};
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
    let words = "the service refuses\u{1b}[31m";
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
            "conditions": [condition("Ready", "True", "Available", "as in the spec")],
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

fn unreadable(kind: &str, namespace: &str, name: &str) -> [String; 3] {
    [kind, namespace, name].map(ToOwned::to_owned)
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
        unreadable: vec![
            unreadable("Instance", "team-b", "odd"),
            unreadable("Account", "team-a", "newer"),
        ],
    };
    assert_eq!(
        tree::tree(&objects, now()).lines().collect::<Vec<_>>(),
        [
            "team-a",
            "├─ Account default: Ready · https://cloud.example · 3 servers, 1 of them unowned · 2 of 2 Instances · 1 waiting",
            "│  ├─ app  Stalled (CreateRefused) · the service refuses [31m",
            "│  ├─ db   Reconciling (Reinstalling) · reinstall [#####-----] 50 %, about 20 s left · ecs-2",
            "│  └─ web  Ready · ecs-1 STARTED 198.18.0.1",
            "├─ Account newer: this version of the command cannot read it",
            "└─ Account other: does not exist",
            "   └─ lost  not observed yet",
            "Instance team-b/odd: this version of the command cannot read it",
        ]
    );
}

#[test]
fn an_operation_is_described_with_its_task_and_a_finished_one_with_its_time() {
    let others = [ready(), reinstalled()];
    let text = describe::describe(&reinstalled(), &Durations::of(&others), now());
    for words in [
        "Instance team-a/db, 2 d old, of Account default\n",
        "Its server is ecs-2.",
        "State: Reconciling (Reinstalling)",
        "Ready has been False for 3 min (Reinstalling): its disk is erased",
        "The operator follows the reinstall (attempt 2, as the spec asks) until it ends; the service accepted its newest call as task task-7. [#####-----] 50 %",
        "2 h ago: create 1: done in 30 s, as the spec asks",
    ] {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
}

#[test]
fn a_refusal_is_described_with_its_remedy_and_cannot_control_the_terminal() {
    let text = describe::describe(&refused(), &Durations::default(), now());
    let remedy = Reason::CreateRefused.remedy();
    assert!(text.contains("Status shows no server."), "{text}");
    assert!(text.contains(&format!("Next step\n  {remedy}\n")), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
    let mut announced = refused();
    let record = json!({"cluster": "c", "namespace": "team-a", "name": "web", "uid": "u1", "marker": Marker::of_uid("u1"),
        "attempt": 3, "nonce": "n", "startedAt": "1970-01-01T00:00:00Z", "generation": 1, "target": {}, "package": "p",
        "places": ["r/z"], "account": "default", "credential": "s/1"});
    let annotations = announced.metadata.annotations.get_or_insert_default();
    annotations.insert(BINDING.to_owned(), record.to_string());
    let text = describe::describe(&announced, &Durations::default(), now());
    assert!(
        text.contains("It may have a server: the record of create 3 names none."),
        "{text}"
    );
    let text = describe::describe(&ready(), &Durations::default(), now());
    assert!(text.contains("Its server is ecs-1, called web-abc, STARTED, at 198.18.0.1, with image Debian, package p."), "{text}");
    assert!(
        text.contains("Nothing, until spec, Secret or server change, or a rotation is due."),
        "{text}"
    );
}

#[test]
fn no_remaining_time_is_shown_that_no_duration_supports() {
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

/// The service rejects the token of the Account; an Instance of it is Ready.
#[test]
fn a_problem_of_an_account_is_shown_also_for_its_ready_instances() {
    let mut refused = serde_json::to_value(account()).unwrap();
    refused["status"]["conditions"] = json!([
        condition(
            "Ready",
            "False",
            "TokenRefused",
            "put a valid token into Secret t"
        ),
        condition(
            "Stalled",
            "True",
            "TokenRefused",
            "put a valid token into Secret t"
        ),
    ]);
    let mut instance = serde_json::to_value(ready()).unwrap();
    let synced = condition(
        "Synced",
        "False",
        "TokenRefused",
        "its Account cannot be used",
    );
    let conditions = instance["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(synced);
    let instance: Instance = serde_json::from_value(instance).unwrap();
    let objects = Objects {
        accounts: vec![serde_json::from_value(refused).unwrap()],
        instances: vec![instance.clone()],
        unreadable: Vec::new(),
    };
    let tree = tree::tree(&objects, now());
    let line = "Account default: Stalled (TokenRefused) · put a valid token into Secret t · https://cloud.example";
    assert!(tree.contains(line), "{tree}");
    let text = describe::describe(&instance, &Durations::default(), now());
    let remedy = Reason::TokenRefused.remedy();
    let next = format!("Next step\n  Nothing now, but an edit would have to wait: {remedy}\n");
    assert!(text.contains(&next), "{text}");
}

#[test]
fn an_unreadable_account_is_shown_with_its_instances() {
    let objects = Objects {
        accounts: Vec::new(),
        instances: vec![ready()],
        unreadable: vec![unreadable("Account", "team-a", "default")],
    };
    assert_eq!(
        tree::tree(&objects, now()).lines().collect::<Vec<_>>(),
        [
            "team-a",
            "└─ Account default: this version of the command cannot read it",
            "   └─ web  Ready · ecs-1 STARTED 198.18.0.1",
        ]
    );
}

#[test]
fn a_status_of_a_former_spec_is_not_shown_for_this_one() {
    let mut edited = ready();
    edited.metadata.generation = Some(3);
    let mut account = account();
    account.metadata.generation = Some(2);
    let mut deleted = refused();
    deleted.metadata.generation = Some(3);
    deleted.metadata.deletion_timestamp = serde_json::from_value(json!(NOW)).unwrap();
    let text = describe::describe(&edited, &Durations::default(), now());
    for words in [
        "State: edited, not observed yet\n  These conditions are older than the newest edit or the deletion.\n",
        "Next step\n  The operator has not observed the newest edit or the deletion yet.",
    ] {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
    let objects = Objects {
        accounts: vec![account],
        instances: vec![deleted, edited],
        unreadable: Vec::new(),
    };
    let tree = tree::tree(&objects, now());
    for line in [
        "Account default: edited, not observed yet · https://",
        "├─ app  being deleted, not observed yet\n",
        "└─ web  edited, not observed yet · ecs-1",
    ] {
        assert!(tree.contains(line), "{line:?} is not in\n{tree}");
    }
}

/// Ready is False for this reason, and Stalled or Reconciling is True.
fn held(kind: &str, reason: Reason) -> Value {
    let reason = reason.as_str();
    json!({"observedGeneration": 2, "id": "ecs-1",
        "conditions": [condition("Ready", "False", reason, "m"), condition(kind, "True", reason, "m")]})
}

fn next_of(instance: &Instance) -> String {
    let status = instance.status.as_ref().unwrap();
    next::next(instance, status, &Durations::default(), now())
}

#[test]
fn a_missing_server_is_shown_as_the_former_server() {
    let missing = instance("web", &held("Stalled", Reason::ServerMissing));
    let text = describe::describe(&missing, &Durations::default(), now());
    assert!(text.contains("Its server was ecs-1"), "{text}");
}

#[test]
fn the_remedy_of_the_reason_is_shown() {
    for reason in [
        Reason::LoginSecretNotFound,
        Reason::AccountNotFound,
        Reason::TokenRefused,
        Reason::Paused,
    ] {
        let text = next_of(&instance("web", &held("Reconciling", reason)));
        assert_eq!(text, reason.remedy());
    }
    let missing = |kind| next_of(&instance("web", &held(kind, Reason::ServerMissing)));
    assert_eq!(missing("Stalled"), Reason::ServerMissing.remedy());
    assert_eq!(
        missing("Reconciling"),
        "Wait: the operator does not know yet whether the server exists."
    );
    let newer = json!({"observedGeneration": 2, "conditions": [condition("Ready", "False", "OfTomorrow", "m")]});
    assert_eq!(
        next_of(&instance("web", &newer)),
        "Read the message of the condition Ready."
    );
}
