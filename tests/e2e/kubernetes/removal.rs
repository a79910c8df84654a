//! Deleted objects: with a name that is reused at once, without their finalizer, with their whole namespace (rows K8, K12,
//! K14).

use super::{all, recovers};
use crate::support::wire::{self, Blow, Kind};
use crate::support::{
    Setup, World, assert_idle, counts, create_calls, delete, eventually, insist, instance,
    instance_by_key, is_ready, other_image, path_of, stays,
};
use cloud_server_operator::api::Verb;
use cloud_simulator::faults::{Act, Rule, When};
use cloud_simulator::model::Effect;
use cloud_simulator::{Entry, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// Removes the finalizers, as an impatient user does.
async fn force(world: &World, name: &str) {
    let patch = r#"[{"op":"replace","path":"/metadata/finalizers","value":[]}]"#;
    world
        .run(&["patch", "instance", name, "--type=json", "-p", patch], "")
        .await;
}

/// The operator gets no information about Instances until this fault is healed.
fn blind(world: &World) -> wire::Fault {
    let asks = |request: &wire::WireRequest| {
        request.resource == "instances"
            && matches!(request.kind, Kind::List | Kind::Stream | Kind::Watch)
    };
    let fault = world.wire().on(asks, wire::Act::Answer(503));
    world.wire().blow("instances", Blow::Gone);
    fault
}

async fn uid(world: &World, name: &str) -> String {
    world.get(name).await.uid().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namesake_created_between_two_reads_gets_a_server_of_its_own() {
    let world = Setup::default().wire().begin("k8-namesake").await;
    for name in ["deleted", "forced", "unbought"] {
        let mut manifest = instance(name);
        if name == "unbought" {
            manifest["spec"]["accountRef"] = json!({"name": "later"});
        }
        world.apply(&manifest).await;
    }
    for name in ["deleted", "forced"] {
        world.ready(name).await;
    }
    world.until_reason("unbought", "AccountNotFound").await;
    let forced = world.only_server(&world.get("forced").await).id;
    let old = uid(&world, "unbought").await;

    // The operator sees the deletion, but not its end: its own last write starts the fault.
    let last = world.wire().on(
        |request| {
            request.is(Kind::Write, "instances") && request.body.contains("/metadata/finalizers")
        },
        wire::Act::Late(Duration::from_secs(1)),
    );
    world.delete("deleted").await;
    eventually("the finalizer goes", async || match last.met() {
        0 => Err(world.ledger_text()),
        _ => Ok(()),
    })
    .await;
    let blind = blind(&world);
    world.gone("deleted").await;
    world.delete("unbought").await;
    world.delete("forced").await;
    force(&world, "forced").await;
    for name in ["unbought", "forced"] {
        world.gone(name).await;
    }
    for name in ["deleted", "forced", "unbought"] {
        world.apply(&instance(name)).await;
    }
    assert_ne!(uid(&world, "unbought").await, old);
    // Twice the pause of a watch: actions based on the old information have happened by now.
    stays(
        "nothing is bought blindly",
        Duration::from_secs(5),
        async || match create_calls(&world.sim) {
            2 => Ok(()),
            _ => Err(world.ledger_text()),
        },
    )
    .await;
    blind.heal();
    recovers("K8: the namesakes have servers", async || {
        all(&world, &["deleted", "forced", "unbought"], is_ready).await
    })
    .await;
    for name in ["deleted", "forced", "unbought"] {
        let found = world.get(name).await;
        assert_ne!(assert_idle(&world, &found).id, forced, "it was another's");
    }
    assert_eq!(create_calls(&world.sim), 5, "{}", world.ledger_text());
    // Servers whose Instances lost their finalizer by force still exist, and that is reported.
    world.until_events("ServerOrphaned", 1).await;
    assert_eq!(world.sim.live_servers().len(), 4);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_instances_removed_by_force_are_reported_and_kept() {
    let mut world = Setup::default().tasks(4_000).begin("k12-forced").await;
    let names = ["ready", "busy", "new"];
    for name in ["ready", "busy"] {
        world.apply(&instance(name)).await;
    }
    for name in ["ready", "busy"] {
        world.ready(name).await;
    }
    world.restart().await;
    world.apply(&other_image("busy")).await;
    world.apply(&instance("new")).await;
    eventually("operations run", async || {
        match (
            counts(&world, Verb::Reinstall, None).0,
            create_calls(&world.sim),
        ) {
            (1, 3) => Ok(()),
            _ => Err(world.ledger_text()),
        }
    })
    .await;
    // Calls that a deletion makes before it is cut short do not arrive.
    let lost = Act::Lose {
        when: When::BeforeEffect,
    };
    world.sim.fault(Rule::on(path_of(Verb::Release), lost));
    for name in names {
        world.delete(name).await;
        force(&world, name).await;
        world.gone(name).await;
    }
    world.until_events("ServerOrphaned", 3).await;
    let (_, metrics) = world.operator().metrics().await;
    let line = "servers_orphaned_total 3";
    assert!(metrics.contains(line), "{line:?} is not in {metrics}");
    world.sim.faults().clear();
    stays(
        "what was left is left",
        Duration::from_secs(8),
        async || match world.sim.live_servers().len() {
            3 => Ok(()),
            _ => Err(world.ledger_text()),
        },
    )
    .await;
    assert_eq!(create_calls(&world.sim), 3);
    world.finish().await;
}

/// Calls per second that the Account allows while the namespace is deleted.
const LIMIT: u32 = 20;
const MANY: usize = 200;

async fn limit(world: &World, per_second: u32) {
    let patch = json!({"spec": {"requests": {"perSecond": per_second, "burst": per_second}}});
    let (accounts, params) = (world.accounts(), PatchParams::default());
    let patch = Patch::Merge(&patch);
    let limited = insist("the Account is limited", async || {
        accounts.patch("default", &params, &patch).await
    });
    limited.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_with_two_hundred_instances_goes_at_the_pace_of_the_service() {
    let world = Setup::default().tasks(2_000).begin("k14-namespace").await;
    for n in 0..MANY {
        world.apply(&instance_by_key(&format!("web-{n}"))).await;
    }
    eventually("all are ready", async || {
        let list = world.instances().list(&ListParams::default()).await;
        let list = list.map_err(|error| error.to_string())?;
        match list.iter().filter(|found| is_ready(found)).count() {
            MANY => Ok(()),
            ready => Err(format!("{ready} are ready")),
        }
    })
    .await;
    limit(&world, LIMIT).await;
    let since = world.sim.ledger().last_seq();
    // The namespace controller deletes kinds in any order; the test enforces the worst one.
    for name in ["cloud-token", "login"] {
        delete(&world.secrets(), name).await;
    }
    delete(&world.accounts(), "default").await;
    let api: Api<Namespace> = Api::all(world.client.clone());
    let (begun, deleted) = (Instant::now(), Timestamp::wall_clock());
    delete(&api, &world.namespace).await;
    eventually("half of the servers are gone", async || {
        match world.sim.live_servers().len() {
            live if live <= MANY / 2 => Ok(()),
            live => Err(format!("{live} servers live")),
        }
    })
    .await;
    eventually("the namespace is gone", async || {
        match api.get_opt(&world.namespace).await {
            Ok(None) => Ok(()),
            Ok(Some(namespace)) => Err(format!(
                "{:?}, {} servers live",
                namespace.status,
                world.sim.live_servers().len()
            )),
            Err(error) => Err(error.to_string()),
        }
    })
    .await;
    let took = begun.elapsed();
    let ledger = world.sim.ledger();
    let entries = ledger.since(since);
    let released = |entry: &&&Entry| matches!(entry.effect, Effect::Released { .. });
    let last = entries.iter().filter(released).map(|entry| entry.at).max();
    let drained = last.unwrap().since(deleted);
    let calls = entries.iter().filter(|entry| !entry.method.is_empty());
    let calls = u32::try_from(calls.count()).unwrap();
    let ideal = Duration::from_secs(1) * calls / LIMIT;
    println!(
        "K14: {calls} calls, released in {drained:?} (the limit allows {ideal:?}), namespace gone in {took:?}"
    );
    assert_eq!(world.sim.live_servers(), []);
    assert_eq!(counts(&world, Verb::Release, None), (MANY, MANY));
    assert_eq!(create_calls(&world.sim), MANY as u64);
    // One release for each, a poll of its task while it runs and one at its end, and the shared listings, which continue until
    // all is done.
    let seconds = usize::try_from(took.as_secs()).unwrap();
    assert!(
        calls as usize <= 3 * MANY + 4 * seconds,
        "{calls} calls in {took:?}"
    );
    world.finish().await;
}
