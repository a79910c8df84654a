//! External changes of a server at the service's console, and of the record in the cluster: reported within one listing of an
//! idle fleet (60 s), and never a reason to erase, buy or release anything.

use crate::support::{
    Setup, busy, condition, console, counts, create_calls, done, eventually, instance, is_ready,
    mark, other_image, outline, posts, quiet, quiet_all, reason,
};
use cloud_server_operator::api::Verb;
use cloud_server_operator::api::names::BINDING;
use cloud_simulator::catalogue;
use cloud_simulator::faults::{Act, Rule, When};
use cloud_simulator::model::Console;
use kube::ResourceExt;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn image_power_and_name_changed_at_the_console_are_each_reported() {
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
    for (object, expected) in [("image", "ImageDiffers"), ("name", "NameDiffers")] {
        let drifted = world.until_reason(object, expected).await;
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
    eventually("it is started again, and an Event reports it", async || {
        let events = world.events("Started").await;
        match events
            .iter()
            .any(|e| e.regarding.as_ref().unwrap().name.as_deref() == Some("power"))
        {
            true => Ok(()),
            false => Err(outline(&world.get("power").await)),
        }
    })
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
    let (mut world, web) = Setup::default().begin_with_server("renamed").await;
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
        .until("web", "has read the new spec", |i| {
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
    let web = world.get("web").await;
    assert_eq!(reason(&web), "NameDiffers", "{}", outline(&web));
    console(&world, rename(&server.name));
    done(&world, "web", &before, &[Verb::Reinstall]).await;
    assert_eq!(counts(&world, Verb::Reinstall, None), (1, 1));
    assert_eq!(create_calls(&world.sim), 2);
    world.finish().await;
}

/// A service whose codes for "no such instance" are unusual: the Account names them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn error_codes_that_the_account_names_mean_that_a_server_is_gone() {
    let (world, web) = Setup::default().begin_with_server("own-words").await;
    let server = world.only_server(&web).id;
    let words = Act::Error {
        status: 400,
        code: "InstanceUuid.Invalid".to_owned(),
        message: "the instance uuid is invalid".to_owned(),
        retry_after: None,
        when: When::BeforeEffect,
    };
    busy(&world).await;
    let reads = world.sim.fault(Rule::on("/instance/detail", words));
    console(&world, Console::Release { server });
    let until_read = async |more: u64| {
        eventually("the server is searched", async || {
            match world.sim.faults().hits(reads) {
                hits if hits < more => Err(format!("{hits} reads")),
                _ => Ok(()),
            }
        })
        .await;
    };
    until_read(1).await;
    world.delete("web").await;
    // The detail shows whether it may be released.
    until_read(world.sim.faults().hits(reads) + 2).await;
    let held = world.get("web").await;
    assert!(!held.finalizers().is_empty(), "{}", outline(&held));
    world
        .change_account("default", json!({"missingCodes": ["uuid.invalid"]}))
        .await;
    world.gone("web").await;
    world.sim.faults().clear();
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_record_of_another_instance_is_refused() {
    let (world, web) = Setup::default().begin_with_server("two-objects").await;
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
