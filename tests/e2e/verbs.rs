//! What happens to a server that exists: reinstalled, given another password, stopped, started, restarted; each verb by
//! itself. The ledger is the truth: one call, one effect, and then nothing more.

use crate::support::{
    Mark, Setup, World, condition, console, done, effects, eventually, instance, instance_by_key,
    is_ready, mark, new_password, other_image, outline, password_of, posts, quiet, reason, stopped,
    token, with, written,
};
use cloud_server_operator::api::{Instance, Verb};
use cloud_simulator::catalogue;
use cloud_simulator::faults::{Act, Rule};
use cloud_simulator::model::{Console, TaskScript};
use cloud_simulator::readings::Readings;
use devcluster::audit::Entry;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The manifest of a name, changed.
type Change = fn(&str) -> Value;

/// A verb costs one call, two effects and few writes.
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
    assert!(writes.len() <= most, "{call} cost {writes:?}");
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

/// Short and long tasks, and what a reinstall and a restart may cost in writes with each (design section 6).
const DURATIONS: [(u64, usize); 2] = [(300, 3), (4_000, 4)];
/// The effects of a reinstall.
const REINSTALLED: [&str; 2] = ["ReinstallAccepted", "Reinstalled"];
/// What a password change, a start and a stop may cost, however long they take.
const MOST: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_another_image_reinstalls_once() {
    for (tasks, most) in DURATIONS {
        let (world, _) = begin(Setup::default().tasks(tasks), "reinstall").await;
        let before = mark(&world, "web").await;
        world.apply(&other_image("web")).await;
        let ready = done(&world, "web", &before, &[Verb::Reinstall]).await;
        cost(&world, &before, "reinstallSystem", REINSTALLED, most).await;
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
    // Force: the same manager gives the password up.
    world.apply(&instance_by_key("web")).await;
    let ready = done(&world, "web", &before, &[Verb::Reinstall]).await;
    cost(&world, &before, "reinstallSystem", REINSTALLED, 3).await;
    assert_eq!(
        applied(&ready).key.as_deref(),
        Some(catalogue::example().key)
    );
    assert_eq!(applied(&ready).password_secret, None);
    let before = mark(&world, "web").await;
    world.apply(&instance("web")).await;
    let ready = done(&world, "web", &before, &[Verb::Reinstall]).await;
    cost(&world, &before, "reinstallSystem", REINSTALLED, 3).await;
    assert_eq!(applied(&ready).key, None);
    let id = world.only_server(&ready).id;
    assert_eq!(password_of(&world, &id).as_deref(), Some(World::PASSWORD));
    quiet(&world, "web").await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_another_password_is_set_once() {
    for (tasks, _) in DURATIONS {
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
    // Together, as far as the operator can see.
    world.kill();
    new_password(&world).await;
    world.apply(&other_image("web")).await;
    world.start().await;
    done(&world, "web", &before, &[Verb::Reinstall]).await;
    cost(&world, &before, "reinstallSystem", REINSTALLED, 3).await;
    assert_eq!(
        password_of(&world, &id).as_deref(),
        Some(World::NEW_PASSWORD)
    );
    quiet(&world, "web").await;
    assert_eq!(posts(&world, before.seq), ["reinstallSystem"]);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_stop_and_start_are_called_once_each() {
    for (tasks, _) in DURATIONS {
        let (world, _) = begin(Setup::default().tasks(tasks), "power").await;
        let before = mark(&world, "web").await;
        world.apply(&stopped("web")).await;
        let ready = done(&world, "web", &before, &[Verb::Stop]).await;
        cost(&world, &before, "stop", ["StopAccepted", "Stopped"], MOST).await;
        assert_eq!(
            ready.status.as_ref().unwrap().detail["ecsStatus"],
            "STOPPED"
        );
        quiet(&world, "web").await;

        let before = mark(&world, "web").await;
        world.apply(&instance("web")).await;
        let ready = done(&world, "web", &before, &[Verb::Start]).await;
        cost(&world, &before, "start", ["StartAccepted", "Started"], MOST).await;
        assert_eq!(
            ready.status.as_ref().unwrap().detail["ecsStatus"],
            "STARTED"
        );
        quiet(&world, "web").await;
        world.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_server_stopped_at_the_console_is_started_again() {
    let (world, ready) = begin(Setup::default(), "console-off").await;
    let server = world.only_server(&ready).id;
    let before = mark(&world, "web").await;
    console(&world, Console::PowerOff { server });
    done(&world, "web", &before, &[Verb::Start]).await;
    assert_eq!(
        posts(&world, before.seq),
        ["start"],
        "{}",
        world.ledger_text()
    );
    world.told("Started", 1).await;
    quiet(&world, "web").await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_server_started_at_the_console_is_stopped_again() {
    let world = Setup::default().begin("console-on").await;
    let before = Mark::default();
    world.apply(&stopped("web")).await;
    let ready = done(&world, "web", &before, &[Verb::Create, Verb::Stop]).await;
    let server = world.only_server(&ready).id;
    let before = mark(&world, "web").await;
    console(&world, Console::PowerOn { server });
    done(&world, "web", &before, &[Verb::Stop]).await;
    assert_eq!(
        posts(&world, before.seq),
        ["stop"],
        "{}",
        world.ledger_text()
    );
    quiet(&world, "web").await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_an_unmanaged_power_state_is_left_alone() {
    let (world, ready) = begin(Setup::default(), "unmanaged").await;
    let server = world.only_server(&ready).id;
    world
        .apply(&with("web", |spec| spec["powerState"] = json!("Unmanaged")))
        .await;
    world.ready("web").await;
    let before = mark(&world, "web").await;
    console(&world, Console::PowerOff { server });
    world
        .until("web", "shows that it is off", |i| {
            i.status.as_ref().unwrap().detail["ecsStatus"] == "STOPPED" && is_ready(i)
        })
        .await;
    quiet(&world, "web").await;
    assert_eq!(posts(&world, before.seq), [""; 0]);
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
    // The drift is accepted: nothing is called for it.
    world.apply(&other_image("web")).await;
    world.ready("web").await;
    quiet(&world, "web").await;
    assert_eq!(posts(&world, before.seq), [""; 0]);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_there_and_back_while_a_reinstall_runs_ends_where_it_began() {
    let (world, ready) = begin(Setup::default().tasks(4_000), "there-and-back").await;
    let before = mark(&world, "web").await;
    world.apply(&other_image("web")).await;
    world
        .until("web", "shows the reinstall in flight", |i| {
            let operation = i.status.as_ref().unwrap().operation.as_ref();
            operation.is_some_and(|operation| operation.verb == Verb::Reinstall)
        })
        .await;
    world.apply(&instance("web")).await;
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
async fn verbs_a_restart_token_restarts_once() {
    for (tasks, most) in DURATIONS {
        let (world, _) = begin(Setup::default().tasks(tasks), "restart").await;
        for word in ["one", "two"] {
            let before = mark(&world, "web").await;
            world.apply(&token("web", word)).await;
            let ready = done(&world, "web", &before, &[Verb::Restart]).await;
            cost(
                &world,
                &before,
                "restart",
                ["RestartAccepted", "Restarted"],
                most,
            )
            .await;
            assert_eq!(applied(&ready).restart.as_deref(), Some(word));
            quiet(&world, "web").await;
        }
        // No token asks for nothing.
        let before = mark(&world, "web").await;
        world.apply(&instance("web")).await;
        world.ready("web").await;
        quiet(&world, "web").await;
        assert_eq!(posts(&world, before.seq), [""; 0]);
        world.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_reinstall_token_reinstalls_once_with_the_same_image() {
    let (world, ready) = begin(Setup::default(), "again").await;
    let before = mark(&world, "web").await;
    let asked = with("web", |spec| spec["reinstall"] = json!({"token": "one"}));
    world.apply(&asked).await;
    let now = done(&world, "web", &before, &[Verb::Reinstall]).await;
    cost(&world, &before, "reinstallSystem", REINSTALLED, 3).await;
    assert_eq!(applied(&now).reinstall.as_deref(), Some("one"));
    assert_eq!(world.only_server(&ready).image, catalogue::example().image);
    // Taken away, and there again: it was asked for once.
    let before = mark(&world, "web").await;
    for manifest in [instance("web"), asked] {
        world.apply(&manifest).await;
        world.ready("web").await;
        quiet(&world, "web").await;
    }
    assert_eq!(posts(&world, before.seq), [""; 0]);
    world.finish().await;
}

/// The power goes back and forth, by us and by others: what a listing showed before an operation of ours is news after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_server_stopped_at_the_console_twice_is_started_twice() {
    let (world, ready) = begin(Setup::default(), "console-twice").await;
    let server = world.only_server(&ready).id;
    for _ in 0..2 {
        let before = mark(&world, "web").await;
        let server = server.clone();
        console(&world, Console::PowerOff { server });
        done(&world, "web", &before, &[Verb::Start]).await;
        assert_eq!(
            posts(&world, before.seq),
            ["start"],
            "{}",
            world.ledger_text()
        );
    }
    world.finish().await;
}

/// The token is any text, also one that encoders write in different ways; it stands in the record, which patches test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_restart_token_of_any_text_restarts_once_and_holds_no_deletion() {
    let (world, _) = begin(Setup::default(), "token").await;
    let word = "<a> & \"b\" \\ / ü \u{2028} \u{1f600} 'c'";
    let before = mark(&world, "web").await;
    world.apply(&token("web", word)).await;
    let ready = done(&world, "web", &before, &[Verb::Restart]).await;
    // What stands in the spec: the apiserver reads an applied patch as YAML, which folds lines.
    let spec = ready.spec.restart.as_ref().map(|restart| &restart.token);
    assert_eq!(applied(&ready).restart.as_ref(), spec);
    let restarted = ["RestartAccepted", "Restarted"];
    cost(&world, &before, "restart", restarted, 3).await;
    world.delete("web").await;
    world.gone("web").await;
    let refused = world.writes().await;
    assert!(refused.iter().all(Entry::is_success), "{refused:#?}");
    world.finish().await;
}

/// The service takes an operation and its task fails: told, and tried again, until it is done once.
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
        let told = world.until_reason("web", "OperationFailed").await;
        let ready = condition(&told, "Ready").unwrap();
        assert!(ready.message.contains(&reason), "{}", ready.message);
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
async fn verbs_a_restart_token_of_a_stopped_server_restarts_nothing() {
    let world = Setup::default().begin("token-off").await;
    let start = Mark::default();
    world.apply(&stopped("web")).await;
    done(&world, "web", &start, &[Verb::Create, Verb::Stop]).await;
    let before = mark(&world, "web").await;
    let mut manifest = token("web", "one");
    manifest["spec"]["powerState"] = json!("Stopped");
    world.apply(&manifest).await;
    world.ready("web").await;
    quiet(&world, "web").await;
    assert_eq!(posts(&world, before.seq), [""; 0]);
    // It has restarted when it runs again.
    world.apply(&token("web", "one")).await;
    done(&world, "web", &before, &[Verb::Start]).await;
    quiet(&world, "web").await;
    assert_eq!(
        posts(&world, before.seq),
        ["start"],
        "{}",
        world.ledger_text()
    );
    world.finish().await;
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
    let setup = Setup::default().tasks(5_000).readings(readings);
    let (world, ready) = begin(setup, "taken-back").await;
    let before = mark(&world, "web").await;
    world.apply(&other_image("web")).await;
    eventually("the server is being stopped", async || {
        match effects(&world, before.seq).contains(&"StopAccepted".to_owned()) {
            true => Ok(()),
            false => Err(world.ledger_text()),
        }
    })
    .await;
    world.apply(&instance("web")).await;
    world
        .until("web", "runs again", |i| {
            let status = i.status.as_ref().unwrap();
            let ended = status.history.iter().any(|e| e.verb == Verb::Reinstall);
            is_ready(i) && ended && status.detail["ecsStatus"] == "STARTED"
        })
        .await;
    quiet(&world, "web").await;
    let all = ["StopAccepted", "Stopped", "StartAccepted", "Started"];
    assert_eq!(effects(&world, before.seq), all, "{}", world.ledger_text());
    assert_eq!(world.only_server(&ready).image, catalogue::example().image);
    world.finish().await;
}

/// Status is wiped, with the operator running or not; nothing is called because of that.
async fn wiped(mut world: World, running: bool) {
    let before = mark(&world, "web").await;
    if !running {
        world.kill();
    }
    world.wipe_status("web").await;
    if !running {
        world.start().await;
    }
    world.ready("web").await;
    quiet(&world, "web").await;
    assert_eq!(
        posts(&world, before.seq),
        [""; 0],
        "{}",
        world.ledger_text()
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_wiped_status_restarts_nothing() {
    for running in [true, false] {
        let (world, _) = begin(Setup::default(), "wiped-restart").await;
        let before = mark(&world, "web").await;
        world.apply(&token("web", "one")).await;
        done(&world, "web", &before, &[Verb::Restart]).await;
        wiped(world, running).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_wiped_status_reinstalls_nothing() {
    for running in [true, false] {
        let (world, _) = begin(Setup::default(), "wiped-reinstall").await;
        let before = mark(&world, "web").await;
        world.apply(&other_image("web")).await;
        done(&world, "web", &before, &[Verb::Reinstall]).await;
        wiped(world, running).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_wiped_status_sets_no_password() {
    for running in [true, false] {
        let (world, _) = begin(Setup::default(), "wiped-password").await;
        let before = mark(&world, "web").await;
        new_password(&world).await;
        done(&world, "web", &before, &[Verb::ModifyPassword]).await;
        wiped(world, running).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_deletion_while_an_operation_runs_leaves_nothing() {
    let changes: [(&str, Change); 3] = [
        ("reinstall", other_image),
        ("stop", stopped),
        ("restart", |name| token(name, "one")),
    ];
    for (what, change) in changes {
        let (world, _) = begin(Setup::default().tasks(4_000), "leave").await;
        world.apply(&change("web")).await;
        world
            .until("web", &format!("shows the {what} in flight"), |i| {
                i.status.as_ref().unwrap().operation.is_some()
            })
            .await;
        world.delete("web").await;
        world.gone("web").await;
        assert_eq!(world.sim.live_servers(), [], "{}", world.ledger_text());
        world.finish().await;
    }
}
