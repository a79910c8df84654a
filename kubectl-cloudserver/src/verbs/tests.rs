use super::edit::{Edit, Verb, edit};
use super::goal::{Aim, Goal, Outcome, judge};
use super::managers::FIELD_MANAGER;
use super::*;
use crate::command;
use serde_json::{Value, json};

const TOKEN: &str = "2026-11-23T17:00:00Z 0f1e2d3c";

/// An idle Instance, changed.
fn instance(change: impl FnOnce(&mut Value)) -> Instance {
    let mut object = json!({
        "apiVersion": "cloudserver.dev/v1alpha1",
        "kind": "Instance",
        "metadata": {"name": "web", "namespace": "team-a", "uid": "u1", "generation": 4},
        "spec": {
            "region": "r", "zone": "z", "package": {"code": "p"}, "image": {"id": "img-1"},
            "firewall": {"id": "fw"}, "login": {"sshKey": {"id": "key"}},
        },
        "status": {
            "observedGeneration": 4, "id": "ecs-1",
            "conditions": [condition("Ready", "True", "Available", 4)],
        },
    });
    change(&mut object);
    serde_json::from_value(object).unwrap()
}

fn condition(kind: &str, status: &str, reason: &str, generation: i64) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": "words", "observedGeneration": generation,
        "lastTransitionTime": "2026-11-23T17:00:00Z"})
}

fn plain() -> Instance {
    instance(|_| {})
}

/// The patch, or the reason why there is none.
fn operations(verb: &Verb, live: &Instance) -> Result<Value, String> {
    let edit = edit(verb, live, TOKEN)?;
    edit.patch.ok_or_else(|| edit.message.to_owned())
}

#[test]
fn each_verb_is_one_edit_of_the_very_object() {
    let same = json!({"op": "test", "path": "/metadata/uid", "value": "u1"});
    let add = |field: &str, value: Value| json!({"op": "add", "path": format!("/spec/{field}"), "value": value});
    let token = json!({"token": TOKEN});
    let until = "2026-12-24T18:00:00Z".to_owned();
    for (verb, operation) in [
        (Verb::Stop, add("powerState", json!("Stopped"))),
        (Verb::Restart, add("restart", token.clone())),
        (Verb::Reconcile, add("reconcile", token)),
        (Verb::Pause(None), add("pause", json!({}))),
        (
            Verb::Pause(Some(until.clone())),
            add("pause", json!({"until": until})),
        ),
    ] {
        let sent = operations(&verb, &plain());
        assert_eq!(sent, Ok(json!([same, operation])), "{verb:?}");
    }
    let stopped = instance(|one| one["spec"]["powerState"] = json!("Stopped"));
    let sent = operations(&Verb::Start, &stopped);
    assert_eq!(sent, Ok(json!([same, add("powerState", json!("Running"))])));
    let paused = instance(|one| one["spec"]["pause"] = json!({}));
    let sent = operations(&Verb::Resume, &paused);
    assert_eq!(
        sent,
        Ok(json!([same, {"op": "remove", "path": "/spec/pause"}]))
    );
}

#[test]
fn a_pause_leaves_nothing_of_the_one_before() {
    let past = instance(|one| one["spec"]["pause"] = json!({"until": "2020-01-01T00:00:00Z"}));
    let sent = operations(&Verb::Pause(None), &past).unwrap();
    assert_eq!(sent[1]["value"], json!({}));
}

#[test]
fn a_reinstall_confirms_the_image_and_the_spec_that_were_shown() {
    let sent = operations(&Verb::Reinstall, &plain()).unwrap();
    assert_eq!(
        sent,
        json!([
            {"op": "test", "path": "/metadata/uid", "value": "u1"},
            {"op": "test", "path": "/metadata/generation", "value": 4},
            {"op": "add", "path": "/spec/reinstall", "value": {"token": TOKEN, "image": "img-1"}},
        ])
    );
    let by_name = instance(|one| {
        one["spec"]["image"] = json!({"name": "Debian 12"});
        one["status"]["resolved"] = json!({"image": {"id": "img-2", "from": "name"}});
    });
    let sent = operations(&Verb::Reinstall, &by_name).unwrap();
    assert_eq!(sent[2]["value"]["image"], "img-2");
}

