//! A fleet that is bought and comes to rest.

use crate::support::{Setup, World, eventually, instance};
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use std::time::Duration;

/// Objects that are applied at the same time.
const APPLIED_AT_ONCE: usize = 16;
/// How the line of a metric begins that counts Instances.
const INSTANCES: &str = "cloud_server_operator_instances{";

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

fn ready(metrics: &str) -> usize {
    let of_ready = metrics
        .lines()
        .filter(|line| line.starts_with(INSTANCES) && line.contains("state=\"ready\""));
    of_ready
        .filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok())
        .sum()
}
