//! A create that the service executes after its Instance is gone. The other answers to a create: `faults.rs`, and the closed loop.

use crate::support::{PATIENCE, Setup, World, console, eventually, instance};
use cloud_server_operator::api::Instance;
use cloud_simulator::Entry;
use cloud_simulator::faults::{Act, Rule, When};
use cloud_simulator::model::{Console, TaskScript};
use serde_json::json;

const CREATE: &str = "/instance/create";

/// A create that is executed after its Instance is gone. The service refuses the first release of the server.
async fn executed_late(world: &World) -> Instance {
    // An operation that never ends keeps the listing at the pace of running operations, so that the test need not wait five
    // minutes.
    world.sim.fault(
        Rule::on(CREATE, Act::Task(TaskScript::Never))
            .containing("busy")
            .times(1),
    );
    world.apply(&instance("busy")).await;
    world
        .sim
        .wait_until(|w| w.servers().len() == 1, PATIENCE)
        .await
        .unwrap();
    // Long compared with a deletion: no replacement is bought until the create has settled and the server was looked for.
    world
        .change_account("default", json!({"settleSeconds": 30}))
        .await;
    world.sim.fault(
        Rule::on(CREATE, Act::Late { millis: 150_000 })
            .containing("web")
            .times(1),
    );
    let busy = Act::Error {
        status: 409,
        code: "OperationConflict.InProgress".to_owned(),
        message: "the instance is being created".to_owned(),
        retry_after: None,
        when: When::BeforeEffect,
    };
    world
        .sim
        .fault(Rule::on("/instance/release", busy).times(1));
    let applied = world.apply(&instance("web")).await;
    world.until_reason("web", "CreateUnconfirmed").await;
    world.delete("web").await;
    world.gone("web").await;
    assert_eq!(
        world.sim.servers().len(),
        1,
        "gone before the late execution, or the test tests nothing"
    );
    world
        .sim
        .wait_until(|w| w.servers().len() == 2, PATIENCE)
        .await
        .unwrap();
    applied
}

async fn until_event(world: &World, reason: &str) {
    eventually("Events report it", async || {
        if world.events(reason).await.is_empty() {
            Err(format!("none of {reason}"))
        } else {
            Ok(())
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_executed_after_its_instance_is_gone_is_released() {
    let world = Setup::default().begin("late-gone").await;
    let applied = executed_late(&world).await;
    eventually("the unowned server is released", async || {
        if world.live(&applied).is_empty() {
            Ok(())
        } else {
            Err(world.ledger_text())
        }
    })
    .await;
    for reason in ["LateServerNotReleased", "LateServerReleased"] {
        until_event(&world, reason).await;
    }
    world.finish().await;
}

/// The listing that shows the server under its former name may be old.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_server_with_another_name_is_not_released() {
    let world = Setup::default().begin("late-renamed").await;
    let applied = executed_late(&world).await;
    until_event(&world, "LateServerNotReleased").await;
    world.sim.fault(Rule::on("/instance/list", Act::Garble));
    let server = world.only_server(&applied).id;
    let name = "kept-by-a-user".to_owned();
    let rename = Console::Rename {
        server: server.clone(),
        name,
    };
    console(&world, rename);
    let renamed = world.sim.ledger().last_seq();
    let is_about = |entry: &Entry| entry.request.to_string().contains(&server);
    eventually("its name is read, and time passes", async || {
        let calls = world.calls_since(renamed);
        let mut later = calls
            .iter()
            .skip_while(|entry| entry.path != "/instance/detail" || !is_about(entry));
        match later.any(|entry| entry.path == "/instance/list") {
            true => Ok(()),
            false => Err(world.ledger_text()),
        }
    })
    .await;
    let mut calls = world.calls_since(renamed).into_iter();
    let is_released = calls.any(|entry| entry.path == "/instance/release" && is_about(&entry));
    assert!(!is_released, "{}", world.ledger_text());
    world.finish().await;
}
