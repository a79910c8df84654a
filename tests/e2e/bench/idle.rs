//! The costs of an idle fleet: a quiet minute, a restart, and how soon an external change is reported.

use super::memory::sizes;
use super::print_figures;
use crate::support::bought::{allow, buy, is_naive, reconciled, setup, spent, total, until_idle};
use crate::support::{World, console, names};
use cloud_simulator::catalogue;
use cloud_simulator::model::Console;
use jiff::Timestamp;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// Requests per second that the Account allows.
const RATE: u32 = 100;
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "buys thousands of servers: make bench"]
async fn an_idle_fleet() {
    for count in sizes() {
        let mut world = setup().tasks(1_000).begin("rest").await;
        allow(&world, RATE).await;
        buy(&mut world, &names("web", count)).await;
        until_idle(&mut world, count).await;
        minute(&mut world, count).await;
        start(&mut world, count).await;
        if !is_naive() {
            drift(&world, count).await;
        }
        world.kill();
        world.finish().await;
    }
}

async fn minute(world: &mut World, count: usize) {
    let (at, seq) = (Timestamp::now(), world.sim.ledger().last_seq());
    let process = world.operator().id();
    let before = processor_seconds(process);
    tokio::time::sleep(MINUTE).await;
    let processor = processor_seconds(process) - before;
    let (writes, calls) = spent(world, at, seq).await;
    print_figures(&json!({
        "scenario": "quiet minute", "instances": count, "writes": writes, "calls": total(&calls), "calls_by_path": calls,
        "processor_seconds": processor,
    }));
}

/// A restart, until each Instance was reconciled once.
async fn start(world: &mut World, count: usize) {
    let (at, seq) = (Timestamp::now(), world.sim.ledger().last_seq());
    let begun = Instant::now();
    world.restart().await;
    let ready = begun.elapsed().as_secs_f64();
    reconciled(world, count).await;
    let seconds = begun.elapsed().as_secs_f64();
    until_idle(world, count).await;
    let (writes, calls) = spent(world, at, seq).await;
    let mut figures = json!({
        "scenario": "start", "instances": count, "caches_ready_seconds": ready, "writes": writes,
        "calls": total(&calls), "processor_seconds": processor_seconds(world.operator().id()),
    });
    // The naive controller does not report how many Instances it reconciled.
    if !is_naive() {
        figures["all_reconciled_seconds"] = json!(seconds);
    }
    print_figures(&figures);
}

/// A server gets another image at the console than its spec names. Measures how soon its Instance shows that.
async fn drift(world: &World, count: usize) {
    let (name, image) = ("web-0", catalogue::example().other_image.to_owned());
    let server = world.only_server(&world.get(name).await);
    let (begun, seq) = (Instant::now(), world.sim.ledger().last_seq());
    console(
        world,
        Console::Rebuild {
            server: server.id,
            image,
        },
    );
    world.until_reason(name, "ImageDiffers").await;
    let seconds = begun.elapsed().as_secs_f64();
    let (_, calls) = spent(world, Timestamp::now(), seq).await;
    print_figures(&json!({
        "scenario": "drift", "instances": count, "reported_after_seconds": seconds, "calls": total(&calls),
    }));
}

/// The processor time that a process has used.
pub fn processor_seconds(process: u32) -> f64 {
    let process = procfs::process::Process::new(process.cast_signed()).unwrap();
    let used = process.stat().unwrap();
    (used.utime + used.stime) as f64 / procfs::ticks_per_second() as f64
}
