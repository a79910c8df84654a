//! The operations on an existing server, each on its own: reinstall, another password, stop, start, restart. The ledger is the
//! truth: one call, one effect, and then nothing more.

mod power;
mod wiped;

use crate::support::{
    Mark, Setup, World, condition, console, done, effects, end_task, endless, eventually, failed,
    instance, instance_by_key, is_ready, mark, new_password, other_image, outline, password_of,
    posts, quiet, reason, stopped, token, with, written,
};
use cloud_server_operator::api::{Instance, Verb};
use cloud_simulator::catalogue;
use cloud_simulator::faults::{Act, Rule};
use cloud_simulator::model::{Console, TaskScript};
use cloud_simulator::readings::Readings;
use devcluster::audit::Entry;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Makes a changed manifest for a name.
type Change = fn(&str) -> Value;

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

async fn begin(setup: Setup, name: &str) -> (World, Instance) {
    let world = setup.begin(name).await;
    world.apply(&instance("web")).await;
    let ready = world.ready("web").await;
    (world, ready)
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
        let (world, _) = begin(Setup::default().tasks(tasks), "reinstall").await;
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
        world.told("Reinstalled", 1).await;
        quiet(&world, "web").await;
        world.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_change_from_password_to_key_reinstalls_once() {
    let (world, _) = begin(Setup::default(), "key").await;
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
        let (world, ready) = begin(Setup::default().tasks(tasks), "password").await;
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
        world.told("PasswordChanged", 1).await;
        quiet(&world, "web").await;
        world.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_touched_secret_changes_nothing() {
    let (world, ready) = begin(Setup::default(), "touched").await;
    let before = mark(&world, "web").await;
    let (ok, told) = world
        .kubectl(&["label", "secret", "login", "touched=yes"], "")
        .await;
    assert!(ok, "{told}");
    eventually("status tells of the Secret as it is now", async || {
        let now = world.get("web").await;
        if applied(&now).password_secret == applied(&ready).password_secret {
            Err(outline(&now))
        } else {
            Ok(())
        }
    })
    .await;
    quiet(&world, "web").await;
    assert_eq!(posts(&world, before.seq), [""; 0]);
    let all = written(&world, "web", &before).await;
    println!("WRITES touched Secret: {all:?}");
    assert!(all.len() <= 1, "{all:?}");
    assert!(is_ready(&world.get("web").await));
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_image_and_password_together_are_one_reinstall() {
    let (mut world, ready) = begin(Setup::default(), "both").await;
    let id = world.only_server(&ready).id;
    let before = mark(&world, "web").await;
    // The operator sees both changes at the same time.
    world.kill();
    new_password(&world).await;
    world.apply(&other_image("web")).await;
    world.start().await;
    done(&world, "web", &before, &[Verb::Reinstall]).await;
    cost(
        &world,
        &before,
        "reinstallSystem",
        REINSTALLED,
        MOST_OF_A_REINSTALL,
    )
    .await;
    assert_eq!(
        password_of(&world, &id).as_deref(),
        Some(World::NEW_PASSWORD)
    );
    quiet(&world, "web").await;
    assert_eq!(posts(&world, before.seq), ["reinstallSystem"]);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_an_image_given_at_the_console_is_told_and_not_erased() {
    let (mut world, ready) = begin(Setup::default(), "rebuilt").await;
    let server = world.only_server(&ready).id;
    let before = mark(&world, "web").await;
    let image = catalogue::example().other_image.to_owned();
    console(&world, Console::Rebuild { server, image });
    let drifted = world.until_reason("web", "ImageDiffers").await;
    assert_eq!(condition(&drifted, "Drifted").unwrap().status, "True");
    quiet(&world, "web").await;
    world.restart().await;
    quiet(&world, "web").await;
    assert_eq!(reason(&world.get("web").await), "ImageDiffers");
    // The drift is accepted: no call is made for it.
    world.apply(&other_image("web")).await;
    world.ready("web").await;
    quiet(&world, "web").await;
    assert_eq!(posts(&world, before.seq), [""; 0]);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_there_and_back_while_a_reinstall_runs_ends_where_it_began() {
    let (world, ready) = begin(Setup::default(), "there-and-back").await;
    let before = mark(&world, "web").await;
    endless(&world, Verb::Reinstall);
    world.apply(&other_image("web")).await;
    world
        .until("web", "shows the reinstall in flight", |i| {
            let operation = i.status.as_ref().unwrap().operation.as_ref();
            operation.is_some_and(|operation| operation.verb == Verb::Reinstall)
        })
        .await;
    world.apply(&instance("web")).await;
    end_task(&world, &ready).await;
    done(&world, "web", &before, &[Verb::Reinstall, Verb::Reinstall]).await;
    quiet(&world, "web").await;
    assert_eq!(world.only_server(&ready).image, catalogue::example().image);
    assert_eq!(
        posts(&world, before.seq),
        ["reinstallSystem", "reinstallSystem"]
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_reinstall_token_reinstalls_once_with_the_same_image() {
    let (world, ready) = begin(Setup::default(), "again").await;
    let before = mark(&world, "web").await;
    let asked = with("web", |spec| spec["reinstall"] = json!({"token": "one"}));
    world.apply(&asked).await;
    let now = done(&world, "web", &before, &[Verb::Reinstall]).await;
    cost(
        &world,
        &before,
        "reinstallSystem",
        REINSTALLED,
        MOST_OF_A_REINSTALL,
    )
    .await;
    assert_eq!(applied(&now).reinstall.as_deref(), Some("one"));
    assert_eq!(world.only_server(&ready).image, catalogue::example().image);
    // The token is removed and added back: its reinstall was already done once.
    let before = mark(&world, "web").await;
    for manifest in [instance("web"), asked] {
        world.apply(&manifest).await;
        world.ready("web").await;
        quiet(&world, "web").await;
    }
    assert_eq!(posts(&world, before.seq), [""; 0]);
    world.finish().await;
}

/// The service accepts an operation and its task fails: the failure is reported, and the operation is tried again until it has
/// been done once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_an_operation_whose_task_fails_is_told_and_tried_again() {
    let changes: [(Verb, &str, Change); 2] = [
        (Verb::Reinstall, "/instance/reinstallSystem", other_image),
        (Verb::Stop, "/instance/stop", stopped),
    ];
    for (verb, path, change) in changes {
        let (world, _) = begin(Setup::default(), "fails").await;
        let reason = "the hypervisor was not in the mood".to_owned();
        let act = Act::Task(TaskScript::Fail {
            reason: reason.clone(),
        });
        world.sim.fault(Rule::on(path, act).times(1));
        world.apply(&change("web")).await;
        failed(&world, "web", &reason).await;
        let ready = world.ready("web").await;
        let history = &ready.status.as_ref().unwrap().history;
        let ends: Vec<_> = history.iter().map(|e| (e.verb, e.succeeded)).collect();
        assert_eq!(ends, [(verb, true), (verb, false), (Verb::Create, true)]);
        assert_eq!(world.sim.ledger().count(path), 2, "{}", world.ledger_text());
        quiet(&world, "web").await;
        world.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_stopped_server_is_reinstalled_and_stays_stopped() {
    for reinstall_needs_stop in [false, true] {
        let readings = Readings {
            reinstall_needs_stop,
            ..Readings::default()
        };
        let world = Setup::default().readings(readings).begin("off").await;
        let start = Mark::default();
        world.apply(&stopped("web")).await;
        done(&world, "web", &start, &[Verb::Create, Verb::Stop]).await;
        let before = mark(&world, "web").await;
        let mut manifest = other_image("web");
        manifest["spec"]["powerState"] = json!("Stopped");
        world.apply(&manifest).await;
        let ready = done(&world, "web", &before, &[Verb::Reinstall]).await;
        assert_eq!(
            ready.status.as_ref().unwrap().detail["ecsStatus"],
            "STOPPED"
        );
        quiet(&world, "web").await;
        assert_eq!(
            posts(&world, before.seq),
            ["reinstallSystem"],
            "{}",
            world.ledger_text()
        );
        world.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_reinstall_taken_back_while_the_server_stops_for_it_erases_nothing() {
    let readings = Readings {
        reinstall_needs_stop: true,
        ..Readings::default()
    };
    let setup = Setup::default().readings(readings);
    let (world, ready) = begin(setup, "taken-back").await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_deletion_while_an_operation_runs_leaves_nothing() {
    let changes: [(Verb, Change); 3] = [
        (Verb::Reinstall, other_image),
        (Verb::Stop, stopped),
        (Verb::Restart, |name| token(name, "one")),
    ];
    for (verb, change) in changes {
        let (world, ready) = begin(Setup::default(), "leave").await;
        endless(&world, verb);
        world.apply(&change("web")).await;
        world
            .until("web", &format!("shows the {verb} in flight"), |i| {
                i.status.as_ref().unwrap().operation.is_some()
            })
            .await;
        world.delete("web").await;
        end_task(&world, &ready).await;
        world.gone("web").await;
        assert_eq!(world.sim.live_servers(), [], "{}", world.ledger_text());
        world.finish().await;
    }
}
