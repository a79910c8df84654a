//! Buys a fleet and waits until it is idle.

use super::{Setup, World, eventually, instance, once, quiet_all};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The number of objects that are applied at the same time.
const APPLIED_AT_ONCE: usize = 16;
/// Beginning of the lines of the metric that counts Instances.
const INSTANCES: &str = "cloud_server_operator_instances{";
/// Beginnings of the lines of metrics that count reconciles: finished ones, and those that run or wait.
const RECONCILED: &str = "controller_runtime_reconcile_total{";
const BUSY: [&str; 2] = ["controller_runtime_active_workers{", "workqueue_depth{"];
const ALLOCATED: &str = "cloud_server_operator_allocated_bytes ";
/// Watches, a probe, and occasional calls.
const SOCKETS_AT_REST: usize = 16;
const OF_INSTANCES: &str = "controller=\"instance\"";

/// The executable to measure: the one in the variable OPERATOR, which is a release build, otherwise the tests' own.
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

/// Buys a server for each of these Instances, each with a Secret of its own, and waits until all of them are Ready.
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

/// Waits until this many Instances are Ready. The operator's metrics count them, so that no list of thousands is read
/// repeatedly.
pub async fn all_ready(world: &mut World, count: usize) {
    let operator = world.operator();
    let what = format!("{count} Instances are Ready");
    let mut last = 0;
    loop {
        // A fleet may take longer than any single wait: the wait is repeated while the count grows.
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

/// Whether the naive controller is measured, which counts no reconciles and keeps no history.
pub fn is_naive() -> bool {
    std::env::var("WHO").is_ok_and(|who| who == "naive")
}

/// From here on the Account allows this many requests per second. The naive controller knows no limits, and reports nothing
/// about Accounts.
pub async fn allow(world: &World, per_second: u32) {
    world.limit("default", per_second, per_second, 50).await;
    if !is_naive() {
        world.account_is_ready("default").await;
    }
}

/// Waits until each Instance has been reconciled since the process started, and no reconcile runs or waits for a worker.
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

/// Returns the number of writes since `at`, and the calls since `seq` by path.
pub async fn spent(world: &World, at: Timestamp, seq: u64) -> (usize, BTreeMap<String, usize>) {
    let writes = once(world.writes_since(at).await).len();
    let mut calls = BTreeMap::new();
    for call in world.calls_since(seq) {
        *calls.entry(call.path).or_default() += 1;
    }
    (writes, calls)
}

/// The number of calls of all paths.
pub fn total(calls: &BTreeMap<String, usize>) -> usize {
    calls.values().sum()
}

/// Waits until the fleet is Ready, each Instance has been reconciled since the process started, no reconcile runs or waits for
/// a worker, no call or write has changed anything for a while, and the connections of the busy time are closed. The naive
/// controller polls each server all the time, so its connections stay open.
pub async fn until_idle(world: &mut World, count: usize) {
    all_ready(world, count).await;
    reconciled(world, count).await;
    quiet_all(world).await;
    if !is_naive() {
        idle(world.operator().id()).await;
    }
}

/// Waits until the connections of a busy time are closed.
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

/// How many Instances are Ready, according to the metrics of an operator.
pub fn ready(metrics: &str) -> usize {
    sum(metrics, |line| {
        line.starts_with(INSTANCES) && line.contains("state=\"ready\"")
    })
}

/// Bytes that an operator has allocated, according to its metrics.
pub fn allocated(metrics: &str) -> usize {
    sum(metrics, |line| line.starts_with(ALLOCATED))
}

fn sum(metrics: &str, counts: impl Fn(&str) -> bool) -> usize {
    let counted = metrics.lines().filter(|line| counts(line));
    counted
        .filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok())
        .sum()
}
