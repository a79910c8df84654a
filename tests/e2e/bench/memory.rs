//! The memory of an idle fleet: steady, after relists, after a restart.

use super::print_figures;
use crate::host::cgroup::Cgroup;
use crate::host::memory::figure;
use crate::support::bought::{allocated, buy, is_naive, setup, until_idle};
use crate::support::wire::{Blow, Kind};
use crate::support::{World, eventually, names};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// The operator's memory limit, as in `deploy/operator/deployment.yaml`, if this machine can enforce it.
const LIMIT: u64 = 128 << 20;
/// How often all objects are listed again.
const RELISTS: usize = 5;
/// Memory must be stable for this long before it is measured.
const STILL: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "buys thousands of servers: make bench"]
async fn memory_of_an_idle_fleet() {
    for count in sizes() {
        let group = if is_naive() {
            None
        } else {
            Cgroup::if_possible("memory")
        };
        let around = group.as_ref().map(|group| {
            group.limit_memory(LIMIT);
            group.around(false)
        });
        let line: Vec<&str> = around.iter().flatten().map(String::as_str).collect();
        let mut world = setup().wire().around(&line).begin("memory").await;
        buy(&mut world, &names("web", count)).await;
        until_idle(&mut world, count).await;
        weigh(&mut world, group.as_ref(), count, "steady").await;
        for _ in 0..RELISTS {
            relist(&world).await;
        }
        until_idle(&mut world, count).await;
        weigh(&mut world, group.as_ref(), count, "after five relists").await;
        world.restart().await;
        until_idle(&mut world, count).await;
        weigh(&mut world, group.as_ref(), count, "after a restart").await;
        world.kill();
        world.finish().await;
    }
}

/// Sizes of the fleets, from INSTANCES, or else small ones.
pub fn sizes() -> Vec<usize> {
    let named = std::env::var("INSTANCES").unwrap_or_else(|_| "200,1000".to_owned());
    let sizes = named.split(',');
    sizes.map(|size| size.trim().parse().unwrap()).collect()
}

/// Breaks the watch of Instances, so that all of them are listed again.
async fn relist(world: &World) {
    let begun = Instant::now();
    world.wire().blow("instances", Blow::Gone);
    eventually("the Instances are listed again", async || {
        match world.wire().count(begun, Kind::Watch, "instances") {
            0 => Err("no watch has begun since".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
}

/// Waits until the process has neither allocated nor freed memory for some seconds: the memory of a connection is freed a
/// moment after its end.
async fn until_stable(process: u32) {
    let mut since = (figure(process, "RssAnon:"), Instant::now());
    eventually("its memory is stable", async || {
        let now = figure(process, "RssAnon:");
        if now != since.0 {
            since = (now, Instant::now());
        }
        match since.1.elapsed() >= STILL {
            true => Ok(()),
            false => Err(format!("{now} bytes")),
        }
    })
    .await;
}

async fn weigh(world: &mut World, group: Option<&Cgroup>, count: usize, when: &str) {
    let (_, metrics) = world.operator().metrics().await;
    let process = world.operator().id();
    if !is_naive() {
        until_stable(process).await;
    }
    let [resident, anonymous, most] =
        ["VmRSS:", "RssAnon:", "VmHWM:"].map(|name| figure(process, name));
    let mut figures = json!({
        "scenario": "memory", "instances": count, "when": when, "resident_bytes": resident,
        "anonymous_bytes": anonymous, "most_resident_bytes": most,
    });
    if !is_naive() {
        figures["allocated_bytes"] = json!(allocated(&metrics));
        // Including the page cache and kernel memory, and over all processes of the group so far.
        figures["most_counted_bytes"] = json!(group.map(Cgroup::most_memory));
    }
    print_figures(&figures);
}
