//! How soon an edit in a fleet is acted on and reported, its costs, and how long an edit waits behind a backlog.
//!
//! The service's tasks always take the same time, so that from the second task on the operator knows when to poll. For tasks of
//! other lengths see `done.rs`.

use super::memory::sizes;
use super::print_figures;
use crate::support::bought::{buy, setup, until_idle, with_login};
use crate::support::{Follower, Mark, World, counts, done, eventually, mark, names, path_of};
use cloud_server_operator::api::Verb;
use cloud_simulator::model::Effect;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Stops and starts of one server, alternating and equally many, so that it runs at the end.
const EDITS: usize = 20;
/// Instances that are applied at once, at this many requests per second: minutes of work.
const BACKLOG: usize = 500;
const SLOWLY: u32 = 5;
/// The edited Instance.
const EDITED: &str = "web-0";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "buys thousands of servers: make bench"]
async fn edits_in_a_fleet() {
    for count in sizes() {
        let mut world = setup().tasks(2_000).begin("edits").await;
        world.limit("default", 100, 100, 50).await;
        buy(&mut world, &names("web", count)).await;
        until_idle(&mut world, count).await;
        one_after_another(&mut world, count).await;
        behind_a_backlog(&world, count).await;
        world.kill();
        world.finish().await;
    }
}

async fn one_after_another(world: &mut World, count: usize) {
    let first = mark(world, EDITED).await;
    let follower = Follower::of(world, EDITED).await;
    let (mut acted, mut shown) = (Vec::new(), Vec::new());
    for turn in 0..EDITS {
        let verb = [Verb::Stop, Verb::Start][turn % 2];
        let since = mark(world, EDITED).await;
        let applied = world.apply(&powered(EDITED, verb)).await;
        done(world, EDITED, &since, &[verb]).await;
        let generation = applied.metadata.generation.unwrap();
        let ready = follower.done(world, &since, generation).await;
        let call = called(world, &since, verb).unwrap();
        acted.push(call.duration_since(since.at));
        shown.push(ready.duration_since(ended(world, &since)));
    }
    // Calls after the completion of the last edit count as well.
    until_idle(world, count).await;
    let mut calls: BTreeMap<String, usize> = BTreeMap::new();
    for call in world.calls_since(first.seq) {
        *calls.entry(call.path).or_default() += 1;
    }
    let all: usize = calls.values().sum();
    let each = all as f64 / EDITS as f64;
    print_figures(&json!({
        "scenario": "edits", "instances": count,
        "edit_to_call_ms_p50": rank(&mut acted, 50), "edit_to_call_ms_max": rank(&mut acted, 100),
        "done_to_ready_ms_p50": rank(&mut shown, 50), "done_to_ready_ms_max": rank(&mut shown, 100),
        "calls_each": each, "calls_by_path": calls,
    }));
}

/// An edit right after so many Instances were applied that their calls take minutes.
async fn behind_a_backlog(world: &World, count: usize) {
    world.limit("default", SLOWLY, SLOWLY, 50).await;
    world.account_is_ready("default").await;
    for name in names("more", BACKLOG) {
        // With the Secret of another Instance, since the benchmark measures the queue.
        let mut manifest = with_login(&name);
        manifest["spec"]["login"] = with_login(EDITED)["spec"]["login"].clone();
        world.apply(&manifest).await;
    }
    let since = mark(world, EDITED).await;
    let (created, _) = counts(world, Verb::Create, None);
    world.apply(&powered(EDITED, Verb::Stop)).await;
    let called = eventually("it is stopped", async || {
        called(world, &since, Verb::Stop).ok_or_else(|| "not called yet".to_owned())
    })
    .await;
    print_figures(&json!({
        "scenario": "backlog", "instances": count, "per_second": SLOWLY, "backlog": BACKLOG,
        "not_created_yet": (count + BACKLOG).saturating_sub(created),
        "edit_to_call_ms": millis(&called.duration_since(since.at)),
    }));
}

pub fn powered(name: &str, verb: Verb) -> Value {
    let mut manifest = with_login(name);
    let desired = match verb {
        Verb::Stop => "Stopped",
        _ => "Running",
    };
    manifest["spec"]["powerState"] = json!(desired);
    manifest
}

/// When the service got the call.
fn called(world: &World, since: &Mark, verb: Verb) -> Option<Timestamp> {
    let calls = world.calls_since(since.seq).into_iter();
    let mut calls = calls.filter(|call| call.path == path_of(verb));
    calls.next().map(|call| moment(call.at.as_millis()))
}

/// When its task ended.
fn ended(world: &World, since: &Mark) -> Timestamp {
    let ledger = world.sim.ledger();
    let entries = ledger.since(since.seq).into_iter();
    let mut ends = entries.filter(|entry| {
        matches!(
            entry.effect,
            Effect::Started { .. } | Effect::Stopped { .. }
        )
    });
    moment(ends.next().map(|entry| entry.at.as_millis()).unwrap())
}

fn moment(millis: u64) -> Timestamp {
    Timestamp::from_millisecond(i64::try_from(millis).unwrap()).unwrap()
}

/// The percentile of the figures, in milliseconds.
fn rank(figures: &mut [SignedDuration], of_hundred: usize) -> i64 {
    figures.sort();
    let last = (figures.len() * of_hundred).div_ceil(100).max(1) - 1;
    millis(&figures[last])
}

fn millis(duration: &SignedDuration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap()
}
