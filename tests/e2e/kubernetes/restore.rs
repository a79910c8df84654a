//! etcd is restored from a snapshot (row K3): the cluster forgets later applies, purchases, reinstalls and deletions, and the
//! service does not. Servers are found by their names; nothing is bought twice, released or erased.

use super::{Plane, all, none, recovers};
use crate::support::wire::{Act as WireAct, Fault, Kind};
use crate::support::{
    PATIENCE, Setup, World, condition, counts, create_calls, eventually, instance, instance_by_key,
    is_ready, other_image, outline, stays,
};
use cloud_server_operator::api::{Instance, Verb};
use cloud_simulator::faults::{Act, ClientGone, Hold, Rule, When};
use kube::ResourceExt;
use std::collections::BTreeMap;
use std::time::Duration;

/// The Instances in the snapshot.
const KEPT: [&str; 6] = [
    "steady",
    "unrecorded",
    "unanswered",
    "deleted",
    "rebuilt",
    "leaving",
];

struct Before {
    world: World,
    unrecorded: Fault,
    unanswered: Hold,
    leaving: Hold,
}

/// Each Instance is in the state in which the snapshot must contain it.
async fn before(setup: Setup, name: &str) -> Before {
    let world = setup.wire().begin(name).await;
    let hold = |path, at| {
        let gone = ClientGone::Execute;
        Rule::on(path, Act::Hold { at, gone })
    };
    for name in ["steady", "deleted", "rebuilt", "leaving"] {
        world.apply(&instance(name)).await;
    }
    for name in ["steady", "deleted", "rebuilt", "leaving"] {
        world.ready(name).await;
    }
    let unrecorded = world.wire().on(
        |request| request.is(Kind::Write, "instances") && request.name == "unrecorded",
        WireAct::Answer(503),
    );
    world.apply(&instance_by_key("unrecorded")).await;
    eventually("its intent is refused", async || match unrecorded.met() {
        0 => Err("not yet".to_owned()),
        _ => Ok(()),
    })
    .await;
    let unanswered = hold("/instance/create", When::AfterEffect).containing("\"unanswered-");
    let unanswered = world.sim.hold(unanswered);
    world.apply(&instance("unanswered")).await;
    unanswered.reached(PATIENCE).await.unwrap();
    let leaving = world
        .sim
        .hold(hold("/instance/release", When::BeforeEffect));
    world.delete("leaving").await;
    leaving.reached(PATIENCE).await.unwrap();
    Before {
        world,
        unrecorded,
        unanswered,
        leaving,
    }
}

/// The changes after the snapshot, which the cluster forgets. Returns the servers by the names of their Instances.
async fn after(before: &Before) -> BTreeMap<String, String> {
    let world = &before.world;
    before.unanswered.release();
    before.leaving.release();
    before.unrecorded.heal();
    world.gone("leaving").await;
    // Wakes it.
    world
        .run(&["label", "instance", "unrecorded", "woken=yes"], "")
        .await;
    world.delete("deleted").await;
    world.apply(&other_image("rebuilt")).await;
    for name in ["leaving", "later"] {
        world.apply(&instance(name)).await;
    }
    world.gone("deleted").await;
    let names = [
        "steady",
        "unrecorded",
        "unanswered",
        "rebuilt",
        "leaving",
        "later",
    ];
    eventually("all is as requested before the restore", async || {
        all(world, &names, is_ready).await
    })
    .await;
    assert_eq!(counts(world, Verb::Reinstall, None), (1, 1));
    let mut servers = BTreeMap::new();
    for name in names {
        servers.insert(
            name.to_owned(),
            world.only_server(&world.get(name).await).id,
        );
    }
    servers
}

fn id(instance: &Instance) -> Option<String> {
    instance.status.as_ref()?.id.clone()
}

/// The servers from before are recorded again, and nothing was bought, released or erased meanwhile.
async fn found_again(world: &World, servers: &BTreeMap<String, String>, was_running: bool) {
    let (bought, released) = (create_calls(&world.sim), world.sim.live_servers().len());
    recovers("K3: the servers are found again", async || {
        none(world, &["leaving", "later"]).await?;
        for name in ["steady", "unrecorded", "unanswered"] {
            let found = world.get(name).await;
            if !is_ready(&found) || id(&found).as_ref() != servers.get(name) {
                return Err(format!("{name}: {}", outline(&found)));
            }
        }
        let reasons = [("deleted", "ServerMissing"), ("rebuilt", "Drifted")];
        for (name, reason) in reasons {
            let found = world.get(name).await;
            let shown = crate::support::reason(&found);
            if shown != reason && condition(&found, reason).is_none() {
                return Err(format!("{name}: {}", outline(&found)));
            }
        }
        Ok(())
    })
    .await;
    world.apply(&instance_by_key("new")).await;
    recovers("K3: new requests are seen", async || {
        all(world, &["new"], is_ready).await
    })
    .await;
    stays(
        "nothing comes of what is forgotten",
        Duration::from_secs(8),
        async || {
            let now = (create_calls(&world.sim), world.sim.live_servers().len());
            if now == (bought + 1, released + 1) {
                Ok(())
            } else {
                Err(world.ledger_text())
            }
        },
    )
    .await;
    let live: Vec<_> = world.sim.live_servers().into_iter().map(|s| s.id).collect();
    for (name, server) in servers {
        assert!(live.contains(server), "{name}'s {server} was released");
    }
    assert_eq!(live.len(), servers.len() + 1);
    assert_eq!(
        counts(world, Verb::Reinstall, None),
        (1, 1),
        "{}",
        world.ledger_text()
    );
    if was_running {
        world.until_events("ServerOrphaned", 2).await;
    }
}

async fn finish(world: World) {
    // Here a server is rightly reported as missing.
    world.assert_never_two();
    world.assert_no_secret_leaked().await;
    assert!(!world.logs().contains("panicked"), "{}", world.logs());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_restored_from_a_snapshot_finds_its_servers_again() {
    let plane = Plane::start().await;
    let setup = || Setup::default().tasks(1_000).cluster(plane.shared.clone());
    let (running, restarted) = tokio::join!(
        before(setup(), "k3-running"),
        before(setup(), "k3-restarted")
    );
    let kept = tempfile::tempdir().unwrap();
    let snapshot = kept.path().join("etcd");
    plane.cluster.snapshot(&snapshot).unwrap();
    for before in [&running, &restarted] {
        // The store was frozen for the copy, so a single call may get no answer.
        eventually("all are there", async || {
            all(&before.world, &KEPT, |_| true).await
        })
        .await;
        let unrecorded = before.world.get("unrecorded").await;
        assert!(
            unrecorded.finalizers().is_empty(),
            "its intent is on record"
        );
    }
    let (first, second) = tokio::join!(after(&running), after(&restarted));
    let (running, mut restarted) = (running.world, restarted.world);
    restarted.kill();
    plane.cluster.restore(&snapshot).await.unwrap();
    restarted.start().await;
    tokio::join!(
        found_again(&running, &first, true),
        found_again(&restarted, &second, false)
    );
    finish(running).await;
    finish(restarted).await;
}
