//! Copied and restored manifests with the record of a purchase, and an operator without a namespace of its own.

use crate::support::{Setup, World, console, create_calls, instance, stays};
use cloud_server_operator::api::Instance;
use cloud_server_operator::api::names::{BINDING, FINALIZER};
use cloud_simulator::model::Console;
use kube::ResourceExt;
use serde_json::{Value, json};
use std::time::Duration;

async fn one_ready(name: &str) -> (World, Instance, String) {
    let world = Setup::default().begin(name).await;
    world.apply(&instance("web")).await;
    let ready = world.ready("web").await;
    let server = world.only_server(&ready).id;
    (world, ready, server)
}

/// Asserts that nothing happens for ten seconds: twice the pause between two listings during an operation, so that a wrong
/// conclusion from a listing would show.
async fn nothing_else_happens(world: &World, posts: usize) {
    stays(
        "no call changes anything",
        Duration::from_secs(10),
        async || {
            let now = world.sim.ledger().mutating().len();
            if now == posts {
                Ok(())
            } else {
                Err(world.ledger_text())
            }
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copied_manifest_gets_a_server_of_its_own() {
    let (world, ready, server) = one_ready("copied").await;
    // As by `kubectl get -o yaml`, a new name, and `kubectl apply`: the copy includes annotation and finalizer.
    let mut copy = serde_json::to_value(&ready).unwrap();
    copy["metadata"] = json!({
        "name": "copy",
        "annotations": {BINDING: ready.annotations()[BINDING]},
        "finalizers": [FINALIZER],
    });
    let (done, text) = world
        .kubectl(&["apply", "-f", "-"], &copy.to_string())
        .await;
    assert!(done, "{text}");
    let copy = world.ready("copy").await;
    let own = world.only_server(&copy);
    assert_ne!(own.id, server);
    assert_eq!(copy.status.unwrap().id.as_deref(), Some(own.id.as_str()));
    assert_eq!(
        world.ready("web").await.status.unwrap().id.as_deref(),
        Some(server.as_str())
    );
    assert_eq!(
        (create_calls(&world.sim), world.sim.live_servers().len()),
        (2, 2)
    );
    // The deletion of the copy does not affect the original.
    world.delete("copy").await;
    world.gone("copy").await;
    let live: Vec<_> = world.sim.live_servers().into_iter().map(|s| s.id).collect();
    assert_eq!(live, [server]);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_backup_finds_its_server_again() {
    let (mut world, ready, server) = one_ready("restored").await;
    world.kill();
    // The cluster lost the object and it is restored from a backup: same name, another UID, the record in its annotation.
    let patch = r#"[{"op":"remove","path":"/metadata/finalizers"}]"#;
    world.delete("web").await;
    world
        .kubectl(
            &["patch", "instance", "web", "--type=json", "-p", patch],
            "",
        )
        .await;
    world.gone("web").await;
    let mut backup = serde_json::to_value(&ready).unwrap();
    backup["metadata"] =
        json!({"name": "web", "annotations": {BINDING: ready.annotations()[BINDING]}});
    let (done, text) = world
        .kubectl(&["apply", "-f", "-"], &backup.to_string())
        .await;
    assert!(done, "{text}");
    world.start().await;
    let restored = world.ready("web").await;
    assert_ne!(restored.uid(), ready.uid());
    assert_eq!(restored.status.unwrap().id, Some(server));
    nothing_else_happens(&world, 1).await;
    world.delete("web").await;
    world.gone("web").await;
    assert_eq!(world.sim.live_servers(), []);
    world.finish().await;
}

/// The credential in an Instance's record.
async fn credential(world: &World, name: &str) -> String {
    let object = world.get(name).await;
    let record: Value = serde_json::from_str(&object.annotations()[BINDING]).unwrap();
    record["credential"].as_str().unwrap().to_owned()
}

/// The operator has no namespace of its own here. No listing shows a server of the Account after the restart, so only the
/// token of the purchase makes the service's "no such server" count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_without_a_namespace_of_its_own_knows_the_token_of_the_one_before_it() {
    let (mut world, _, server) = one_ready("restarted").await;
    let first = credential(&world, "web").await;
    world.kill();
    console(&world, Console::Release { server });
    world.start().await;
    world.apply(&instance("two")).await;
    let two = world.ready("two").await;
    assert_eq!(credential(&world, "two").await, first, "the same token");
    let server = world.only_server(&two).id;
    world.kill();
    console(&world, Console::Release { server });
    world.start().await;
    for name in ["web", "two"] {
        world.delete(name).await;
    }
    for name in ["web", "two"] {
        world.gone(name).await;
    }
    assert_eq!(create_calls(&world.sim), 2);
    world.finish().await;
}
