//! Each mutating call leaves a trace: the operation, its reason, and the request behind it.

use crate::support::{
    Setup, World, console, done, eventually, instance, mark, new_password, other_image, path_of,
    quiet, stopped, token, with,
};
use cloud_server_operator::api::{Cause, HistoryEntry, Instance, Verb};
use cloud_simulator::faults::{Act, Rule, When};
use cloud_simulator::model::{Console, TaskScript};
use serde_json::{Value, json};

/// Asserts that the newest entry of the history has this verb and cause, for the current spec.
fn entry(instance: &Instance, verb: Verb, cause: Cause) -> HistoryEntry {
    let entry = instance.status.as_ref().unwrap().history[0].clone();
    assert_eq!((entry.verb, entry.cause), (verb, Some(cause)), "{entry:#?}");
    assert_eq!(entry.generation, instance.metadata.generation, "{entry:#?}");
    entry
}

/// Waits for an Event with this reason that contains these words.
async fn until_event(world: &World, reason: &str, words: &[&str]) {
    eventually(
        &format!("an Event {reason} contains {words:?}"),
        async || {
            let events = world.events(reason).await;
            let notes: Vec<String> = events.into_iter().filter_map(|event| event.note).collect();
            let contains_all = |note: &String| words.iter().all(|word| note.contains(word));
            match notes.iter().any(contains_all) {
                true => Ok(()),
                false => Err(format!("{notes:#?}")),
            }
        },
    )
    .await;
}

/// The log's lines about an Instance with this message.
fn lines(world: &World, message: &str) -> Vec<Value> {
    let logs = world.logs();
    let lines = logs
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    lines
        .filter(|line: &Value| line["message"] == message && line["name"] == "web")
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_each_call_has_an_event_with_its_cause_and_generation() {
    let world = Setup::default().begin("causes").await;
    world.apply(&instance("web")).await;
    let ready = world.ready("web").await;
    entry(&ready, Verb::Create, Cause::Spec);
    until_event(&world, "Creating", &["as the spec asks", "generation 1"]).await;
    until_event(&world, "Created", &["as the spec asks", "generation 1"]).await;

    let before = mark(&world, "web").await;
    new_password(&world).await;
    let ready = done(&world, "web", &before, &[Verb::ModifyPassword]).await;
    let secret = entry(&ready, Verb::ModifyPassword, Cause::Secret).password_secret;
    let applied = ready.status.as_ref().unwrap().applied.clone().unwrap();
    assert_eq!(secret, applied.password_secret);
    until_event(
        &world,
        "PasswordChanged",
        &["Secret login at resourceVersion"],
    )
    .await;

    let before = mark(&world, "web").await;
    let server = world.only_server(&ready).id;
    console(&world, Console::PowerOff { server });
    let ready = done(&world, "web", &before, &[Verb::Start]).await;
    entry(&ready, Verb::Start, Cause::Drift);
    until_event(
        &world,
        "Started",
        &[
            "its power state was changed outside the operator",
            "generation 1",
        ],
    )
    .await;

    let before = mark(&world, "web").await;
    world.apply(&token("web", "one")).await;
    let ready = done(&world, "web", &before, &[Verb::Restart]).await;
    entry(&ready, Verb::Restart, Cause::Spec);
    until_event(&world, "Restarted", &["generation 2"]).await;

    let before = mark(&world, "web").await;
    world.apply(&other_image("web")).await;
    let ready = done(&world, "web", &before, &[Verb::Reinstall]).await;
    entry(&ready, Verb::Reinstall, Cause::Spec);
    until_event(
        &world,
        "Reinstalling",
        &["erasing the disk", "generation 3"],
    )
    .await;

    world.delete("web").await;
    world.gone("web").await;
    until_event(
        &world,
        "Releasing",
        &["this Instance is deleted", "Release"],
    )
    .await;
    until_event(&world, "Released", &["was deleted"]).await;
    let calls = lines(&world, "the service accepted the call");
    let calls: Vec<(&str, &str)> = calls
        .iter()
        .map(|line| {
            (
                line["verb"].as_str().unwrap(),
                line["cause"].as_str().unwrap(),
            )
        })
        .collect();
    let expected = [
        ("create", "Spec"),
        ("password change", "Secret"),
        ("start", "Drift"),
        ("restart", "Spec"),
        ("reinstall", "Spec"),
        ("release", "Deleted"),
    ];
    assert_eq!(calls, expected);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_the_event_of_a_power_cut_names_it() {
    for (policy, script, words) in [
        (
            json!({"force": "AfterGracePeriod", "gracePeriodSeconds": 2}),
            Some(TaskScript::Never),
            "gracePeriodSeconds",
        ),
        (json!({"force": "Always"}), None, "is Always"),
    ] {
        let world = Setup::default().begin("cut").await;
        world.apply(&instance("web")).await;
        world.ready("web").await;
        if let Some(script) = script {
            let rule = Rule::on(path_of(Verb::Stop), Act::Task(script));
            world.sim.fault(rule.times(1));
        }
        let before = mark(&world, "web").await;
        let stop = with("web", |spec| {
            spec["powerState"] = json!("Stopped");
            spec["stopPolicy"] = policy;
        });
        world.apply(&stop).await;
        let ready = done(&world, "web", &before, &[Verb::Stop]).await;
        assert!(entry(&ready, Verb::Stop, Cause::Spec).power_cut);
        until_event(
            &world,
            "ForcedPowerOff",
            &[words, "as the spec asks", "generation 2"],
        )
        .await;
        until_event(&world, "Stopped", &["its power was cut"]).await;
        quiet(&world, "web").await;
        assert_eq!(world.events("ForcedPowerOff").await.len(), 1);
        let calls = lines(&world, "the service accepted the call");
        let cuts = calls.iter().filter(|line| line["power_cut"] == true);
        assert_eq!(cuts.count(), 1, "{calls:#?}");
        let ended = lines(&world, "the operation ended");
        assert_eq!(ended.last().unwrap()["power_cut"], true, "{ended:#?}");

        let before = mark(&world, "web").await;
        world.apply(&instance("web")).await;
        let ready = done(&world, "web", &before, &[Verb::Start]).await;
        assert!(!entry(&ready, Verb::Start, Cause::Spec).power_cut);
        let before = mark(&world, "web").await;
        world.apply(&stopped("web")).await;
        let ready = done(&world, "web", &before, &[Verb::Stop]).await;
        assert!(!entry(&ready, Verb::Stop, Cause::Spec).power_cut);
        assert_eq!(world.events("ForcedPowerOff").await.len(), 1);
        world.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_an_adopted_or_imported_server_has_no_created_event() {
    let world = Setup::default().imports().begin("found").await;
    let lost = Act::Lose {
        when: When::AfterEffect,
    };
    world
        .sim
        .fault(Rule::on(path_of(Verb::Create), lost).times(1));
    world.apply(&instance("web")).await;
    let ready = world.ready("web").await;
    entry(&ready, Verb::Create, Cause::Adoption);
    world.until_events("Adopted", 1).await;
    world.add_unowned_servers(World::TOKEN, 1);
    let taken = with("old", |spec| spec["import"] = json!({"name": "stranger-0"}));
    world.apply(&taken).await;
    let ready = world.ready("old").await;
    entry(&ready, Verb::Create, Cause::Import);
    world.until_events("Imported", 1).await;
    // For both Instances and their Account.
    world.until_events("Available", 3).await;
    assert_eq!(world.events("Created").await.len(), 0);
    assert_eq!(lines(&world, "the service accepted the call").len(), 0);
    world.finish().await;
}
