//! Several operators that share the namespaces out, each shard with a Lease of its own.

use crate::support::shards::until_shared;
use crate::support::{
    Operator, Setup, World, create_calls, eventually, instance, is_ready, names, other_image,
    outline, reason, stopped, with,
};
use cloud_server_operator::runtime::Shard;
use serde_json::{Value, json};
use std::collections::{BTreeSet, VecDeque};

const SHARDS: &str = "CSO_SHARDS";

/// How long the service's tasks take: longer than it takes a shard to move.
const TASKS_MILLIS: u64 = 8000;

/// A world whose operators share four shards, and its namespaces, shard by shard.
async fn shared(name: &str, each: usize) -> (World, Vec<Vec<String>>) {
    let setup = Setup::default().leases().tasks(TASKS_MILLIS);
    let mut world = setup.without_operator().begin(name).await;
    world.environment(SHARDS, "4");
    let namespaces = world.settle(4, each).await;
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

/// No namespace tells a secret, and none has an Event of a trouble that there was not.
async fn finish(mut world: World, namespaces: &[String]) {
    in_each(&mut world, namespaces, async |world| {
        world.assert_no_secret_told().await;
        world.assert_no_false_alarm().await;
    })
    .await;
    world.finish().await;
}

/// The namespaces in which the service took calls of this operator, as its log says.
fn called_in(operator: &Operator) -> BTreeSet<String> {
    let log = operator.log_text();
    let calls = log
        .lines()
        .filter(|line| line.contains("the service took the call"));
    let line = |line: &str| serde_json::from_str::<Value>(line).ok();
    let namespaces = calls.filter_map(line).filter_map(|line| {
        let namespace = line["namespace"].as_str()?;
        Some(namespace.to_owned())
    });
    namespaces.collect()
}

/// Whether a namespace is in one of these shards.
fn is_within(namespace: &str, shards: &BTreeSet<String>) -> bool {
    let mut all = Shard::all(4).filter(|shard| shard.owns(namespace));
    all.any(|shard| shards.contains(&shard.to_string()))
}

fn reinstalls(world: &World) -> u64 {
    world.sim.ledger().count("/instance/reinstallSystem")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_share_the_work_and_whatever_moves_each_thing_is_done_once() {
    let (mut world, namespaces) = shared("shards-move", 2).await;
    let (all, lease, web) = (
        namespaces.concat(),
        world.namespace.clone(),
        names("web", 3),
    );
    let mut first = world.another(&lease).await;
    until_shared(&[&first], &[4]).await;
    in_each(&mut world, &all, async |world| {
        world.apply_all(&web, instance).await;
    })
    .await;
    // Shards move while servers are bought.
    let mut second = world.another(&lease).await;
    until_shared(&[&first, &second], &[2, 2]).await;
    in_each(&mut world, &all, async |world| {
        world.all_ready(&web).await;
    })
    .await;
    assert_eq!(create_calls(&world.sim), 24, "{}", world.ledger_text());
    let theirs = second.shards().await;
    let wanted = all.iter().filter(|namespace| is_within(namespace, &theirs));
    let wanted = 3 * wanted.count();
    eventually(
        "the second one counts its own and no others",
        async || match (second.instances().await, first.instances().await) {
            (n, m) if (n, m) == (wanted, 24 - wanted) => Ok(()),
            counts => Err(format!("{counts:?}")),
        },
    )
    .await;
    // While disks are installed anew, a third one comes, and one of the first two is killed.
    in_each(&mut world, &all, async |world| {
        world.apply_all(&web, other_image).await;
    })
    .await;
    let called = called_in(&second);
    assert!(
        called.iter().all(|namespace| is_within(namespace, &theirs)),
        "{called:?} of {theirs:?}"
    );
    let third = world.another(&lease).await;
    until_shared(&[&first, &second, &third], &[1, 1, 2]).await;
    first.kill();
    in_each(&mut world, &all, async |world| {
        world.until_all(&web, "are Ready", is_ready).await;
    })
    .await;
    until_shared(&[&second, &third], &[2, 2]).await;
    assert_eq!(reinstalls(&world), 24, "{}", world.ledger_text());
    // One is told to end while servers are stopped: what it does ends, and the other one goes on.
    in_each(&mut world, &all, async |world| {
        world
            .apply_all(&web, |name| {
                let mut manifest = other_image(name);
                manifest["spec"]["powerState"] = stopped(name)["spec"]["powerState"].clone();
                manifest
            })
            .await;
    })
    .await;
    second.terminate();
    assert!(second.ended().await.success());
    in_each(&mut world, &all, async |world| {
        world.until_all(&web, "are Ready", is_ready).await;
    })
    .await;
    until_shared(&[&third], &[4]).await;
    assert_eq!(world.sim.ledger().count("/instance/stop"), 24);
    in_each(&mut world, &all, async |world| {
        for name in &web {
            world.delete(name).await;
        }
    })
    .await;
    in_each(&mut world, &all, async |world| world.all_gone(&web).await).await;
    assert_eq!(world.sim.live_servers().len(), 0, "{}", world.ledger_text());
    assert_eq!(world.sim.ledger().count("/instance/release"), 24);
    finish(world, &all).await;
}

/// As while a Deployment is rolled out with another number of shards: the new ones stand by until the last of the old ones went.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_number_of_shards_takes_over_when_the_old_one_is_gone() {
    let (mut world, namespaces) = shared("shards-number", 1).await;
    let (all, lease) = (namespaces.concat(), world.namespace.clone());
    world.environment(SHARDS, "1");
    let mut old = world.another(&lease).await;
    until_shared(&[&old], &[1]).await;
    world.environment(SHARDS, "4");
    let new = world.another(&lease).await;
    in_each(&mut world, &all, async |world| {
        world.apply(&instance("web")).await;
    })
    .await;
    in_each(&mut world, &all, async |world| {
        world.ready("web").await;
    })
    .await;
    assert!(new.shards().await.is_empty(), "{}", new.log_text());
    old.terminate();
    assert!(old.ended().await.success());
    until_shared(&[&new], &[4]).await;
    // And back, where the last word of the former is a Lease that runs out.
    world.environment(SHARDS, "1");
    let next = world.another(&lease).await;
    in_each(&mut world, &all, async |world| {
        world.apply(&stopped("web")).await;
    })
    .await;
    assert!(next.shards().await.is_empty(), "{}", next.log_text());
    let mut new = new;
    new.kill();
    until_shared(&[&next], &[1]).await;
    in_each(&mut world, &all, async |world| {
        world.ready("web").await;
    })
    .await;
    assert_eq!(world.sim.ledger().count("/instance/stop"), 4);
    assert_eq!(create_calls(&world.sim), 4, "{}", world.ledger_text());
    finish(world, &all).await;
}

/// Each of two operators sees whole what the other one acts on: no server is taken over by two, and none is nobody's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_another_shard_is_neither_taken_over_nor_unowned() {
    let setup = Setup::default().leases().imports().without_operator();
    let mut world = setup.begin("shards-import").await;
    world.environment(SHARDS, "2");
    let namespaces = world.settle(2, 1).await.concat();
    let lease = world.namespace.clone();
    let (first, second) = (world.another(&lease).await, world.another(&lease).await);
    until_shared(&[&first, &second], &[1, 1]).await;
    world.strangers(World::TOKEN, 1);
    let id = world.sim.live_servers()[0].id.clone();
    let importing = |name: &str, id: &str| with(name, |spec| spec["import"] = json!({"id": id}));
    let [one, other] = [&namespaces[0], &namespaces[1]];
    world.enter(one);
    world.apply(&importing("taken", &id)).await;
    world.ready("taken").await;
    world.apply(&instance("bought")).await;
    let bought = world.ready("bought").await;
    let bought = bought.status.unwrap().id.unwrap();
    world.enter(other);
    for (thief, id, owner) in [("a", &id, "taken"), ("b", &bought, "bought")] {
        world.apply(&importing(thief, id)).await;
        let web = world.until_reason(thief, "ImportConflict").await;
        let message = web.status.as_ref().unwrap().conditions[0].message.clone();
        assert!(
            message.contains(&format!("{one}/{owner}")),
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
    // Who has it lets go of it: then it is free.
    world.enter(one);
    let retained = |spec: &mut serde_json::Value| {
        spec["import"] = json!({"id": id});
        spec["deletionPolicy"] = json!("Retain");
    };
    world.apply(&with("taken", retained)).await;
    world.ready("taken").await;
    world.delete("taken").await;
    world.gone("taken").await;
    world.enter(other);
    let taken = world.ready("a").await;
    assert_eq!(reason(&taken), "Available");
    assert_eq!(world.sim.live_servers().len(), 2, "{}", world.ledger_text());
    finish(world, &namespaces).await;
}

/// What becomes of a replica.
#[derive(Clone, Copy, Debug)]
enum End {
    Killed,
    Terminated,
    /// For longer than its Leases last.
    StandsStill,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "replicas end for minutes: make torture"]
async fn replicas_that_end_or_stand_still_while_disks_are_erased_erase_each_once() {
    let (mut world, namespaces) = shared("shards-torture", 2).await;
    let (all, lease, web) = (
        namespaces.concat(),
        world.namespace.clone(),
        names("web", 3),
    );
    let mut operators = VecDeque::new();
    for _ in 0..3 {
        operators.push_back(world.another(&lease).await);
    }
    until_shared(&operators.iter().collect::<Vec<_>>(), &[1, 1, 2]).await;
    in_each(&mut world, &all, async |world| {
        world.apply_all(&web, instance).await;
    })
    .await;
    in_each(&mut world, &all, async |world| {
        world.all_ready(&web).await;
    })
    .await;
    let ends = [End::Killed, End::StandsStill, End::Terminated];
    for (round, end) in ends.into_iter().cycle().take(9).enumerate() {
        let (manifest, before) = ([other_image, instance][round % 2], reinstalls(&world));
        in_each(&mut world, &all, async |world| {
            world.apply_all(&web, manifest).await;
        })
        .await;
        // Some calls are made by now, and some are not.
        let wanted = before + 6 * (1 + round as u64 % 3);
        eventually("disks are being erased", async || {
            match reinstalls(&world) {
                n if n >= wanted => Ok(()),
                n => Err(format!("{n}")),
            }
        })
        .await;
        let mut victim = operators.pop_front().unwrap();
        match end {
            End::Killed => victim.kill(),
            End::Terminated => victim.terminate(),
            End::StandsStill => victim.pause(),
        }
        in_each(&mut world, &all, async |world| {
            world.until_all(&web, "are Ready", is_ready).await;
        })
        .await;
        if matches!(end, End::StandsStill) {
            victim.go_on();
        }
        if !matches!(end, End::Killed) {
            let status = victim.ended().await;
            assert_eq!(status.success(), matches!(end, End::Terminated), "{end:?}");
        }
        let erased = reinstalls(&world) - before;
        println!("{end:?}: {erased} disks erased");
        // A call of one that stood still may come when nobody expects it any more (reliability.md): it is known.
        let most = match end {
            End::StandsStill => 26,
            End::Killed | End::Terminated => 24,
        };
        assert!(
            (24..=most).contains(&erased),
            "{end:?}: {}",
            world.ledger_text()
        );
        operators.push_back(world.another(&lease).await);
        until_shared(&operators.iter().collect::<Vec<_>>(), &[1, 1, 2]).await;
    }
    assert_eq!(create_calls(&world.sim), 24, "{}", world.ledger_text());
    finish(world, &all).await;
}
