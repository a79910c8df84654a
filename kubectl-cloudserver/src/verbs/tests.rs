use super::edit::{Edit, Wish, edit};
use super::goal::{Aim, Goal, Standing, standing};
use super::managers::MANAGER;
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

/// The patch, or why there is none.
fn operations(wish: &Wish, live: &Instance) -> Result<Value, String> {
    match edit(wish, live, TOKEN) {
        Edit::Write(write) => Ok(write.operations),
        Edit::Nothing(why, _) | Edit::Refused(why) => Err(why),
    }
}

#[test]
fn each_verb_is_one_edit_of_the_very_object() {
    let same = json!({"op": "test", "path": "/metadata/uid", "value": "u1"});
    let add = |field: &str, value: Value| json!({"op": "add", "path": format!("/spec/{field}"), "value": value});
    let token = json!({"token": TOKEN});
    let until = "2026-12-24T18:00:00Z".to_owned();
    for (wish, wanted) in [
        (Wish::Stop, add("powerState", json!("Stopped"))),
        (Wish::Restart, add("restart", token.clone())),
        (Wish::Reconcile, add("reconcile", token)),
        (Wish::Pause(None), add("pause", json!({}))),
        (
            Wish::Pause(Some(until.clone())),
            add("pause", json!({"until": until})),
        ),
    ] {
        let sent = operations(&wish, &plain());
        assert_eq!(sent, Ok(json!([same, wanted])), "{wish:?}");
    }
    let stopped = instance(|one| one["spec"]["powerState"] = json!("Stopped"));
    let sent = operations(&Wish::Start, &stopped);
    assert_eq!(sent, Ok(json!([same, add("powerState", json!("Running"))])));
    let paused = instance(|one| one["spec"]["pause"] = json!({}));
    let sent = operations(&Wish::Resume, &paused);
    assert_eq!(
        sent,
        Ok(json!([same, {"op": "remove", "path": "/spec/pause"}]))
    );
}

#[test]
fn a_pause_leaves_nothing_of_the_one_before() {
    let past = instance(|one| one["spec"]["pause"] = json!({"until": "2020-01-01T00:00:00Z"}));
    let sent = operations(&Wish::Pause(None), &past).unwrap();
    assert_eq!(sent[1]["value"], json!({}));
}

#[test]
fn what_erases_acknowledges_the_image_and_the_spec_that_were_shown() {
    let sent = operations(&Wish::Reinstall, &plain()).unwrap();
    assert_eq!(
        sent,
        json!([
            {"op": "test", "path": "/metadata/generation", "value": 4},
            {"op": "test", "path": "/metadata/uid", "value": "u1"},
            {"op": "add", "path": "/spec/reinstall", "value": {"token": TOKEN, "image": "img-1"}},
        ])
    );
    let by_name = instance(|one| {
        one["spec"]["image"] = json!({"name": "Debian 12"});
        one["status"]["resolved"] = json!({"image": {"id": "img-2", "from": "name"}});
    });
    let sent = operations(&Wish::Reinstall, &by_name).unwrap();
    assert_eq!(sent[2]["value"]["image"], "img-2");
}

