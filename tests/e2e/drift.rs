//! External changes of a server at the service's console, and of the record in the cluster: reported within one listing of an
//! idle fleet (60 s), and never a reason to erase, buy or release anything.

use crate::support::{
    Mark, Setup, World, busy, condition, console, counts, create_calls, done, eventually, instance,
    is_ready, mark, new_password, other_image, outline, password_of, posts, quiet, quiet_all,
    reason, stopped, token,
};
use cloud_server_operator::api::names::{BINDING, FINALIZER};
use cloud_server_operator::api::{Instance, Verb};
use cloud_simulator::catalogue;
use cloud_simulator::faults::{Act, Rule, When};
use cloud_simulator::model::Console;
use kube::ResourceExt;
use serde_json::{Value, json};

async fn ready(setup: Setup, name: &str) -> (World, Instance) {
    let world = setup.begin(name).await;
    world.apply(&instance("web")).await;
    let ready = world.ready("web").await;
    (world, ready)
}

/// A migration takes minutes, and ends without help.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_that_is_not_known_is_waited_for_without_a_call_and_without_drift() {
    let (world, web) = ready(Setup::default(), "migrating").await;
    let server = world.only_server(&web).id;
    let calls = posts(&world, 0);
    let migrate = Console::Migrate {
        server: server.clone(),
    };
    console(&world, migrate);
    let waits = world
        .until("web", "shows the state", |web| {
            reason(web) == "ForeignOperationRunning"
        })
        .await;
    for type_ in ["Stalled", "Drifted"] {
        assert!(condition(&waits, type_).is_none(), "{}", outline(&waits));
    }
    assert!(
        condition(&waits, "Reconciling").is_some(),
        "{}",
        outline(&waits)
    );
    world.apply(&stopped("web")).await;
    world
        .until("web", "holds the stop back", |web| {
            let status = web.status.as_ref().unwrap();
            Some(status.observed_generation) == web.metadata.generation
                && reason(web) == "ForeignOperationRunning"
        })
        .await;
    world.apply(&instance("web")).await;
    assert_eq!(posts(&world, 0), calls, "no call meanwhile");
    console(&world, Console::PowerOn { server });
    world.ready("web").await;
    assert_eq!(posts(&world, 0), calls, "nor afterwards");
    world.finish().await;
}

