//! Another version takes over while an operation of every verb is in flight, and hands over its own open operations in return:
//! PREVIOUS names the executable of the version before (`make upgrade`). With RELEASED, the objects that this version writes
//! are kept in that folder, for the next version.

use crate::support::{
    Setup, World, assert_idle, counts, end_task, endless, eventually, instance, is_ready,
    other_image, quiet_all, stopped, token, written_once,
};
use cloud_server_operator::api::names::BINDING;
use cloud_server_operator::api::{Instance, Verb};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};
use std::path::Path;

const VERBS: [Verb; 7] = [
    Verb::Create,
    Verb::Reinstall,
    Verb::ModifyPassword,
    Verb::Stop,
    Verb::Start,
    Verb::Restart,
    Verb::Release,
];

/// An Instance whose operation the service has accepted, and whose task runs.
struct Open {
    verb: Verb,
    instance: Instance,
    server: String,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the executable of another version: make upgrade"]
async fn each_version_continues_the_open_operations_of_the_other() {
    let previous = std::env::var("PREVIOUS").expect("PREVIOUS names no executable: make upgrade");
    let mut world = Setup::default()
        .executable(&previous)
        .begin("upgrade")
        .await;
    let by_previous = open(&world, "before").await;
    world.executable(None);
    world.restart().await;
    close(&world, &by_previous).await;

    let by_ours = open(&world, "after").await;
    if let Ok(folder) = std::env::var("RELEASED") {
        keep(&world, Path::new(&folder)).await;
    }
    world.executable(Some(&previous));
    world.restart().await;
    close(&world, &by_ours).await;
    quiet_all(&world).await;

    world.executable(None);
    let since = Timestamp::now();
    world.restart().await;
    written_once(&world, since).await;
    quiet_all(&world).await;
    world.finish().await;
}

/// Makes the service accept one operation of each verb, with tasks that do not end.
async fn open(world: &World, round: &str) -> Vec<Open> {
    let name = |verb: Verb| format!("{round}-{verb:?}").to_lowercase();
    world
        .secret(&login(round), "password", World::PASSWORD)
        .await;
    for verb in VERBS.into_iter().filter(|verb| *verb != Verb::Create) {
        let mut manifest = match verb {
            Verb::Start => stopped(&name(verb)),
            _ => instance(&name(verb)),
        };
        if verb == Verb::ModifyPassword {
            manifest["spec"]["login"]["passwordSecretRef"]["name"] = json!(login(round));
        }
        world.apply(&manifest).await;
    }
    for verb in VERBS.into_iter().filter(|verb| *verb != Verb::Create) {
        world.ready(&name(verb)).await;
    }
    let mut all = Vec::new();
    for verb in VERBS {
        let name = name(verb);
        endless(world, verb);
        match verb {
            Verb::Create | Verb::Start => drop(world.apply(&instance(&name)).await),
            Verb::Reinstall => drop(world.apply(&other_image(&name)).await),
            Verb::Stop => drop(world.apply(&stopped(&name)).await),
            Verb::Restart => drop(world.apply(&token(&name, "again")).await),
            Verb::ModifyPassword => {
                let login = login(round);
                world.secret(&login, "password", World::NEW_PASSWORD).await;
            }
            Verb::Release => world.delete(&name).await,
        }
        all.push(taken(world, &name, verb).await);
    }
    all
}

fn login(round: &str) -> String {
    format!("{round}-login")
}

/// Waits until the service has accepted the operation, and until the operator has recorded that.
async fn taken(world: &World, name: &str, verb: Verb) -> Open {
    let instance = world
        .until(name, "its task is on record", |instance| match verb {
            Verb::Create => {
                let record = instance.annotations().get(BINDING);
                let record = record.and_then(|text| serde_json::from_str::<Value>(text).ok());
                record.is_some_and(|record| record["task"].is_string())
            }
            Verb::Release => !world.live(instance).is_empty(),
            _ => {
                let status = instance.status.as_ref();
                let operation = status.and_then(|status| status.operation.as_ref());
                operation.is_some_and(|operation| operation.task_id.is_some())
            }
        })
        .await;
    let server = world.only_server(&instance).id;
    let open = Open {
        verb,
        instance,
        server,
    };
    until_counted(world, &open, (1, 0)).await;
    open
}

/// Waits until the service has accepted and carried out the operation this many times.
async fn until_counted(world: &World, open: &Open, expected: (usize, usize)) {
    let name = open.instance.name_any();
    eventually(&format!("{name}: {:?}", open.verb), async || {
        match counts(world, open.verb, Some(&open.server)) {
            counted if counted == expected => Ok(()),
            counted => Err(format!("{counted:?}")),
        }
    })
    .await;
}

/// Ends the tasks. Each operation completes, and none is done twice.
async fn close(world: &World, all: &[Open]) {
    for open in all {
        end_task(world, &open.instance).await;
    }
    for open in all {
        let name = open.instance.name_any();
        until_counted(world, open, (1, 1)).await;
        if open.verb == Verb::Release {
            world.gone(&name).await;
            continue;
        }
        let is_done = |instance: &Instance| {
            let status = instance.status.as_ref();
            is_ready(instance) && status.is_some_and(|status| status.operation.is_none())
        };
        let done = world.until(&name, "is done", is_done).await;
        assert_eq!(assert_idle(world, &done).id, open.server, "{name}");
    }
    for open in all {
        let counted = counts(world, open.verb, Some(&open.server));
        assert_eq!(counted, (1, 1), "{}", open.instance.name_any());
    }
}

/// Writes this version's objects, as the apiserver stores them, to files.
async fn keep(world: &World, folder: &Path) {
    for (name, instance) in world.all().await {
        let mut kept = instance;
        kept.metadata.managed_fields = None;
        let text = serde_json::to_string_pretty(&kept).unwrap() + "\n";
        std::fs::write(folder.join(format!("{name}.json")), text).unwrap();
    }
}
