//! A fleet that is bought and comes to rest.

use super::{Setup, World, eventually, instance, once, quiet_all};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Objects that are applied at the same time.
const APPLIED_AT_ONCE: usize = 16;
/// How the line of a metric begins that counts Instances.
const INSTANCES: &str = "cloud_server_operator_instances{";
/// How the lines of metrics begin that count reconciles: those that ended, and those that run or wait.
const RECONCILED: &str = "controller_runtime_reconcile_total{";
const BUSY: [&str; 2] = ["controller_runtime_active_workers{", "workqueue_depth{"];
/// The line of a metric.
const ALLOCATED: &str = "cloud_server_operator_allocated_bytes ";
/// Watches, a probe, and what a call now and then opens.
const SOCKETS_AT_REST: usize = 16;
const OF_INSTANCES: &str = "controller=\"instance\"";

/// The executable that is measured: the one that OPERATOR names, which is a release build, else the tests' own.
pub fn setup() -> Setup {
    let setup = Setup::default();
    match std::env::var("OPERATOR") {
        Ok(executable) => setup.executable(&executable),
        Err(_) => setup,
    }
}

/// An Instance with a Secret of its own.
pub fn with_login(name: &str) -> Value {
    let mut manifest = instance(name);
    manifest["spec"]["login"]["passwordSecretRef"]["name"] = json!(login(name));
    manifest
}

fn login(name: &str) -> String {
    format!("{name}-login")
}

/// Buys these, each with a Secret of its own, and waits until all of them are Ready.
pub async fn buy(world: &mut World, names: &[String]) {
    let applied = stream::iter(names);
    let world_read = &*world;
    applied
        .for_each_concurrent(APPLIED_AT_ONCE, async |name| {
            world_read
                .secret(&login(name), "password", World::PASSWORD)
                .await;
            world_read.apply(&with_login(name)).await;
        })
        .await;
    all_ready(world, names.len()).await;
}

/// Waits until so many Instances are Ready: the operator counts them, so that no list of thousands is read again and again.
pub async fn all_ready(world: &mut World, count: usize) {
    let operator = world.operator();
    let what = format!("{count} Instances are Ready");
    let mut last = 0;
    loop {
        // A fleet may take longer than any one wait: as long as it goes on, it is waited for.
        let ready = eventually(&what, async || {
            let (_, text) = operator.metrics().await;
            let ready = ready(&text);
            match ready > last || ready >= count {
                true => Ok(ready),
                false => Err(format!("{ready} are")),
            }
        })
        .await;
        if ready >= count {
            return;
        }
        last = ready;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Whether it is the naive controller that is measured, which counts no reconciles and keeps no history.
pub fn is_naive() -> bool {
    std::env::var("WHO").is_ok_and(|who| who == "naive")
}

/// The Account allows so many requests a second from here on. The naive controller knows of no limits, and tells nothing of Accounts.
pub async fn allow(world: &World, per_second: u32) {
    world.limit("default", per_second, per_second, 50).await;
    if !is_naive() {
        world.account_is_ready("default").await;
    }
}

/// Waits until each Instance was reconciled since the process began, and no reconcile runs or waits for a worker.
pub async fn reconciled(world: &mut World, count: usize) {
    let operator = world.operator();
    eventually("each Instance was reconciled, and none is", async || {
        let (_, text) = operator.metrics().await;
        let busy = sum(&text, |line| {
            BUSY.iter().any(|name| line.starts_with(name)) && line.contains(OF_INSTANCES)
        });
        let done = sum(&text, |line| {
            line.starts_with(RECONCILED) && line.contains(OF_INSTANCES)
        });
        match busy == 0 && (done >= count || is_naive()) {
            true => Ok(()),
            false => Err(format!("{done} reconciles ended, {busy} run or wait")),
        }
    })
    .await;
}

/// Writes, and calls by path, since.
pub async fn spent(world: &World, at: Timestamp, seq: u64) -> (usize, BTreeMap<String, usize>) {
    let writes = once(world.writes_since(at).await).len();
    let mut calls = BTreeMap::new();
    for call in world.calls_since(seq) {
        *calls.entry(call.path).or_default() += 1;
    }
    (writes, calls)
}

/// Calls of all paths.
pub fn total(calls: &BTreeMap<String, usize>) -> usize {
    calls.values().sum()
}

/// Waits until the fleet is Ready, each Instance was reconciled since the process began, no reconcile runs or waits for a worker,
/// nothing was called or written for a while that changes anything, and the connections of the rush are closed. The naive controller
/// asks for each server all the time, so that its connections stay.
pub async fn at_rest(world: &mut World, count: usize) {
    all_ready(world, count).await;
    reconciled(world, count).await;
    quiet_all(world).await;
    if !is_naive() {
        idle(world.operator().id()).await;
    }
}

/// Waits until the connections of a rush are closed.
pub async fn idle(process: u32) {
    eventually("idle connections are closed", async || {
        match sockets(process) {
            0..=SOCKETS_AT_REST => Ok(()),
            open => Err(format!("{open} sockets are open")),
        }
    })
    .await;
}

fn sockets(process: u32) -> usize {
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let open = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    open.filter(|target| target.to_string_lossy().starts_with("socket:"))
        .count()
}

/// How many Instances are Ready, as the metrics of an operator tell.
pub fn ready(metrics: &str) -> usize {
    sum(metrics, |line| {
        line.starts_with(INSTANCES) && line.contains("state=\"ready\"")
    })
}

/// What an operator has of its allocator, by its metrics.
pub fn allocated(metrics: &str) -> usize {
    sum(metrics, |line| line.starts_with(ALLOCATED))
}

fn sum(metrics: &str, counts: impl Fn(&str) -> bool) -> usize {
    let counted = metrics.lines().filter(|line| counts(line));
    counted
        .filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok())
        .sum()
}
