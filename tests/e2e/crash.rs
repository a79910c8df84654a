//! SIGKILL at every place where a create or a release changes something, at the service or in Kubernetes: before it takes
//! effect, after the effect and before the answer, and after the answer. Each time the operator is started again and one
//! server is found, or none after a deletion, and nobody had to help.
//!
//! A crash between two changes is the same as one after the answer to the first: whatever comes next is held back.

use crate::support::proxy::{At, Write};
use crate::support::{PATIENCE, Setup, World, create_calls, instance, side_by_side};
use cloud_simulator::faults::{Act, ClientGone, Rule, When};
use kube::ResourceExt;

/// Worlds at the same time: each is an operator of its own, and the machine is shared.
const AT_ONCE: usize = 8;
const EVERYWHERE: [At; 3] = [At::BeforeEffect, At::AfterEffect, At::AfterReply];

/// What changes something in a create and in a release.
#[derive(Clone, Copy, Debug)]
enum Change {
    Kubernetes(Write),
    Call(&'static str, ClientGone),
}

#[derive(Clone, Copy, Debug)]
enum Way {
    /// The create is interrupted.
    Create,
    /// The create is interrupted, and the object is deleted while no operator runs.
    CreateThenDelete,
    /// The release is interrupted.
    Delete,
}

/// The whole table of a way, each place in a world of its own.
async fn crash_everywhere(way: Way, tasks: u64, changes: &[Change]) {
    let places: Vec<_> = changes
        .iter()
        .flat_map(|change| EVERYWHERE.map(|at| (way, *change, at)))
        .collect();
    side_by_side(AT_ONCE, places, move |(way, change, at)| {
        crash(way, tasks, change, at)
    })
    .await;
}

async fn crash(way: Way, tasks: u64, change: Change, at: At) {
    let mut world = Setup::default().tasks(tasks).proxy().begin("crash").await;
    let name = "web";
    if let Way::Delete = way {
        world.apply(&instance(name)).await;
        world.ready(name).await;
    }
    match change {
        Change::Kubernetes(write) => {
            let trap = world.proxy().trap(write, at);
            begin(&world, way, name).await;
            assert!(
                trap.reached().await,
                "{way:?} {change:?} {at:?}: no such write came by: {:#?}",
                world.proxy().changes()
            );
            world.kill();
            trap.lose();
        }
        Change::Call(path, gone) => {
            let at = match at {
                At::BeforeEffect => When::BeforeEffect,
                At::AfterEffect => When::AfterEffect,
                At::AfterReply => When::AfterReply,
            };
            let hold = world.sim.hold(Rule::on(path, Act::Hold { at, gone }));
            begin(&world, way, name).await;
            hold.reached(PATIENCE).await.unwrap();
            world.kill();
            if at == When::BeforeEffect {
                hold.client_left(PATIENCE).await.unwrap();
            }
            hold.release();
        }
    }
    if let Way::CreateThenDelete = way {
        world.delete(name).await;
    }
    world.start().await;
    match way {
        Way::Create => ends_with_one_server(&world, name).await,
        Way::CreateThenDelete | Way::Delete => ends_with_none(&world, name).await,
    }
    world.finish().await;
}

async fn ends_with_none(world: &World, name: &str) {
    world.gone(name).await;
    assert_eq!(world.sim.live_servers(), [], "{}", world.ledger_text());
    assert!(create_calls(&world.sim) <= 1, "{}", world.ledger_text());
}

async fn begin(world: &World, way: Way, name: &str) {
    match way {
        Way::Create | Way::CreateThenDelete => drop(world.apply(&instance(name)).await),
        Way::Delete => world.delete(name).await,
    }
}

/// Converged on exactly one server, the recorded one; and it leaves nothing behind when it is deleted.
async fn ends_with_one_server(world: &World, name: &str) {
    let ready = world.ready(name).await;
    let server = world.only_server(&ready);
    assert_eq!(
        ready.status.as_ref().unwrap().id.as_deref(),
        Some(server.id.as_str()),
        "{}",
        world.ledger_text()
    );
    assert_eq!(
        world.sim.servers().len(),
        1,
        "more was bought than needed, for {}\n{}",
        ready.name_any(),
        world.ledger_text()
    );
    world.delete(name).await;
    world.gone(name).await;
    assert_eq!(world.sim.live_servers(), [], "{}", world.ledger_text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_write_of_a_create_ends_with_one_server() {
    let changes = [Write::Intent, Write::Receipt, Write::Status(1)].map(Change::Kubernetes);
    crash_everywhere(Way::Create, 300, &changes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_the_progress_of_a_long_create_ends_with_one_server() {
    // The first status tells of the running create, the second of its end.
    let changes = [Write::Status(1), Write::Status(2)].map(Change::Kubernetes);
    crash_everywhere(Way::Create, 8_000, &changes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_the_call_of_a_create_ends_with_one_server() {
    let changes = [
        Change::Call("/instance/create", ClientGone::Drop),
        Change::Call("/instance/create", ClientGone::Execute),
    ];
    crash_everywhere(Way::Create, 300, &changes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_anywhere_in_a_release_ends_with_no_server() {
    let changes = [
        Change::Call("/instance/release", ClientGone::Drop),
        Change::Call("/instance/release", ClientGone::Execute),
        Change::Kubernetes(Write::Finalizer),
    ];
    crash_everywhere(Way::Delete, 300, &changes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_anywhere_in_a_create_whose_instance_is_then_deleted_ends_with_no_server() {
    let changes = [
        Change::Kubernetes(Write::Intent),
        Change::Call("/instance/create", ClientGone::Drop),
        Change::Call("/instance/create", ClientGone::Execute),
        Change::Kubernetes(Write::Receipt),
        Change::Kubernetes(Write::Status(1)),
    ];
    crash_everywhere(Way::CreateThenDelete, 300, &changes).await;
}

/// The acknowledgement of one of our own writes is lost, with or without its effect, and the process lives on.
async fn acknowledgement_is_lost(way: Way, write: Write, at: At) {
    let world = Setup::default().proxy().begin("lost-write").await;
    if let Way::Delete = way {
        world.apply(&instance("web")).await;
        world.ready("web").await;
    }
    let trap = world.proxy().trap(write, at);
    begin(&world, way, "web").await;
    assert!(
        trap.reached().await,
        "{way:?} {write:?} {at:?}: no such write came by: {:#?}",
        world.proxy().changes()
    );
    trap.lose();
    match way {
        Way::Create | Way::CreateThenDelete => ends_with_one_server(&world, "web").await,
        Way::Delete => ends_with_none(&world, "web").await,
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledgement_that_is_lost_costs_no_second_server() {
    for at in [At::BeforeEffect, At::AfterEffect] {
        for write in [Write::Intent, Write::Receipt, Write::Status(1)] {
            acknowledgement_is_lost(Way::Create, write, at).await;
        }
        acknowledgement_is_lost(Way::Delete, Write::Finalizer, at).await;
    }
}
