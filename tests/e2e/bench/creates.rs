//! How long it takes to buy a fleet that is applied at once, compared with the minimum that its calls take at the Account's
//! limit, and its costs.

use super::memory::sizes;
use super::print_figures;
use crate::support::bought::{allow, buy, setup, spent, total};
use crate::support::names;
use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

/// Requests per second that the Account allows; PER_SECOND overrides the list.
const RATES: [u32; 4] = [10, 50, 100, 400];
/// A fleet is not bought at a rate at which its calls alone would take longer than this.
const LONGEST_SECONDS: usize = 100;
/// The create, a poll of its task, and a read of its server.
const CALLS_EACH: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "buys thousands of servers: make bench"]
async fn creates_of_a_fleet() {
    for count in sizes() {
        let (only, task) = (named("PER_SECOND"), named("TASK_SECONDS").unwrap_or(1));
        for rate in only.map_or(RATES.to_vec(), |rate| vec![rate]) {
            if only.is_none() && count * CALLS_EACH > LONGEST_SECONDS * rate as usize {
                continue;
            }
            let mut world = setup()
                .tasks(u64::from(task) * 1_000)
                .begin("creates")
                .await;
            allow(&world, rate).await;
            let begun = Instant::now();
            buy(&mut world, &names("web", count)).await;
            let seconds = begun.elapsed().as_secs_f64();
            let (writes, calls) = spent(&world, Timestamp::UNIX_EPOCH, 0).await;
            print_figures(&json!({
                "scenario": "creates", "instances": count, "per_second": rate, "task_seconds": task, "seconds": seconds,
                "ideal_seconds": (count * CALLS_EACH) as f64 / f64::from(rate), "writes": writes, "calls": total(&calls),
                "calls_by_path": calls,
            }));
            world.kill();
            world.finish().await;
        }
    }
}

/// A number from the environment.
fn named(variable: &str) -> Option<u32> {
    let named = std::env::var(variable).ok()?;
    Some(named.parse().unwrap())
}
