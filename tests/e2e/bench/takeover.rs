//! How soon another process acts after the active one has ended, in a fleet.

use super::memory::sizes;
use super::print_figures;
use crate::support::bought::{allow, buy, reconciled, setup, spent, total, until_idle};
use crate::support::{World, names};
use jiff::Timestamp;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

const RATE: u32 = 100;

/// How the active process ends.
#[derive(Clone, Copy)]
enum End {
    /// It is killed: its Lease expires.
    Killed,
    /// It gets a signal: it releases its Lease.
    Terminated,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "buys thousands of servers: make bench"]
async fn a_standby_takes_over_a_fleet() {
    for count in sizes() {
        for end in [End::Killed, End::Terminated] {
            let mut world = setup().tasks(1_000).long_leases().begin("takeover").await;
            allow(&world, RATE).await;
            buy(&mut world, &names("web", count)).await;
            world.start_standby().await;
            until_idle(&mut world, count).await;
            take_over(&mut world, count, end).await;
            world.kill();
            world.finish().await;
        }
    }
}

async fn take_over(world: &mut World, count: usize, end: End) {
    let standby = world.standby().name();
    let (at, seq) = (Timestamp::now(), world.sim.ledger().last_seq());
    let begun = Instant::now();
    let when = match end {
        End::Killed => {
            world.kill();
            "killed"
        }
        End::Terminated => {
            world.operator().terminate();
            "terminated"
        }
    };
    world.until_holder(&standby).await;
    let taken = begun.elapsed();
    drop(world.promote());
    reconciled(world, count).await;
    let seconds = begun.elapsed();
    until_idle(world, count).await;
    let (writes, calls) = spent(world, at, seq).await;
    let seconds_of = |duration: Duration| duration.as_secs_f64();
    print_figures(&json!({
        "scenario": "take-over", "instances": count, "when": when, "lease_taken_seconds": seconds_of(taken),
        "all_reconciled_after_that_seconds": seconds_of(seconds.saturating_sub(taken)), "writes": writes, "calls": total(&calls),
    }));
}