#[test]
fn an_edit_without_or_with_another_effect_is_not_sent() {
    let spec = |field: &str, value: Value| instance(|one| one["spec"][field] = value);
    let deleted = |one: &mut Value| {
        one["metadata"]["deletionTimestamp"] = json!("2026-11-23T17:00:00Z");
    };
    for (verb, live, word) in [
        (Verb::Start, plain(), "Running already"),
        (Verb::Resume, plain(), "not paused"),
        (
            Verb::Pause(None),
            spec("pause", json!({})),
            "paused already",
        ),
        (
            Verb::Restart,
            spec("powerState", json!("Stopped")),
            "`start`",
        ),
        (
            Verb::Reinstall,
            spec("reinstallPolicy", json!("Never")),
            "Never",
        ),
        (
            Verb::Stop,
            spec("managementPolicy", json!("Observe")),
            "Observe",
        ),
        (
            Verb::Reinstall,
            instance(|one| one["status"] = json!({"observedGeneration": 4})),
            "no server",
        ),
        (
            Verb::Reinstall,
            spec("image", json!({"name": "Debian 12"})),
            "not known yet",
        ),
        (Verb::Reconcile, instance(deleted), "deleted"),
    ] {
        let why = operations(&verb, &live).unwrap_err();
        assert!(why.contains(word), "{verb:?}: {why}");
    }
}

/// The Instance with this field in a manifest of another applier.
fn applied_by(manager: &str, field: &str) -> Instance {
    instance(|one| {
        one["metadata"]["managedFields"] = json!([
            {"manager": manager, "operation": "Apply", "apiVersion": "cloudserver.dev/v1alpha1", "fieldsType": "FieldsV1",
             "fieldsV1": {"f:spec": {format!("f:{field}"): {"f:token": {}}}}},
        ]);
    })
}

#[test]
fn a_token_that_a_manifest_would_revert_is_not_changed() {
    for (verb, field) in [(Verb::Restart, "restart"), (Verb::Reinstall, "reinstall")] {
        let why = operations(&verb, &applied_by("kustomize-controller", field)).unwrap_err();
        assert!(
            why.contains("kustomize-controller") && why.contains("another"),
            "{why}"
        );
        assert!(operations(&verb, &applied_by(FIELD_MANAGER, field)).is_ok());
        assert!(operations(&verb, &applied_by("flux", "image")).is_ok());
        let manifest = json!({"spec": {field: {"token": "a"}}}).to_string();
        let client_side = instance(|one| {
            one["metadata"]["annotations"] =
                json!({"kubectl.kubernetes.io/last-applied-configuration": manifest});
        });
        let why = operations(&verb, &client_side).unwrap_err();
        assert!(why.contains("kubectl apply"), "{why}");
    }
    // A repeat without harm is sent, with a note.
    let Edit { patch, notes, .. } =
        edit(&Verb::Stop, &applied_by("flux", "powerState"), TOKEN).unwrap();
    assert!(patch.is_some());
    assert!(notes[0].contains("will revert this change"), "{notes:?}");
    // A manifest with the same value causes no note.
    let manifest = json!({"spec": {"powerState": "Running"}}).to_string();
    let stopped = instance(|one| {
        one["spec"]["powerState"] = json!("Stopped");
        one["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": manifest});
    });
    let edit = edit(&Verb::Start, &stopped, TOKEN).unwrap();
    assert!(edit.patch.is_some());
    assert_eq!(edit.notes, [""; 0]);
}

/// The outcome for an edit that made generation 5.
fn after(aim: &Aim, change: impl FnOnce(&mut Value)) -> Outcome {
    let goal = Goal {
        uid: "u1".to_owned(),
        generation: 5,
        aim: aim.clone(),
    };
    let live = instance(|one| {
        one["metadata"]["generation"] = json!(5);
        change(one);
    });
    judge(Some(&live), &goal)
}

/// A status of that generation, or of another one.
fn status(generation: i64, conditions: Vec<Value>, more: Value) -> impl FnOnce(&mut Value) {
    move |one| {
        one["status"] =
            json!({"observedGeneration": generation, "id": "ecs-1", "conditions": conditions});
        for (field, value) in more.as_object().into_iter().flatten() {
            one["status"][field] = value.clone();
        }
    }
}

fn ready(status: &str, reason: &str) -> Value {
    condition("Ready", status, reason, 5)
}

fn token() -> String {
    TOKEN.to_owned()
}

#[test]
fn a_status_from_before_the_edit_does_not_count() {
    let is_waiting = |outcome: Outcome| matches!(outcome, Outcome::Waiting(_));
    for aim in [Aim::Ready, Aim::Paused, Aim::Observed(token())] {
        assert!(is_waiting(after(&aim, |_| {})), "{aim:?}");
        let old = status(
            5,
            vec![condition("Ready", "True", "Available", 4)],
            json!({}),
        );
        assert!(is_waiting(after(&aim, old)), "{aim:?}");
        assert!(
            is_waiting(after(&aim, |one| one["status"] = json!(null))),
            "{aim:?}"
        );
        let stalled = vec![
            condition("Stalled", "True", "CreateRefused", 4),
            ready("False", "Creating"),
        ];
        assert!(
            is_waiting(after(&aim, status(5, stalled, json!({})))),
            "{aim:?}"
        );
    }
}

