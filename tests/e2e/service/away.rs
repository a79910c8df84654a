//! A service that is unavailable, for long or repeatedly, during the work on a fleet; and the load when it returns.

use super::refusal;
use crate::support::{
    Setup, World, busiest, counts, eventually, instance, is_ready, names, other_image, posts,
    quiet_all, stays, stopped, token,
};
use cloud_server_operator::api::Verb;
use cloud_simulator::faults::{Act, Rule, When};
use kube::ResourceExt;
use std::time::{Duration, Instant};

/// The Account's own limit: calls per second, and at once after an idle period.
const LIMIT: u32 = 20;

/// Calls in a second that the limit allows after an idle period, plus one for the resolution of the ledger's clock.
const RUSH: usize = 2 * LIMIT as usize + 1;

fn lose() -> Act {
    Act::Lose {
        when: When::BeforeEffect,
    }
}

/// Buys, changes and deletes Instances of a fleet, each with calls in progress.
async fn at_work(world: &World, fleet: &[String], new: &[String]) {
    for (number, name) in fleet.iter().enumerate() {
        match number % 4 {
            0 => drop(world.apply(&other_image(name)).await),
            1 => drop(world.apply(&stopped(name)).await),
            2 => drop(world.apply(&token(name, "one")).await),
            _ => world.delete(name).await,
        }
    }
    world.apply_all(new, instance).await;
}

/// Asserts that all is as requested: one server for each, each verb done once.
async fn all_is_done(world: &World, fleet: &[String], new: &[String]) {
    let (mut stays, mut goes) = (new.to_vec(), Vec::new());
    for (number, name) in fleet.iter().enumerate() {
        match number % 4 {
            3 => goes.push(name.clone()),
            _ => stays.push(name.clone()),
        }
    }
    world.all_gone(&goes).await;
    done(world, &stays).await;
    world.all_ready(&stays).await;
    assert_eq!(
        world.sim.live_servers().len(),
        stays.len(),
        "{}",
        world.ledger_text()
    );
}

/// Waits until these have completed their requests.
async fn done(world: &World, names: &[String]) {
    world
        .until_all(names, "have completed their requests", |i| {
            let status = i.status.as_ref().unwrap();
            let did = |verb| status.history.iter().any(|e| e.succeeded && e.verb == verb);
            is_ready(i) && did(verb_for(&i.name_any()))
        })
        .await;
}

fn number_of(name: &str) -> usize {
    name.rsplit('-').next().unwrap().parse().unwrap()
}

/// The verb that was requested last.
fn verb_for(name: &str) -> Verb {
    match (name.starts_with("new"), number_of(name) % 4) {
        (true, _) => Verb::Create,
        (_, 0) => Verb::Reinstall,
        (_, 1) => Verb::Stop,
        _ => Verb::Restart,
    }
}

/// Asserts that no operation was done twice that must not be.
fn nothing_is_done_twice(world: &World, each: usize) {
    for verb in [Verb::Reinstall, Verb::Stop, Verb::Release] {
        assert_eq!(
            counts(world, verb, None).1,
            each,
            "{verb}: {}",
            world.ledger_text()
        );
    }
}

/// Three calls in ten fail, each time in another way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_fails_now_and_then_gets_all_work_done() {
    let world = Setup::default().begin("brown-out").await;
    let (fleet, new) = (names("web", 12), names("new", 6));
    world.apply_all(&fleet, instance).await;
    world.all_ready(&fleet).await;
    for act in [
        refusal(500, "InternalError.Unknown"),
        refusal(503, "Gateway.Unavailable"),
        lose(),
    ] {
        world.sim.fault(Rule::on("/*", act).probability(0.11));
    }
    let begun = Instant::now();
    let seq = world.sim.ledger().last_seq();
    at_work(&world, &fleet, &new).await;
    // Each failed read costs twenty seconds, so only most succeed meanwhile.
    eventually("most purchases and releases come through", async || {
        let all = world.all().await;
        let bought = new.iter().filter(|name| is_ready(&all[*name])).count();
        let left = fleet.iter().filter(|name| all.contains_key(*name)).count();
        let calls = world.calls_since(seq).len();
        match bought * 2 >= new.len() && left <= fleet.len() - 2 && calls >= 100 {
            true => Ok(()),
            false => Err(format!("{bought} bought, {left} left, {calls} calls")),
        }
    })
    .await;
    let calls = world.calls_since(seq);
    let failed = calls.iter().filter(|call| !call.faults.is_empty()).count();
    println!(
        "BROWN-OUT: done in {:?}; {failed} of {} calls failed",
        begun.elapsed(),
        calls.len()
    );
    assert!(failed * 6 >= calls.len(), "{failed} of {}", calls.len());
    world.sim.faults().clear();
    all_is_done(&world, &fleet, &new).await;
    quiet_all(&world).await;
    nothing_is_done_twice(&world, fleet.len() / 4);
    world.finish().await;
}

/// An outage of an hour would be no different: pauses stop growing after twenty seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the service is away for a minute and a half"]
async fn after_an_outage_a_fleet_at_work_does_not_storm_the_service() {
    let world = Setup::default().tasks(2_000).begin("outage-long").await;
    world.limit("default", LIMIT, LIMIT, 8).await;
    let (fleet, new) = (names("web", 40), names("new", 20));
    world.apply_all(&fleet, instance).await;
    world.all_ready(&fleet).await;
    at_work(&world, &fleet, &new).await;
    eventually("a part is at the service", async || {
        match posts(&world, 0).len() - fleet.len() {
            8.. => Ok(()),
            n => Err(format!("{n}")),
        }
    })
    .await;
    let mut seq = world.sim.ledger().last_seq();
    let written = world.all_writes().await.len();
    for act in [lose(), refusal(503, "Gateway.Unavailable")] {
        let rule = world.sim.fault(Rule::on("/*", act));
        let bought = world.sim.servers().len();
        // Twice the longest pause.
        stays(
            "nothing gets through",
            Duration::from_secs(45),
            async || match world.sim.servers().len() == bought {
                true => Ok(()),
                false => Err(world.ledger_text()),
            },
        )
        .await;
        world.sim.faults().remove(rule);
    }
    let away = world.calls_since(seq);
    let writes = world.all_writes().await.len() - written;
    println!(
        "OUTAGE: {} calls in 90 s, busiest second {}; {writes} writes",
        away.len(),
        busiest(&away, 1_000)
    );
    assert!(busiest(&away, 1_000) <= RUSH, "{}", busiest(&away, 1_000));
    seq = world.sim.ledger().last_seq();
    let back = Instant::now();
    eventually("the first call after it succeeds", async || {
        match world
            .calls_since(seq)
            .iter()
            .any(|call| call.status.is_some_and(|status| status < 300))
        {
            true => Ok(()),
            false => Err("none".to_owned()),
        }
    })
    .await;
    let first = back.elapsed();
    all_is_done(&world, &fleet, &new).await;
    let after = world.calls_since(seq);
    println!(
        "OUTAGE: first success {first:?}, all well {:?} after it; {} calls, busiest second {}",
        back.elapsed(),
        after.len(),
        busiest(&after, 1_000)
    );
    assert!(busiest(&after, 1_000) <= RUSH, "{}", busiest(&after, 1_000));
    quiet_all(&world).await;
    nothing_is_done_twice(&world, fleet.len() / 4);
    world.finish().await;
}
