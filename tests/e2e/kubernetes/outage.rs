//! The apiserver and its store become unavailable and return (rows K1, K2), or have discarded old versions (row K5).

use super::{Plane, all, held, none, recovers};
use crate::support::{
    Setup, Shared, World, counts, create_calls, eventually, insist, instance, instance_by_key,
    is_ready, other_image, posts, stays, token, until_served,
};
use cloud_server_operator::api::Verb;
use devcluster::Component;
use jiff::Timestamp;
use std::time::Duration;
use tokio::time::sleep;

/// More than three times the longest wait after a failed call to a dependency (20 s).
const OUTAGE: Duration = Duration::from_secs(65);

fn assert_one_each(world: &World, names: usize) {
    assert_eq!(
        world.sim.live_servers().len(),
        names,
        "{}",
        world.ledger_text()
    );
    world.assert_never_two();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_apiserver_outage_of_a_minute_costs_nothing_and_all_work_continues() {
    let plane = Plane::start().await;
    let setup = Setup::default().tasks(6_000).cluster(plane.shared.clone());
    let mut world = setup.begin("k1-outage").await;
    let quiet = ["quiet-1", "quiet-2", "quiet-3"];
    let busy = ["rebuilt", "restarted"];
    let going = ["going-1", "going-2"];
    for name in [&quiet[..], &busy, &going].concat() {
        world.apply(&instance(name)).await;
    }
    for name in [&quiet[..], &busy, &going].concat() {
        world.ready(name).await;
    }
    // In flight at the begin of the outage: a create without an answer yet, creates and deletions whose tasks run, a reinstall,
    // a restart.
    let hold = held(&world).await;
    for name in ["new-1", "new-2"] {
        world.apply(&instance(name)).await;
    }
    world.apply(&other_image("rebuilt")).await;
    world.apply(&token("restarted", "one")).await;
    for name in going {
        world.delete(name).await;
    }
    let started = |world: &World| {
        let verbs = [Verb::Reinstall, Verb::Restart, Verb::Release];
        (
            create_calls(&world.sim),
            verbs.map(|verb| counts(world, verb, None).0),
        )
    };
    eventually("all is under way", async || match started(&world) {
        (10, [1, 1, 2]) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    plane
        .cluster
        .stop_component(Component::Apiserver)
        .await
        .unwrap();
    let down = Timestamp::now();
    hold.release();
    let before = posts(&world, 0);
    // The reconciles that were in progress have made their calls by then.
    stays(
        "nothing is bought or released",
        OUTAGE,
        async || match posts(&world, 0) {
            now if now == before => Ok(()),
            _ => Err(world.ledger_text()),
        },
    )
    .await;
    assert!(world.operator().is_running());
    plane
        .cluster
        .start_component(Component::Apiserver)
        .await
        .unwrap();
    let names = [&quiet[..], &busy, &["held", "new-1", "new-2"]].concat();
    recovers("K1: all continues after an outage", async || {
        none(&world, &going).await?;
        all(&world, &names, is_ready).await
    })
    .await;
    recovers("K1: new requests are seen after an outage", async || {
        world.apply(&instance("late")).await;
        all(&world, &["late"], is_ready).await
    })
    .await;
    assert_eq!(started(&world), (11, [1, 1, 2]), "{}", world.ledger_text());
    assert_one_each(&world, names.len() + 1);
    assert_quiet_return(&world, &quiet, down).await;
    world.finish().await;
}

/// Instances without changes cost no write, and all Instances together few requests.
async fn assert_quiet_return(world: &World, quiet: &[&str], since: Timestamp) {
    let writes = world.writes().await;
    let mine = writes.iter().filter(|write| write.received_at >= since);
    let of_quiet = mine.filter(|write| quiet.contains(&write.name.as_str()));
    assert_eq!(of_quiet.count(), 0, "quiet Instances were written");
    let path = world.shared.cluster.audit_log_path();
    let log = devcluster::audit::read(path).unwrap();
    let requests = log
        .iter()
        .filter(|entry| entry.user == Shared::USER)
        .filter(|entry| entry.received_at >= since)
        // Watches are renewed every twenty seconds until all has recovered.
        .filter(|entry| entry.verb != "watch")
        .count();
    println!("K1: {requests} requests after the outage");
    // Three listings, six objects in flight with a read and three writes each, Events, Secrets.
    assert!(requests <= 120, "{requests} requests after the outage");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_killed_frozen_or_compacted_buys_nothing_without_a_record() {
    let plane = Plane::start().await;
    let setup = Setup::default().tasks(2_000).cluster(plane.shared.clone());
    let world = setup.begin("k2-store").await;
    for name in ["old-1", "old-2", "going"] {
        world.apply(&instance(name)).await;
    }
    for name in ["old-1", "old-2", "going"] {
        world.ready(name).await;
    }
    // Killed during a create, a reinstall and a deletion, and restarted.
    world.apply(&instance("new-1")).await;
    world.apply(&other_image("old-1")).await;
    world.delete("going").await;
    plane.cluster.stop_component(Component::Etcd).await.unwrap();
    sleep(Duration::from_secs(3)).await;
    plane
        .cluster
        .start_component(Component::Etcd)
        .await
        .unwrap();
    let names = ["old-1", "old-2", "new-1"];
    recovers("K2: all continues after a kill of the store", async || {
        none(&world, &["going"]).await?;
        all(&world, &names, is_ready).await
    })
    .await;
    assert_eq!(counts(&world, Verb::Reinstall, None), (1, 1));
    assert_one_each(&world, 3);

    frozen(&plane, &world).await;

    // The versions from which listings and watches would continue are gone.
    plane.cluster.compact().await.unwrap();
    plane
        .cluster
        .stop_component(Component::Apiserver)
        .await
        .unwrap();
    plane
        .cluster
        .start_component(Component::Apiserver)
        .await
        .unwrap();
    until_served(&plane.cluster).await.unwrap();
    world.delete("old-2").await;
    world.apply(&instance("new-3")).await;
    recovers("K5: all is seen after a compaction", async || {
        none(&world, &["old-2"]).await?;
        all(&world, &["old-1", "new-1", "new-2", "new-3"], is_ready).await
    })
    .await;
    assert_one_each(&world, 4);
    assert_eq!(world.sim.servers().len(), 6, "{}", world.ledger_text());
    world.finish().await;
}

/// The store is frozen while the apiserver accepts requests. New requests of users do not lead to calls meanwhile.
async fn frozen(plane: &Plane, world: &World) {
    // The Account is unusable for now. The new Instance waits for it, and needs no Secret.
    world.sim.set_token("default", "another-token").unwrap();
    world.apply(&instance_by_key("new-2")).await;
    eventually("the Account is known to be unusable", async || {
        let account = insist("read it", async || world.accounts().get("default").await)
            .await
            .unwrap();
        let conditions = account.status.unwrap_or_default().conditions;
        match conditions.iter().any(|c| c.reason == "TokenRefused") {
            true => Ok(()),
            false => Err(format!("{conditions:?}")),
        }
    })
    .await;
    // Not requested before, since it might be recorded by now, and called.
    world.apply(&token("old-2", "one")).await;
    plane.cluster.freeze_component(Component::Etcd).unwrap();
    world.sim.set_token("default", World::TOKEN).unwrap();
    let bought = create_calls(&world.sim);
    let restarts = counts(world, Verb::Restart, None).0;
    // Longer than the pause until the next attempt with the Account (25 s) and the deadline of a write (15 s) together.
    stays(
        "no call without a record",
        Duration::from_secs(45),
        async || match (
            create_calls(&world.sim),
            counts(world, Verb::Restart, None).0,
        ) {
            now if now == (bought, restarts) => Ok(()),
            _ => Err(world.ledger_text()),
        },
    )
    .await;
    plane.cluster.thaw_component(Component::Etcd).unwrap();
    recovers("K2: all continues after a frozen store", async || {
        all(world, &["old-1", "old-2", "new-1", "new-2"], is_ready).await
    })
    .await;
    assert_eq!(
        create_calls(&world.sim),
        bought + 1,
        "{}",
        world.ledger_text()
    );
    assert_eq!(counts(world, Verb::Restart, None).0, restarts + 1);
    assert_one_each(world, 4);
}