/// The object is lost and restored from a backup while no operator runs: same name and record, another UID, no status.
async fn restore(world: &mut World, backup: &Instance) {
    world.kill();
    world.delete("web").await;
    let patch = r#"[{"op":"remove","path":"/metadata/finalizers"}]"#;
    world
        .run(
            &["patch", "instance", "web", "--type=json", "-p", patch],
            "",
        )
        .await;
    world.gone("web").await;
    let mut manifest = serde_json::to_value(backup).unwrap();
    let record = &backup.annotations()[BINDING];
    manifest["metadata"] = json!({"name": "web", "annotations": {BINDING: record}});
    world
        .run(&["apply", "-f", "-"], &manifest.to_string())
        .await;
    world.start().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn image_power_and_name_changed_at_the_console_are_each_told() {
    let world = Setup::default().begin("drift").await;
    let names = ["image", "power", "name"];
    for name in names {
        world.apply(&instance(name)).await;
    }
    let mut servers = Vec::new();
    for name in names {
        servers.push(world.only_server(&world.ready(name).await));
    }
    let start = posts(&world, 0).len();
    let id = |at: usize| servers[at].id.clone();
    let image = catalogue::example().other_image.to_owned();
    let (server, name) = (id(2), "another-name".to_owned());
    console(
        &world,
        Console::Rebuild {
            server: id(0),
            image,
        },
    );
    console(&world, Console::PowerOff { server: id(1) });
    console(&world, Console::Rename { server, name });
    for (object, told) in [("image", "ImageDiffers"), ("name", "NameDiffers")] {
        let drifted = world.until_reason(object, told).await;
        for (kind, status) in [("Drifted", "True"), ("Stalled", "True"), ("Ready", "False")] {
            let found = condition(&drifted, kind).map(|c| c.status.as_str());
            assert_eq!(found, Some(status), "{kind}: {}", outline(&drifted));
        }
    }
    let name = condition(&world.get("name").await, "Ready")
        .unwrap()
        .message
        .clone();
    assert!(
        name.contains(&servers[2].name),
        "the name to give back: {name}"
    );
    // The power state is not only reported, but restored.
    eventually(
        "it is started again, and an Event tells of it",
        async || {
            let told = world.events("Started").await;
            match told
                .iter()
                .any(|e| e.regarding.as_ref().unwrap().name.as_deref() == Some("power"))
            {
                true => Ok(()),
                false => Err(outline(&world.get("power").await)),
            }
        },
    )
    .await;
    world.ready("power").await;
    assert_eq!(
        posts(&world, 0)[start..],
        ["start"],
        "{}",
        world.ledger_text()
    );
    // After the changes were undone at the console, all is well without any call.
    let more = busy(&world).await;
    let (image, name) = (servers[0].image.clone(), servers[2].name.clone());
    console(
        &world,
        Console::Rebuild {
            server: id(0),
            image,
        },
    );
    console(
        &world,
        Console::Rename {
            server: id(2),
            name,
        },
    );
    for name in names {
        world.ready(name).await;
    }
    console(&world, Console::EndTask { server: more });
    world.ready("busy").await;
    quiet_all(&world).await;
    assert_eq!(
        posts(&world, 0)[start..],
        ["start", "create"],
        "{}",
        world.ledger_text()
    );
    world.finish().await;
}

/// Without its marker, nothing proves that the server is ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_done_to_a_renamed_server_until_it_has_its_name_again() {
    let (mut world, web) = ready(Setup::default(), "renamed").await;
    let server = world.only_server(&web);
    busy(&world).await;
    let rename = |name: &str| Console::Rename {
        server: server.id.clone(),
        name: name.to_owned(),
    };
    console(&world, rename("another-name"));
    world.until_reason("web", "NameDiffers").await;
    let before = mark(&world, "web").await;
    world.apply(&other_image("web")).await;
    world
        .until("web", "has looked at the new spec", |i| {
            i.status.as_ref().map(|s| Some(s.observed_generation)) == Some(i.metadata.generation)
        })
        .await;
    quiet(&world, "web").await;
    world.restart().await;
    quiet(&world, "web").await;
    assert_eq!(
        posts(&world, before.seq),
        [""; 0],
        "{}",
        world.ledger_text()
    );
    let told = world.get("web").await;
    assert_eq!(reason(&told), "NameDiffers", "{}", outline(&told));
    console(&world, rename(&server.name));
    done(&world, "web", &before, &[Verb::Reinstall]).await;
    assert_eq!(counts(&world, Verb::Reinstall, None), (1, 1));
    assert_eq!(create_calls(&world.sim), 2);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_vanished_is_not_bought_again_although_its_status_is_lost_too() {
    let (mut world, web) = ready(Setup::default(), "vanished").await;
    let server = world.only_server(&web).id;
    busy(&world).await;
    console(&world, Console::Release { server });
    let missing = world.until_reason("web", "ServerMissing").await;
    assert_eq!(condition(&missing, "Stalled").unwrap().status, "True");
    let told = missing.status.unwrap();
    assert!(told.addresses.is_none() && !told.detail.contains_key("ecsStatus"));
    world.wipe_status("web").await;
    world.until_reason("web", "ServerMissing").await;
    world.kill();
    world.wipe_status("web").await;
    world.start().await;
    world.until_reason("web", "ServerMissing").await;
    quiet(&world, "web").await;
    let calls = posts(&world, 0);
    assert_eq!(calls, ["create", "create"], "{}", world.ledger_text());
    world.delete("web").await;
    world.gone("web").await;
    world.finish().await;
}

/// A service whose codes for "no such instance" are unusual: the Account names them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_of_the_service_for_what_is_gone_are_read_as_the_account_says() {
    let (world, web) = ready(Setup::default(), "own-words").await;
    let server = world.only_server(&web).id;
    let words = Act::Error {
        status: 400,
        code: "InstanceUuid.Invalid".to_owned(),
        message: "the instance uuid is invalid".to_owned(),
        retry_after: None,
        when: When::BeforeEffect,
    };
    busy(&world).await;
    let looks = world.sim.fault(Rule::on("/instance/detail", words));
    console(&world, Console::Release { server });
    let looked = async |more: u64| {
        eventually("it is looked for", async || {
            match world.sim.faults().hits(looks) {
                hits if hits < more => Err(format!("{hits} looks")),
                _ => Ok(()),
            }
        })
        .await;
    };
    looked(1).await;
    world.delete("web").await;
    // The detail shows whether it may be released.
    looked(world.sim.faults().hits(looks) + 2).await;
    let held = world.get("web").await;
    assert!(!held.finalizers().is_empty(), "{}", outline(&held));
    world
        .change_account("default", json!({"missingCodes": ["uuid.invalid"]}))
        .await;
    world.gone("web").await;
    world.sim.faults().clear();
    world.finish().await;
}

