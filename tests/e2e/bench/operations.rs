//! The calls of operations, by number of servers in the zone and number of concurrent operations.

use super::edits::powered;
use super::print_figures;
use crate::support::bought::{all_ready, allow, buy, setup, spent, total, until_idle};
use crate::support::{World, counts, eventually, names, quiet_all};
use cloud_server_operator::api::Verb;
use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

/// Servers of the zone, most of them unowned.
const SERVERS: [usize; 3] = [1, 1_000, 5_000];
/// Operations that are requested at once.
const OPEN: [usize; 3] = [1, 10, 500];
/// Instances, if there are as many servers.
const OWN: usize = 500;
const RATE: u32 = 100;
/// Longer than the first poll takes, so that the benchmark covers polls of an open operation.
const TASK_MILLIS: u64 = 8_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "buys hundreds of servers: make bench"]
async fn operations_among_servers() {
    for servers in SERVERS {
        let mut world = setup().tasks(TASK_MILLIS).begin("operations").await;
        allow(&world, RATE).await;
        let own = servers.min(OWN);
        world.add_unowned_servers(World::TOKEN, servers - own);
        buy(&mut world, &names("web", own)).await;
        until_idle(&mut world, own).await;
        for open in OPEN.into_iter().filter(|open| *open <= own) {
            for verb in [Verb::Stop, Verb::Start] {
                at_once(&mut world, verb, (servers, own, open)).await;
            }
        }
        world.kill();
        world.finish().await;
    }
}

async fn at_once(world: &mut World, verb: Verb, (servers, own, open): (usize, usize, usize)) {
    let seq = world.sim.ledger().last_seq();
    let (_, before) = counts(world, verb, None);
    let begun = Instant::now();
    world
        .apply_all(&names("web", open), |name| powered(name, verb))
        .await;
    eventually("all are carried out", async || {
        match counts(world, verb, None).1 - before {
            done if done == open => Ok(()),
            done => Err(format!("{done} of {open}")),
        }
    })
    .await;
    all_ready(world, own).await;
    let seconds = begun.elapsed().as_secs_f64();
    quiet_all(world).await;
    let (_, calls) = spent(world, Timestamp::now(), seq).await;
    print_figures(&json!({
        "scenario": "operations", "servers": servers, "open": open, "verb": verb, "seconds": seconds,
        "calls_each": total(&calls) as f64 / open as f64, "calls_by_path": calls,
    }));
}
