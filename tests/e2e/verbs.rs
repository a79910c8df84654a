//! The operations on an existing server, each on its own: reinstall, another password, stop, start, restart. The ledger is the
//! truth: one call, one effect, and then nothing more.

mod power;

use crate::support::{
    Mark, Setup, World, console, done, effects, end_task, endless, eventually, instance,
    instance_by_key, is_ready, mark, new_password, other_image, password_of, posts, quiet, stopped,
    token, with, written,
};
use cloud_server_operator::api::{Instance, Verb};
use cloud_simulator::catalogue;
use cloud_simulator::model::Console;
use cloud_simulator::readings::Readings;
use devcluster::audit::Entry;
use serde_json::json;
use std::collections::BTreeMap;

/// Checks that a verb costs one call, two effects and few writes.
async fn cost(world: &World, mark: &Mark, call: &str, effect: [&str; 2], most: usize) {
    assert_eq!(posts(world, mark.seq), [call], "{}", world.ledger_text());
    assert_eq!(effects(world, mark.seq), effect, "{}", world.ledger_text());
    let writes = written(world, "web", mark).await;
    let mut calls = BTreeMap::new();
    let ledger = world.sim.ledger();
    let made = ledger.since(mark.seq).into_iter();
    for entry in made.filter(|entry| !entry.path.is_empty()) {
        *calls.entry(entry.path.clone()).or_insert(0) += 1;
    }
    println!(
        "COST {call}: {} writes {writes:?}, calls {calls:?}",
        writes.len()
    );
    // A write that was refused because of a changed object has written nothing.
    let refused = writes.iter().filter(|write| !write.ends_with(" 200"));
    let refused = refused.count();
    assert!(
        refused <= 1 && writes.len() - refused <= most,
        "{call} cost {writes:?}"
    );
}

fn applied(instance: &Instance) -> cloud_server_operator::api::Applied {
    instance.status.as_ref().unwrap().applied.clone().unwrap()
}

/// Short and long tasks.
const DURATIONS: [u64; 2] = [300, 4_000];
/// The most writes of a reinstall: one of them shows a long operation.
const MOST_OF_A_REINSTALL: usize = 4;
/// The effects of a reinstall.
const REINSTALLED: [&str; 2] = ["ReinstallAccepted", "Reinstalled"];
/// The most writes of a password change, a start, a stop or a restart, regardless of their duration.
const MOST: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_another_image_reinstalls_once() {
    for tasks in DURATIONS {
        let (world, _) = Setup::default()
            .tasks(tasks)
            .begin_with_server("reinstall")
            .await;
        let before = mark(&world, "web").await;
        world.apply(&other_image("web")).await;
        let ready = done(&world, "web", &before, &[Verb::Reinstall]).await;
        cost(
            &world,
            &before,
            "reinstallSystem",
            REINSTALLED,
            MOST_OF_A_REINSTALL,
        )
        .await;
        let example = catalogue::example();
        assert_eq!(applied(&ready).image, example.other_image);
        let server = world.only_server(&ready);
        assert_eq!(server.image, example.other_image);
        assert_eq!(
            password_of(&world, &server.id).as_deref(),
            Some(World::PASSWORD)
        );
        assert_eq!(
            ready.status.as_ref().unwrap().detail["imageResourceUUID"],
            example.other_image
        );
        world.until_events("Reinstalled", 1).await;
        quiet(&world, "web").await;
        world.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_change_from_password_to_key_reinstalls_once() {
    let (world, _) = Setup::default().begin_with_server("key").await;
    let before = mark(&world, "web").await;
    // Force: the same manager removes the password.
    world.apply(&instance_by_key("web")).await;
    let ready = done(&world, "web", &before, &[Verb::Reinstall]).await;
    cost(
        &world,
        &before,
        "reinstallSystem",
        REINSTALLED,
        MOST_OF_A_REINSTALL,
    )
    .await;
    assert_eq!(
        applied(&ready).key.as_deref(),
        Some(catalogue::example().key)
    );
    assert_eq!(applied(&ready).password_secret, None);
    let before = mark(&world, "web").await;
    world.apply(&instance("web")).await;
    let ready = done(&world, "web", &before, &[Verb::Reinstall]).await;
    cost(
        &world,
        &before,
        "reinstallSystem",
        REINSTALLED,
        MOST_OF_A_REINSTALL,
    )
    .await;
    assert_eq!(applied(&ready).key, None);
    let id = world.only_server(&ready).id;
    assert_eq!(password_of(&world, &id).as_deref(), Some(World::PASSWORD));
    quiet(&world, "web").await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_another_password_is_set_once() {
    for tasks in DURATIONS {
        let (world, ready) = Setup::default()
            .tasks(tasks)
            .begin_with_server("password")
            .await;
        let id = world.only_server(&ready).id;
        let before = mark(&world, "web").await;
        new_password(&world).await;
        let changed = done(&world, "web", &before, &[Verb::ModifyPassword]).await;
        cost(
            &world,
            &before,
            "modifyInstancePassword",
            ["PasswordAccepted", "PasswordChanged"],
            MOST,
        )
        .await;
        assert_eq!(
            password_of(&world, &id).as_deref(),
            Some(World::NEW_PASSWORD)
        );
        assert_ne!(
            applied(&changed).password_secret,
            applied(&ready).password_secret
        );
        world.until_events("PasswordChanged", 1).await;
        quiet(&world, "web").await;
        world.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_reinstall_revoked_while_the_server_stops_for_it_erases_nothing() {
    let readings = Readings {
        reinstall_needs_stop: true,
        ..Readings::default()
    };
    let setup = Setup::default().readings(readings);
    let (world, ready) = setup.begin_with_server("taken-back").await;
    let before = mark(&world, "web").await;
    endless(&world, Verb::Stop);
    world.apply(&other_image("web")).await;
    eventually("the server is being stopped", async || {
        match effects(&world, before.seq).contains(&"StopAccepted".to_owned()) {
            true => Ok(()),
            false => Err(world.ledger_text()),
        }
    })
    .await;
    world.apply(&instance("web")).await;
    end_task(&world, &ready).await;
    world
        .until("web", "runs again", |i| {
            let status = i.status.as_ref().unwrap();
            let ended = status.history.iter().any(|e| e.verb == Verb::Reinstall);
            // Status shows the withdrawn operation until its next update.
            let is_over = ended && status.operation.is_none();
            is_ready(i) && is_over && status.detail["ecsStatus"] == "STARTED"
        })
        .await;
    quiet(&world, "web").await;
    let all = ["StopAccepted", "Stopped", "StartAccepted", "Started"];
    assert_eq!(effects(&world, before.seq), all, "{}", world.ledger_text());
    assert_eq!(world.only_server(&ready).image, catalogue::example().image);
    world.finish().await;
}
