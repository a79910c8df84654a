//! A definite refusal is remembered across a restart: no Instance waits for a server that was never bought.

use super::until_reported;
use crate::support::{
    Setup, World, create_calls, eventually, instance, path_of, reason, three, with,
};
use cloud_server_operator::api::Verb;
use cloud_simulator::Readings;
use futures::StreamExt;
use kube::ResourceExt;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Instant;
use tokio::task::JoinHandle;

/// Watches an Instance, and fails if it ever has this reason.
fn assert_never_reported(world: &World, name: &str, never: &'static str) -> JoinHandle<()> {
    let (api, name) = (world.instances(), name.to_owned());
    tokio::spawn(async move {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let stream = watcher(api, config).default_backoff();
        let mut versions = pin!(stream.applied_objects());
        while let Some(object) = versions.next().await {
            let Ok(object) = object else { continue };
            let is_it = object.name_any() == name && reason(&object) == never;
            assert!(!is_it, "{name} reports {never}");
        }
    })
}

/// With a settling time of an hour, which an Instance would wait if the refusal were mistaken for a lost answer.
pub async fn is_remembered(world: &mut World) {
    world
        .change_account("default", json!({"settleSeconds": 3600}))
        .await;
    let (bought, mut watchers) = (world.sim.servers().len(), Vec::new());
    let wrong = |name: &str, field: &str, value: Value| with(name, |spec| spec[field] = value);
    let zone = || json!("ru-nowhere-1-a");
    let package = || json!({"code": "no-such-package"});
    let refused = [
        wrong("zone-fixed", "zone", zone()),
        wrong("zone-deleted", "zone", zone()),
        wrong("package-fixed", "package", package()),
        wrong("package-deleted", "package", package()),
    ];
    for manifest in &refused {
        let name = manifest["metadata"]["name"].as_str().unwrap();
        watchers.push(assert_never_reported(world, name, "CreateUnconfirmed"));
        world.apply(manifest).await;
        let (kinds, _) = until_reported(world, name, "CreateRefused").await;
        assert_eq!(kinds, ["Stalled"]);
    }
    world.kill();
    let seen = world.sim.ledger().last_seq();
    world.start().await;
    // The next process repeats the create once, under a record that contains the refusal.
    eventually("each is requested again", async || {
        let ledger = world.sim.ledger();
        let calls = ledger.since(seen);
        let calls = calls
            .iter()
            .filter(|call| call.path == path_of(Verb::Create));
        let named: BTreeSet<_> = calls.map(|call| call.request.to_string()).collect();
        match named.len() {
            4 => Ok(()),
            n => Err(format!("{n}")),
        }
    })
    .await;
    for name in ["zone-fixed", "package-fixed"] {
        let fixed = Instant::now();
        world.apply(&instance(name)).await;
        world.ready(name).await;
        println!("BOUND refusal, {name}: Ready after {:.1?}", fixed.elapsed());
    }
    for name in ["zone-deleted", "package-deleted"] {
        let deleted = Instant::now();
        world.delete(name).await;
        world.gone(name).await;
        println!(
            "BOUND refusal, {name}: gone after {:.1?}",
            deleted.elapsed()
        );
    }
    assert_eq!(
        world.sim.servers().len(),
        bought + 2,
        "{}",
        world.ledger_text()
    );
    for watcher in watchers {
        watcher.abort();
        let ended = watcher.await;
        assert!(
            ended.is_err_and(|error| error.is_cancelled()),
            "it was reported"
        );
    }
}

async fn under(readings: Readings) {
    let setup = Setup::default().readings(readings);
    let mut world = setup.begin("refused-before").await;
    is_remembered(&mut world).await;
    assert!(create_calls(&world.sim) >= 8, "{}", world.ledger_text());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_remembered_over_a_restart() {
    under(three::specified()).await;
}