#[test]
fn the_goal_is_reached_when_the_status_of_the_edit_shows_it() {
    let done = Outcome::Done("Available: words".to_owned());
    let available = || vec![ready("True", "Available")];
    let idle = |aim: &Aim, more: Value| after(aim, status(5, available(), more));
    assert_eq!(idle(&Aim::Ready, json!({})), done);
    // A later edit by another user does not undo the result of this one.
    let later = status(
        6,
        vec![condition("Ready", "True", "Available", 6)],
        json!({}),
    );
    assert_eq!(after(&Aim::Ready, later), done);
    for (aim, field) in [
        (Aim::Restarted(token()), "restart"),
        (Aim::Reinstalled(token()), "reinstall"),
    ] {
        assert_eq!(idle(&aim, json!({"applied": {field: TOKEN}})), done);
        for other in [json!({}), json!({"applied": {field: "another"}})] {
            assert!(matches!(idle(&aim, other), Outcome::Waiting(_)), "{aim:?}");
        }
    }
    let observed = json!({"lastReconcileToken": TOKEN});
    assert_eq!(idle(&Aim::Observed(token()), observed.clone()), done);
    let paused = || {
        vec![
            ready("False", "Paused"),
            condition("Reconciling", "True", "Paused", 5),
        ]
    };
    let done = Outcome::Done("Paused: words".to_owned());
    assert_eq!(after(&Aim::Paused, status(5, paused(), json!({}))), done);
    let is_open = json!({"operation": {"verb": "Reinstall", "attempt": 2, "accepted": true, "startedAt": "2026-03-01T11:59:40Z"}});
    assert_eq!(
        after(&Aim::Paused, status(5, paused(), is_open)),
        Outcome::Waiting("Paused: words".to_owned())
    );
    assert_eq!(
        after(&Aim::Observed(token()), status(5, paused(), observed)),
        done
    );
}

#[test]
fn a_failure_ends_the_wait_and_progress_does_not() {
    let of = |aim: &Aim, conditions: Vec<Value>| after(aim, status(5, conditions, json!({})));
    let is_failed = |outcome: Outcome| matches!(outcome, Outcome::Failed(_));
    let stalled = |reason: &str| {
        vec![
            ready("False", reason),
            condition("Stalled", "True", reason, 5),
        ]
    };
    let going_on = |reason: &str| {
        vec![
            ready("False", reason),
            condition("Reconciling", "True", reason, 5),
        ]
    };
    for aim in [
        Aim::Ready,
        Aim::Restarted(token()),
        Aim::Reinstalled(token()),
    ] {
        assert!(
            is_failed(of(&aim, stalled("ReinstallNeedsApproval"))),
            "{aim:?}"
        );
        assert!(is_failed(of(&aim, going_on("OperationFailed"))), "{aim:?}");
        assert!(
            is_failed(of(&aim, going_on("Paused"))),
            "a pause ends the wait: {aim:?}"
        );
        for reason in ["Stopping", "ServiceUnreachable", "AccountNotFound"] {
            assert!(!is_failed(of(&aim, going_on(reason))), "{aim:?} {reason}");
        }
    }
    assert!(is_failed(after(
        &Aim::Ready,
        |one| one["metadata"]["uid"] = json!("u2")
    )));
    assert!(is_failed(after(&Aim::Ready, |one| {
        one["metadata"]["deletionTimestamp"] = json!("2026-11-23T17:00:00Z");
    })));
    let goal = goal(&plain(), Aim::Ready);
    assert_eq!(
        judge(None, &goal),
        Outcome::Failed("it was deleted".to_owned())
    );
}

#[test]
fn the_end_of_a_pause_is_a_time_that_is_still_to_come() {
    let now: Timestamp = "2026-11-23T17:00:00Z".parse().unwrap();
    let end = |flags: &[&str]| {
        let words = [&["cloud-server-operator", "pause", "web"][..], flags].concat();
        let matches = command()
            .try_get_matches_from(words)
            .map_err(|error| error.to_string())?;
        let verb = <VerbCommand as clap::FromArgMatches>::from_arg_matches(&matches);
        match verb.unwrap() {
            VerbCommand::Pause { until, lasts, .. } => super::end(until, lasts, now),
            other => panic!("no pause: {other:?}"),
        }
    };
    let at = |text: &str| Ok(Some(text.to_owned()));
    assert_eq!(end(&[]), Ok(None));
    assert_eq!(end(&["--for", "1h30m"]), at("2026-11-23T18:30:00Z"));
    assert_eq!(
        end(&["--until", "2026-12-24T20:00:00+02:00"]),
        at("2026-12-24T18:00:00Z")
    );
    for wrong in [
        &["--until", "2020-01-01T00:00:00Z"][..],
        &["--until", "tomorrow"],
        &["--for", "0s"],
        &["--for", "1h", "--until", "2026-12-24T18:00:00Z"],
    ] {
        assert!(end(wrong).is_err(), "{wrong:?}");
    }
}
