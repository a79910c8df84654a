//! The resources of each replica if a fleet is divided among one, two and four of them.

use super::idle::processor_seconds;
use super::memory::sizes;
use super::print_figures;
use crate::host::memory::figure;
use crate::support::bought::{allocated, idle, ready, setup, with_login};
use crate::support::shards::until_acting;
use crate::support::{Operator, World, eventually, names, quiet_all};
use cloud_server_operator::runtime::Shard;
use futures::{StreamExt, stream};
use serde_json::json;

/// Numbers of replicas, each with one shard.
const REPLICAS: [u16; 3] = [1, 2, 4];
/// Namespaces of each of four shards.
const NAMESPACES: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "buys thousands of servers: make bench"]
async fn shards_of_an_idle_fleet() {
    for count in sizes() {
        let mut world = setup()
            .everywhere()
            .long_leases()
            .without_operator()
            .begin("shards")
            .await;
        let namespaces = world.settle(4, NAMESPACES).await.concat();
        let each = count / namespaces.len();
        apply(&mut world, &namespaces, each).await;
        let count = each * namespaces.len();
        // The first replicas buy.
        let operators = begin(&mut world, 1, count).await;
        quiet_all(&world).await;
        drop(operators);
        for replicas in REPLICAS {
            let operators = begin(&mut world, replicas, count).await;
            for operator in &operators {
                idle(operator.id()).await;
                weigh(operator, replicas, count).await;
            }
            drop(operators);
        }
        world.finish().await;
    }
}

async fn apply(world: &mut World, namespaces: &[String], each: usize) {
    for namespace in namespaces {
        world.enter(namespace);
        let (names, world) = (names("web", each), &*world);
        stream::iter(&names)
            .for_each_concurrent(8, async |name| {
                let login = format!("{name}-login");
                world.secret(&login, "password", World::PASSWORD).await;
                world.apply(&with_login(name)).await;
            })
            .await;
    }
}

/// One operator per shard, once all Instances are Ready.
async fn begin(world: &mut World, replicas: u16, count: usize) -> Vec<Operator> {
    world.environment("CSO_SHARDS", &replicas.to_string());
    // A Lease name of its own for each number: the operators that were killed before have left their Leases behind.
    let lease = format!("{}-by-{replicas}", world.namespace);
    world.allow_leases(&lease).await;
    let mut operators = Vec::new();
    for (ordinal, shard) in (0..).zip(Shard::all(replicas)) {
        let operator = world.pod(ordinal, &lease).await;
        until_acting(&[(&operator, &shard.to_string())]).await;
        operators.push(operator);
    }
    let mut last = 0;
    while last < count {
        last = eventually(&format!("{count} Instances are Ready"), async || {
            let mut all = 0;
            for operator in &operators {
                all += ready(&operator.metrics().await.1);
            }
            match all > last || all >= count {
                true => Ok(all),
                false => Err(format!("{all} are")),
            }
        })
        .await;
    }
    operators
}

async fn weigh(operator: &Operator, replicas: u16, count: usize) {
    let (_, metrics) = operator.metrics().await;
    print_figures(&json!({
        "scenario": "shards", "instances": count, "replicas": replicas, "own": ready(&metrics),
        "resident_bytes": figure(operator.id(), "VmRSS:"), "allocated_bytes": allocated(&metrics),
        "processor_seconds": processor_seconds(operator.id()),
    }));
}