#[test]
fn what_would_do_nothing_or_something_else_is_not_sent() {
    let spec = |field: &str, value: Value| instance(|one| one["spec"][field] = value);
    let deleted = |one: &mut Value| {
        one["metadata"]["deletionTimestamp"] = json!("2026-11-23T17:00:00Z");
    };
    for (wish, live, word) in [
        (Wish::Start, plain(), "Running already"),
        (Wish::Resume, plain(), "not paused"),
        (
            Wish::Pause(None),
            spec("pause", json!({})),
            "paused already",
        ),
        (
            Wish::Restart,
            spec("powerState", json!("Stopped")),
            "`start`",
        ),
        (
            Wish::Reinstall,
            spec("reinstallPolicy", json!("Never")),
            "Never",
        ),
        (
            Wish::Stop,
            spec("managementPolicy", json!("Observe")),
            "Observe",
        ),
        (
            Wish::Reinstall,
            instance(|one| one["status"] = json!({"observedGeneration": 4})),
            "no server",
        ),
        (
            Wish::Reinstall,
            spec("image", json!({"name": "Debian 12"})),
            "not known yet",
        ),
        (Wish::Reconcile, instance(deleted), "deleted"),
    ] {
        let why = operations(&wish, &live).unwrap_err();
        assert!(why.contains(word), "{wish:?}: {why}");
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
fn a_token_that_a_manifest_would_set_back_is_not_touched() {
    for (wish, field) in [(Wish::Restart, "restart"), (Wish::Reinstall, "reinstall")] {
        let why = operations(&wish, &applied_by("kustomize-controller", field)).unwrap_err();
        assert!(
            why.contains("kustomize-controller") && why.contains("another"),
            "{why}"
        );
        assert!(operations(&wish, &applied_by(MANAGER, field)).is_ok());
        assert!(operations(&wish, &applied_by("flux", "image")).is_ok());
        let manifest = json!({"spec": {field: {"token": "a"}}}).to_string();
        let client_side = instance(|one| {
            one["metadata"]["annotations"] =
                json!({"kubectl.kubernetes.io/last-applied-configuration": manifest});
        });
        let why = operations(&wish, &client_side).unwrap_err();
        assert!(why.contains("kubectl apply"), "{why}");
    }
    // A repeat without harm is sent, with a note.
    let Edit::Write(write) = edit(&Wish::Stop, &applied_by("flux", "powerState"), TOKEN) else {
        panic!("it is sent");
    };
    assert!(
        write.notes[0].contains("will revert this change"),
        "{:?}",
        write.notes
    );
    // A manifest with the same value causes no note.
    let manifest = json!({"spec": {"powerState": "Running"}}).to_string();
    let stopped = instance(|one| {
        one["spec"]["powerState"] = json!("Stopped");
        one["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": manifest});
    });
    let Edit::Write(write) = edit(&Wish::Start, &stopped, TOKEN) else {
        panic!("it is sent");
    };
    assert_eq!(write.notes, [""; 0]);
}

/// How far an Instance is for an edit that made generation 5.
fn after(aim: &Aim, change: impl FnOnce(&mut Value)) -> Standing {
    let goal = Goal {
        uid: "u1".to_owned(),
        generation: 5,
        aim: aim.clone(),
    };
    let live = instance(|one| {
        one["metadata"]["generation"] = json!(5);
        change(one);
    });
    standing(Some(&live), &goal)
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
fn no_status_from_before_the_edit_is_believed() {
    let is_waiting = |standing: Standing| matches!(standing, Standing::Waiting(_));
    for aim in [Aim::Ready, Aim::Paused, Aim::Looked(token())] {
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
fn it_is_done_when_the_status_of_the_edit_says_so() {
    let done = Standing::Done("Available: words".to_owned());
    let at_rest = || vec![ready("True", "Available")];
    let told = |aim: &Aim, more: Value| after(aim, status(5, at_rest(), more));
    assert_eq!(told(&Aim::Ready, json!({})), done);
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
        assert_eq!(told(&aim, json!({"applied": {field: TOKEN}})), done);
        for other in [json!({}), json!({"applied": {field: "another"}})] {
            assert!(matches!(told(&aim, other), Standing::Waiting(_)), "{aim:?}");
        }
    }
    let looked = json!({"lastReconcileToken": TOKEN});
    assert_eq!(told(&Aim::Looked(token()), looked.clone()), done);
    let paused = || {
        vec![
            ready("False", "Paused"),
            condition("Reconciling", "True", "Paused", 5),
        ]
    };
    let done = Standing::Done("Paused: words".to_owned());
    assert_eq!(after(&Aim::Paused, status(5, paused(), json!({}))), done);
    assert_eq!(
        after(&Aim::Looked(token()), status(5, paused(), looked)),
        done
    );
}

#[test]
fn a_failure_ends_the_wait_and_progress_does_not() {
    let of = |aim: &Aim, conditions: Vec<Value>| after(aim, status(5, conditions, json!({})));
    let is_failed = |standing: Standing| matches!(standing, Standing::Failed(_));
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
            "nothing comes of it: {aim:?}"
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
        standing(None, &goal),
        Standing::Failed("it was deleted".to_owned())
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
        let (_, matches) = matches.subcommand().unwrap();
        let args = <PauseArgs as clap::FromArgMatches>::from_arg_matches(matches).unwrap();
        args.end(now)
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
