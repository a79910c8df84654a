//! A create that the service executes after its Instance is gone. The other answers to a create: `faults.rs`, and the closed loop.

use crate::support::{PATIENCE, Setup, eventually, instance};
use cloud_simulator::faults::{Act, Rule, When};
use cloud_simulator::model::TaskScript;
use serde_json::json;

const CREATE: &str = "/instance/create";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_executed_after_its_instance_is_gone_is_released() {
    let world = Setup::default().begin("late-gone").await;
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
    eventually("the unowned server is released", async || {
        if world.live(&applied).is_empty() {
            Ok(())
        } else {
            Err(world.ledger_text())
        }
    })
    .await;
    for reason in ["LateServerNotReleased", "LateServerReleased"] {
        eventually("Events report it", async || {
            if world.events(reason).await.is_empty() {
                Err(format!("none of {reason}"))
            } else {
                Ok(())
            }
        })
        .await;
    }
    world.finish().await;
}
