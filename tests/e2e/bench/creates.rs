//! How long a fleet takes that is applied at once, against what its calls alone take at the Account's limit, and what it costs;
//! then what a quiet minute and a restart cost.

use super::fleet::{all_ready, buy, setup};
use super::memory::sizes;
use super::tell;
use crate::support::{World, names, once, quiet_all};
use jiff::Timestamp;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Requests a second that the Account allows.
const RATES: [u32; 2] = [50, 100];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "buys thousands of servers: make bench"]
async fn creates_of_a_fleet() {
    for count in sizes() {
        for rate in RATES {
            let mut world = setup().tasks(1_000).begin("creates").await;
            world.limit("default", rate, rate, 50).await;
            let begun = Instant::now();
            buy(&mut world, &names("web", count)).await;
            let seconds = begun.elapsed().as_secs_f64();
            let (writes, calls) = spent(&world, Timestamp::UNIX_EPOCH, 0).await;
            let all: usize = calls.values().sum();
            tell(&json!({
                "scenario": "creates", "instances": count, "per_second": rate, "seconds": seconds,
                "ideal_seconds": all as f64 / f64::from(rate), "writes": writes, "calls": all, "calls_by_path": calls,
            }));
            quiet_all(&world).await;
            minute(&mut world, count, rate).await;
            world.kill();
            world.finish().await;
        }
    }
}

/// A minute in which nobody does anything, and a restart.
async fn minute(world: &mut World, count: usize, rate: u32) {
    let (at, seq) = (Timestamp::now(), world.sim.ledger().last_seq());
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (writes, calls) = spent(world, at, seq).await;
    tell(&json!({
        "scenario": "quiet minute", "instances": count, "per_second": rate, "writes": writes,
        "calls": calls.values().sum::<usize>(),
    }));
    let (at, seq) = (Timestamp::now(), world.sim.ledger().last_seq());
    let begun = Instant::now();
    world.restart().await;
    all_ready(world, count).await;
    let seconds = begun.elapsed().as_secs_f64();
    quiet_all(world).await;
    let (writes, calls) = spent(world, at, seq).await;
    tell(&json!({
        "scenario": "restart", "instances": count, "per_second": rate, "seconds": seconds, "writes": writes,
        "calls": calls.values().sum::<usize>(),
    }));
}

/// Writes, and calls by path, since.
async fn spent(world: &World, at: Timestamp, seq: u64) -> (usize, BTreeMap<String, usize>) {
    let writes = once(world.writes_since(at).await).len();
    let mut calls = BTreeMap::new();
    for call in world.calls_since(seq) {
        *calls.entry(call.path).or_default() += 1;
    }
    (writes, calls)
}
