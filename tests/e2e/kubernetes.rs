//! Faults on the Kubernetes side: the apiserver, its store, the watches, the caches behind them, other writers, permissions.
//! None of them causes a purchase or a release, and all work continues within half a minute after the fault ends, without a
//! restart. The rows are those of the catalogue in `docs/maintainers/faults.md`.
//!
//! Tests that damage a control plane have their own; the others get their faults on the wire to a shared one.

mod full;
mod outage;
mod removal;
mod restore;
mod rights;
mod travel;
mod watches;
mod writers;

use crate::support::{PATIENCE, Shared, World, eventually, instance, own};
use cloud_server_operator::api::Instance;
use cloud_simulator::faults::{Act, ClientGone, Hold, Rule, When};
use kube::ResourceExt;
use kube::api::ListParams;
use std::ops::Deref;
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// A separate control plane. Each needs a quarter of a gigabyte, and a core while it starts, so only a few exist at a time.
struct Plane {
    shared: Arc<Shared>,
    _room: SemaphorePermit<'static>,
}

impl Plane {
    async fn start() -> Self {
        static ROOM: Semaphore = Semaphore::const_new(3);
        let room = ROOM.acquire().await.unwrap();
        Self {
            shared: own().await,
            _room: room,
        }
    }
}

/// Applies an Instance called `held`, whose server is bought and whose answer is held back.
async fn held(world: &World) -> Hold {
    let hold = Act::Hold {
        at: When::AfterEffect,
        gone: ClientGone::Execute,
    };
    let rule = Rule::on("/instance/create", hold).containing("held-");
    let hold = world.sim.hold(rule);
    world.apply(&instance("held")).await;
    hold.reached(PATIENCE).await.unwrap();
    hold
}

impl Deref for Plane {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

/// Waits for a condition that must be met soon after a fault ends, and prints how long it took. The limit of half a minute
/// (L2 in `docs/maintainers/proof.md`) is asserted in virtual time, where no other test uses the processor (`tests/protocol`).
async fn recovers<T>(what: &str, check: impl AsyncFnMut() -> Result<T, String>) -> T {
    let begun = Instant::now();
    let value = eventually(what, check).await;
    println!("{what}: {:.1} s", begun.elapsed().as_secs_f64());
    value
}

/// Waits until each of these Instances meets a condition; errors name the Instance.
async fn all(
    world: &World,
    names: &[&str],
    holds: impl Fn(&Instance) -> bool,
) -> Result<(), String> {
    let list = world.instances().list(&ListParams::default()).await;
    let list = list.map_err(|error| error.to_string())?.items;
    let lacks = |name: &&&str| {
        let mut found = list.iter().filter(|found| found.name_any() == ***name);
        !found.any(&holds)
    };
    let lacking: Vec<_> = names.iter().filter(lacks).collect();
    match lacking.as_slice() {
        [] => Ok(()),
        _ => {
            let outlines = list
                .iter()
                .map(|found| format!("{}: {}", found.name_any(), crate::support::outline(found)));
            let outlines: Vec<_> = outlines.collect();
            Err(format!("not yet: {lacking:?}\n{}", outlines.join("\n")))
        }
    }
}

/// Whether none of these Instances exists any more.
async fn none(world: &World, names: &[&str]) -> Result<(), String> {
    let list = world.instances().list(&ListParams::default()).await;
    let list = list.map_err(|error| error.to_string())?.items;
    let left: Vec<_> = list
        .iter()
        .filter(|found| names.contains(&found.name_any().as_str()))
        .map(|found| format!("{}: {}", found.name_any(), crate::support::outline(found)))
        .collect();
    if left.is_empty() {
        Ok(())
    } else {
        Err(left.join("\n"))
    }
}
