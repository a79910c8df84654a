//! The store is full (row K2): reads work and writes do not, until an administrator frees space.

use super::{Plane, all, held, recovers};
use crate::support::{
    Setup, World, condition, counts, create_calls, eventually, insist, instance, is_ready,
    other_image, stays, token,
};
use cloud_server_operator::api::Verb;
use cloud_server_operator::api::names::BINDING;
use jiff::Timestamp;
use kube::ResourceExt;
use std::time::Duration;

/// Longer than the longest pause after a refused write (20 s).
const FULL: Duration = Duration::from_secs(30);
/// The Instances whose operation must be recorded before its call.
const RECORDED: [&str; 3] = ["new", "rebuilt", "restarted"];

/// The calls that need a record: creates, reinstalls, restarts.
fn called(world: &World) -> (u64, [usize; 2]) {
    let verbs = [Verb::Reinstall, Verb::Restart];
    (
        create_calls(&world.sim),
        verbs.map(|verb| counts(world, verb, None).0),
    )
}

/// How many writes of the operator to this Instance the apiserver could not carry out since then.
async fn refused(world: &World, name: &str, since: Timestamp) -> usize {
    let writes = world.writes_since(since).await;
    let refused = writes
        .iter()
        .filter(|write| write.name == name && write.code >= 500);
    refused.count()
}

/// Requests of users that wait only for the Account, without any record yet.
async fn request_changes(world: &World) {
    world.sim.set_token("default", "another-token").unwrap();
    // A changed Account is checked at once.
    world.limit("default", 500, 500, 49).await;
    eventually("the Account is known to be unusable", async || {
        let account = insist("read it", async || world.accounts().get("default").await);
        let status = account.await.unwrap().status.unwrap_or_default();
        match status.conditions.iter().any(|c| c.reason == "TokenRefused") {
            true => Ok(()),
            false => Err(format!("{:?}", status.conditions)),
        }
    })
    .await;
    world.apply(&instance("new")).await;
    world.apply(&other_image("rebuilt")).await;
    world.apply(&token("restarted", "one")).await;
    world.delete("going").await;
    let new = world.until_reason("new", "TokenRefused").await;
    assert!(
        !new.annotations().contains_key(BINDING),
        "nothing is on record"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_full_buys_nothing_without_a_record() {
    let plane = Plane::start().await;
    let setup = Setup::default().cluster(plane.shared.clone());
    let mut world = setup.begin("k2-full").await;
    for name in ["rebuilt", "restarted", "going"] {
        world.apply(&instance(name)).await;
    }
    for name in ["rebuilt", "restarted", "going"] {
        world.ready(name).await;
    }
    // Its server is already bought, and its receipt must be written into a full store.
    let hold = held(&world).await;
    request_changes(&world).await;
    plane.cluster.fill().await.unwrap();
    let full = Timestamp::now();
    let before = called(&world);
    assert_eq!(before, (4, [0, 0]), "{}", world.ledger_text());
    world.sim.set_token("default", World::TOKEN).unwrap();
    hold.release();
    eventually("records are refused", async || {
        for name in RECORDED.iter().chain(&["held"]) {
            if refused(&world, name, full).await == 0 {
                return Err(format!("nothing was written of {name}"));
            }
        }
        Ok(())
    })
    .await;
    // A release needs no record, since it may be repeated; and a deletion needs no space in the store.
    world.gone("going").await;
    stays("no call without a record", FULL, async || {
        match called(&world) {
            now if now == before => Ok(()),
            _ => Err(world.ledger_text()),
        }
    })
    .await;
    assert_few_writes(&world, full).await;
    assert!(world.operator().is_running());

    plane.cluster.make_room().await.unwrap();
    let names = ["new", "rebuilt", "restarted", "held"];
    recovers("K2: all continues once there is room", async || {
        all(&world, &names, is_ready).await
    })
    .await;
    assert_eq!(called(&world), (5, [1, 1]), "{}", world.ledger_text());
    assert_eq!(counts(&world, Verb::Release, None), (1, 1));
    assert_eq!(world.sim.live_servers().len(), 4, "{}", world.ledger_text());
    assert_eq!(world.sim.servers().len(), 5, "{}", world.ledger_text());
    for name in names {
        assert!(condition(&world.get(name).await, "Stalled").is_none());
    }
    assert!(world.operator().is_running());
    world.finish().await;
}

/// Asserts that the operator does not write to a full store too often.
async fn assert_few_writes(world: &World, since: Timestamp) {
    // After 1, 2, 4, 8, 16 s and then every 20 s. These pauses are the operator's own, independent of the machine. Each attempt
    // writes an intent and a report, and a receipt three times.
    for (name, most) in RECORDED
        .map(|name| (name, 16))
        .into_iter()
        .chain([("held", 36)])
    {
        let count = refused(world, name, since).await;
        println!("K2: {count} writes of {name} refused by a full store");
        assert!(count <= most, "{count} writes of {name}");
    }
}