/// The record is as old as the backup: later operations are neither undone nor repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_backup_erases_and_restarts_nothing() {
    let (mut world, web) = ready(Setup::default(), "old-backup").await;
    let server = world.only_server(&web).id;
    let before = mark(&world, "web").await;
    world.apply(&token("web", "one")).await;
    let backup = done(&world, "web", &before, &[Verb::Restart]).await;
    let before = mark(&world, "web").await;
    let mut newer = other_image("web");
    newer["spec"]["restart"] = json!({"token": "one"});
    world.apply(&newer).await;
    done(&world, "web", &before, &[Verb::Reinstall]).await;
    let before = posts(&world, 0).len();
    restore(&mut world, &backup).await;
    let drifted = world.until_reason("web", "ImageDiffers").await;
    assert_ne!(drifted.uid(), web.uid());
    assert_eq!(drifted.status.as_ref().unwrap().id.as_ref(), Some(&server));
    quiet(&world, "web").await;
    assert_eq!(posts(&world, 0).len(), before, "{}", world.ledger_text());
    // The server's current state is accepted.
    world.apply(&newer).await;
    world.ready("web").await;
    quiet(&world, "web").await;
    assert_eq!(posts(&world, 0).len(), before, "{}", world.ledger_text());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_record_of_another_instance_is_not_believed() {
    let (world, web) = ready(Setup::default(), "two-objects").await;
    world.apply(&instance("other")).await;
    let other = world.ready("other").await;
    let (first, second) = (world.only_server(&web).id, world.only_server(&other).id);
    // The second Instance, which has its own server, gets the record of the first.
    let edit = format!("{BINDING}={}", web.annotations()[BINDING]);
    world
        .run(&["annotate", "--overwrite", "instance", "other", &edit], "")
        .await;
    world
        .until(
            "other",
            "has a record of its own again, and is Ready",
            |i| {
                let record = i.annotations().get(BINDING);
                let record: Option<Value> = record.map(|text| serde_json::from_str(text).unwrap());
                is_ready(i) && record.is_some_and(|record| record["id"] == json!(second))
            },
        )
        .await;
    quiet_all(&world).await;
    assert_eq!(
        posts(&world, 0),
        ["create", "create"],
        "{}",
        world.ledger_text()
    );
    world.delete("other").await;
    world.gone("other").await;
    let live: Vec<_> = world.sim.live_servers().into_iter().map(|s| s.id).collect();
    assert_eq!(live, [first], "{}", world.ledger_text());
    assert!(is_ready(&world.get("web").await));
    world.finish().await;
}

