//! Several operators, each with a shard of the namespaces and its Lease.

use crate::support::shards::until_acting;
use crate::support::{
    Operator, Setup, World, create_calls, eventually, instance, is_ready, names, other_image,
    outline, reason, stopped, with,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const SHARDS: &str = "CSO_SHARDS";

/// Duration of the service's tasks: longer than a standby takes to become active.
const TASKS_MILLIS: u64 = 8000;

/// The two shards of these tests.
const ZERO: &str = "0-of-2";
const ONE: &str = "1-of-2";

/// A world whose operators have two shards, and its namespaces, shard by shard.
async fn sharded(name: &str, each: usize) -> (World, Vec<Vec<String>>) {
    let setup = Setup::default().leases().tasks(TASKS_MILLIS);
    let mut world = setup.without_operator().begin(name).await;
    world.environment(SHARDS, "2");
    let namespaces = world.settle(2, each).await;
    (world, namespaces)
}

/// Runs `act` in each of these namespaces.
async fn in_each(world: &mut World, namespaces: &[String], act: impl AsyncFn(&World)) {
    let home = world.namespace.clone();
    for namespace in namespaces {
        world.enter(namespace);
        act(world).await;
    }
    world.enter(&home);
}

/// No log, Event or object of a namespace contains a secret, and no Event reports a problem that does not exist.
async fn finish(mut world: World, namespaces: &[String]) {
    in_each(&mut world, namespaces, async |world| {
        world.assert_no_secret_leaked().await;
        world.assert_no_false_alarm().await;
    })
    .await;
    world.finish().await;
}

/// The namespaces in which this operator made calls that the service accepted, according to the operator's log.
fn called_in(operator: &Operator) -> BTreeSet<String> {
    let log = operator.log_text();
    let calls = log
        .lines()
        .filter(|line| line.contains("the service accepted the call"));
    let line = |line: &str| serde_json::from_str::<Value>(line).ok();
    let namespaces = calls.filter_map(line).filter_map(|line| {
        let namespace = line["namespace"].as_str()?;
        Some(namespace.to_owned())
    });
    namespaces.collect()
}

fn reinstalls(world: &World) -> u64 {
    world.sim.ledger().count("/instance/reinstallSystem")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_shard_has_an_operator_and_a_standby_and_whichever_ends_each_thing_is_done_once() {
    let (mut world, namespaces) = sharded("shards-pods", 2).await;
    let (all, lease, web) = (
        namespaces.concat(),
        world.namespace.clone(),
        names("web", 3),
    );
    let mut zero = world.pod(0, &lease).await;
    let mut one = world.pod(1, &lease).await;
    until_acting(&[(&zero, ZERO), (&one, ONE)]).await;
    let (standby_of_zero, standby_of_one) =
        (world.pod(2, &lease).await, world.pod(3, &lease).await);
    in_each(&mut world, &all, async |world| {
        world.apply_all(&web, instance).await;
    })
    .await;
    // One operator is killed while servers are being bought.
    eventually("a server is bought", async || {
        match create_calls(&world.sim) {
            0 => Err("none".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    zero.kill();
    in_each(&mut world, &all, async |world| {
        world.all_ready(&web).await;
    })
    .await;
    until_acting(&[(&standby_of_zero, ZERO), (&one, ONE)]).await;
    assert!(standby_of_one.shards().await.is_empty());
    assert_eq!(create_calls(&world.sim), 12, "{}", world.ledger_text());
    eventually("each counts the Instances of its shard", async || {
        match (standby_of_zero.instances().await, one.instances().await) {
            (6, 6) => Ok(()),
            counts => Err(format!("{counts:?}")),
        }
    })
    .await;
    let called = called_in(&one);
    assert_eq!(called, BTreeSet::from_iter(namespaces[1].iter().cloned()));
    // The other one gets SIGTERM while disks are being reinstalled.
    in_each(&mut world, &all, async |world| {
        world.apply_all(&web, other_image).await;
    })
    .await;
    one.terminate();
    assert!(one.ended().await.success());
    in_each(&mut world, &all, async |world| {
        world.until_all(&web, "are Ready", is_ready).await;
    })
    .await;
    until_acting(&[(&standby_of_zero, ZERO), (&standby_of_one, ONE)]).await;
    assert_eq!(reinstalls(&world), 12, "{}", world.ledger_text());
    in_each(&mut world, &all, async |world| {
        for name in &web {
            world.delete(name).await;
        }
    })
    .await;
    in_each(&mut world, &all, async |world| world.all_gone(&web).await).await;
    assert_eq!(world.sim.live_servers().len(), 0, "{}", world.ledger_text());
    assert_eq!(world.sim.ledger().count("/instance/release"), 12);
    finish(world, &all).await;
}

/// As during a rollout with another number of shards: the new operators are ready, and wait until the last of the old ones is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_number_of_shards_acts_when_the_former_one_is_gone() {
    let (mut world, namespaces) = sharded("shards-number", 1).await;
    let (all, lease) = (namespaces.concat(), world.namespace.clone());
    world.environment(SHARDS, "1");
    let mut old = world.another(&lease).await;
    until_acting(&[(&old, "0-of-1")]).await;
    world.environment(SHARDS, "2");
    let (mut zero, mut one) = (world.pod(0, &lease).await, world.pod(1, &lease).await);
    in_each(&mut world, &all, async |world| {
        world.apply(&instance("web")).await;
    })
    .await;
    in_each(&mut world, &all, async |world| {
        world.ready("web").await;
    })
    .await;
    for new in [&zero, &one] {
        assert!(new.shards().await.is_empty(), "{}", new.log_text());
    }
    old.terminate();
    assert!(old.ended().await.success());
    until_acting(&[(&zero, ZERO), (&one, ONE)]).await;
    // Back to the old number: this time the former operators leave Leases that run out.
    world.environment(SHARDS, "1");
    let next = world.another(&lease).await;
    in_each(&mut world, &all, async |world| {
        world.apply(&stopped("web")).await;
    })
    .await;
    zero.kill();
    in_each(&mut world, &namespaces[1], async |world| {
        world.ready("web").await;
    })
    .await;
    assert!(next.shards().await.is_empty(), "{}", next.log_text());
    one.kill();
    until_acting(&[(&next, "0-of-1")]).await;
    in_each(&mut world, &all, async |world| {
        world.ready("web").await;
    })
    .await;
    assert_eq!(world.sim.ledger().count("/instance/stop"), 2);
    assert_eq!(create_calls(&world.sim), 2, "{}", world.ledger_text());
    finish(world, &all).await;
}

/// Each of two operators knows the servers of the other shard: no two Instances have the same server, and none is reported as
/// unowned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_another_shard_is_neither_imported_nor_unowned() {
    let setup = Setup::default().leases().imports().without_operator();
    let mut world = setup.begin("shards-import").await;
    world.environment(SHARDS, "2");
    let namespaces = world.settle(2, 1).await.concat();
    let lease = world.namespace.clone();
    let (zero, one) = (world.pod(0, &lease).await, world.pod(1, &lease).await);
    until_acting(&[(&zero, ZERO), (&one, ONE)]).await;
    world.add_unowned_servers(World::TOKEN, 1);
    let id = world.sim.live_servers()[0].id.clone();
    let importing = |name: &str, id: &str| with(name, |spec| spec["import"] = json!({"id": id}));
    let [here, there] = [&namespaces[0], &namespaces[1]];
    world.enter(here);
    world.apply(&importing("taken", &id)).await;
    world.ready("taken").await;
    world.apply(&instance("bought")).await;
    let bought = world.ready("bought").await;
    let bought = bought.status.unwrap().id.unwrap();
    world.enter(there);
    for (thief, id, owner) in [("a", &id, "taken"), ("b", &bought, "bought")] {
        world.apply(&importing(thief, id)).await;
        let web = world.until_reason(thief, "ImportConflict").await;
        let message = web.status.as_ref().unwrap().conditions[0].message.clone();
        assert!(
            message.contains(&format!("{here}/{owner}")),
            "{}",
            outline(&web)
        );
    }
    // Both Accounts list both servers, and neither reports one of them as unowned.
    for namespace in &namespaces {
        world.enter(namespace);
        eventually("the Account lists both servers as owned", async || {
            let account = world.accounts().get("default").await.unwrap();
            let status = serde_json::to_value(account.status).unwrap();
            let zones = status["inventory"].as_array().cloned().unwrap_or_default();
            let count = |of: &str| {
                zones
                    .iter()
                    .filter_map(|zone| zone[of].as_u64())
                    .sum::<u64>()
            };
            match (count("servers"), count("unowned")) {
                (2, 0) => Ok(()),
                _ => Err(status.to_string()),
            }
        })
        .await;
    }
    // Once its Instance is deleted and the server retained, the other one may import it.
    world.enter(here);
    let retained = |spec: &mut serde_json::Value| {
        spec["import"] = json!({"id": id});
        spec["deletionPolicy"] = json!("Retain");
    };
    world.apply(&with("taken", retained)).await;
    world.ready("taken").await;
    world.delete("taken").await;
    world.gone("taken").await;
    world.enter(there);
    let taken = world.ready("a").await;
    assert_eq!(reason(&taken), "Available");
    assert_eq!(world.sim.live_servers().len(), 2, "{}", world.ledger_text());
    finish(world, &namespaces).await;
}

/// The ways in which a replica ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Killed,
    Terminated,
    /// Stands still for longer than its Lease is valid.
    Paused,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "replicas end for minutes: make torture"]
async fn replicas_that_end_or_pause_while_disks_are_erased_erase_each_once() {
    let (mut world, namespaces) = sharded("shards-torture", 4).await;
    let (all, lease, web) = (
        namespaces.concat(),
        world.namespace.clone(),
        names("web", 3),
    );
    let mut pods = Vec::new();
    for ordinal in 0..4 {
        pods.push(world.pod(ordinal, &lease).await);
    }
    in_each(&mut world, &all, async |world| {
        world.apply_all(&web, instance).await;
    })
    .await;
    in_each(&mut world, &all, async |world| {
        world.all_ready(&web).await;
    })
    .await;
    let ends = [End::Killed, End::Paused, End::Terminated];
    for (round, end) in ends.into_iter().cycle().take(9).enumerate() {
        let (manifest, before) = ([other_image, instance][round % 2], reinstalls(&world));
        in_each(&mut world, &all, async |world| {
            world.apply_all(&web, manifest).await;
        })
        .await;
        // By now some calls have been made, and others have not.
        let begun = before + 6 * (1 + round as u64 % 3);
        eventually("disks are being erased", async || {
            match reinstalls(&world) {
                n if n >= begun => Ok(()),
                n => Err(format!("{n}")),
            }
        })
        .await;
        // Selects the active one of the two Pods of a shard.
        let shard = round % 2;
        let is_active = !pods[shard].shards().await.is_empty();
        let ordinal = if is_active { shard } else { shard + 2 };
        let victim = &mut pods[ordinal];
        match end {
            End::Killed => victim.kill(),
            End::Terminated => victim.terminate(),
            End::Paused => victim.pause(),
        }
        in_each(&mut world, &all, async |world| {
            world.until_all(&web, "are Ready", is_ready).await;
        })
        .await;
        let victim = &mut pods[ordinal];
        if matches!(end, End::Paused) {
            victim.go_on();
        }
        if !matches!(end, End::Killed) {
            let status = victim.ended().await;
            assert_eq!(status.success(), matches!(end, End::Terminated), "{end:?}");
        }
        let erased = reinstalls(&world) - before;
        println!("{end:?}: {erased} disks erased");
        // A call of a process that was paused may arrive after another one took over (reliability.md): that is a known limit.
        let most = match end {
            End::Paused => 26,
            End::Killed | End::Terminated => 24,
        };
        assert!(
            (24..=most).contains(&erased),
            "{end:?}: {}",
            world.ledger_text()
        );
        pods[ordinal] = world.pod(u16::try_from(ordinal).unwrap(), &lease).await;
    }
    assert_eq!(create_calls(&world.sim), 24, "{}", world.ledger_text());
    finish(world, &all).await;
}