/// A user's change of the object while an operation runs.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// The status is wiped, including the receipt of a password change, a start or a stop.
    Status,
    /// `kubectl replace` with the bare manifest, which removes the receipt of a reinstall or a restart.
    Record,
}

async fn lost_in_flight(verb: Verb, loss: Loss) {
    let (world, web) = ready(Setup::default().tasks(8_000), "in-flight").await;
    let manifest = match verb {
        Verb::Reinstall => other_image("web"),
        Verb::Stop => stopped("web"),
        Verb::Restart => token("web", "one"),
        _ => instance("web"),
    };
    let before: Mark = mark(&world, "web").await;
    if verb == Verb::ModifyPassword {
        new_password(&world).await;
    } else {
        world.apply(&manifest).await;
    }
    eventually("the service is at it", async || {
        match counts(&world, verb, None).0 {
            0 => Err(world.ledger_text()),
            _ => Ok(()),
        }
    })
    .await;
    match loss {
        Loss::Status => world.wipe_status("web").await,
        // Repeated if the operator writes in between, as a user would.
        Loss::Record => {
            eventually("replaced", async || {
                let replaced = world
                    .kubectl(&["replace", "-f", "-"], &manifest.to_string())
                    .await;
                match replaced {
                    (true, _) => Ok(()),
                    (false, why) => Err(why),
                }
            })
            .await;
        }
    }
    eventually(
        "the operation is over, and the Instance Ready and held",
        async || {
            let now = world.get("web").await;
            let held = now.finalizers().iter().any(|f| f == FINALIZER);
            let status = now.status.as_ref().unwrap();
            let rests = status.operation.is_none() && held && is_ready(&now);
            match rests && counts(&world, verb, None).1 > 0 {
                true => Ok(()),
                false => Err(format!("{}\n{}", outline(&now), world.ledger_text())),
            }
        },
    )
    .await;
    quiet(&world, "web").await;
    let now = world.get("web").await;
    let server = world.only_server(&now);
    assert_eq!(Some(&server.image), now.spec.image.id.as_ref());
    let password = match verb {
        Verb::ModifyPassword => World::NEW_PASSWORD,
        _ => World::PASSWORD,
    };
    assert_eq!(password_of(&world, &server.id).as_deref(), Some(password));
    let power = if verb == Verb::Stop {
        "STOPPED"
    } else {
        "STARTED"
    };
    assert_eq!(server.status, power);
    let (accepted, completed) = counts(&world, verb, None);
    println!("LOST {verb:?} {loss:?}: accepted {accepted}, completed {completed}");
    // The server does not show the effect of a password change or a restart, so these may be repeated.
    let most = match verb {
        Verb::ModifyPassword | Verb::Restart => 2,
        _ => 1,
    };
    assert!(accepted <= most, "{}", world.ledger_text());
    let calls = posts(&world, before.seq);
    assert_eq!(calls.len(), accepted, "{}", world.ledger_text());
    assert_eq!(world.only_server(&web).id, server.id);
    world.finish().await;
}

macro_rules! lost_in_flight {
    ($($test:ident: $verb:ident, $loss:ident;)+) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            lost_in_flight(Verb::$verb, Loss::$loss).await;
        }
    )+};
}

lost_in_flight! {
    a_status_wiped_while_a_reinstall_runs_erases_once: Reinstall, Status;
    a_record_replaced_while_a_reinstall_runs_erases_once: Reinstall, Record;
    a_status_wiped_while_a_password_changes_ends_with_the_new_one: ModifyPassword, Status;
    a_status_wiped_while_a_server_stops_stops_once: Stop, Status;
    a_record_replaced_while_a_password_changes_ends_with_the_new_one: ModifyPassword, Record;
    a_record_replaced_while_a_server_stops_stops_once: Stop, Record;
    a_record_replaced_while_a_server_restarts_leaves_it_running: Restart, Record;
}
