//! Lost, late, doubled or wrong answers to a create: in the end there is one server, without human action.

use crate::support::{PATIENCE, Setup, World, create_calls, eventually, failed, instance};
use cloud_simulator::faults::{Act, Rule, When};
use cloud_simulator::model::{Console, TaskScript};
use cloud_simulator::readings::FailedCreate;
use cloud_simulator::{Readings, Source};
use serde_json::json;

const CREATE: &str = "/instance/create";

async fn one_create_meets(name: &str, act: Act) -> World {
    let world = Setup::default().begin(name).await;
    world.sim.fault(Rule::on(CREATE, act).times(1));
    world.apply(&instance("web")).await;
    let ready = world.ready("web").await;
    let server = world.only_server(&ready);
    assert_eq!(
        ready.status.unwrap().id.as_deref(),
        Some(server.id.as_str())
    );
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_whose_answer_is_lost_is_found_by_its_name() {
    let world = one_create_meets(
        "lost-after",
        Act::Lose {
            when: When::AfterEffect,
        },
    )
    .await;
    assert_eq!(
        (create_calls(&world.sim), world.sim.servers().len()),
        (1, 1),
        "{}",
        world.ledger_text()
    );
    world.told("Adopted", 1).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_that_never_arrived_is_made_again_after_its_absence_is_proven() {
    let world = one_create_meets(
        "lost-before",
        Act::Lose {
            when: When::BeforeEffect,
        },
    )
    .await;
    assert_eq!(
        (create_calls(&world.sim), world.sim.servers().len()),
        (2, 1),
        "{}",
        world.ledger_text()
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_a_gateway_after_the_create_is_no_refusal() {
    let act = Act::Error {
        status: 503,
        code: "Gateway.Unavailable".to_owned(),
        message: "no upstream".to_owned(),
        retry_after: None,
        when: When::AfterEffect,
    };
    let world = one_create_meets("gateway", act).await;
    assert_eq!(
        (create_calls(&world.sim), world.sim.servers().len()),
        (1, 1),
        "{}",
        world.ledger_text()
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_cannot_be_read_is_no_refusal() {
    for act in [Act::Truncate, Act::Garble, Act::Html, Act::Nulls] {
        let name = format!("spoilt-{}", act.name());
        let world = one_create_meets(&name, act).await;
        assert_eq!(
            (create_calls(&world.sim), world.sim.servers().len()),
            (1, 1),
            "{}",
            world.ledger_text()
        );
        world.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_servers_from_a_doubled_request_the_recorded_one_stays() {
    let world = Setup::default().begin("doubled").await;
    world.sim.fault(Rule::on(CREATE, Act::Duplicate).times(1));
    world.apply(&instance("web")).await;
    let ready = world.ready("web").await;
    let recorded = ready.status.as_ref().unwrap().id.clone().unwrap();
    eventually("the surplus is released", async || {
        let live: Vec<String> = world
            .live(&ready)
            .into_iter()
            .map(|server| server.id)
            .collect();
        if live == [recorded.clone()] {
            Ok(())
        } else {
            Err(format!("live {live:?}\n{}", world.ledger_text()))
        }
    })
    .await;
    // The ledger counts the doubled request twice.
    assert_eq!(
        (create_calls(&world.sim), world.sim.servers().len()),
        (2, 2)
    );
    eventually("an Event tells of it", async || {
        if world.events("SurplusServerReleased").await.len() == 1 {
            Ok(())
        } else {
            Err("none".to_owned())
        }
    })
    .await;
    assert_eq!(world.ready("web").await.status.unwrap().id, Some(recorded));
    world.finish_with_surplus().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_executed_late_and_its_successor_end_as_one_server() {
    // Later than the settling time (2 s) and the two listings: assumed not to take effect any more, and bought again.
    let world = Setup::default().begin("late").await;
    world
        .sim
        .fault(Rule::on(CREATE, Act::Late { millis: 90_000 }).times(1));
    world.apply(&instance("web")).await;
    let ready = world.ready("web").await;
    let recorded = ready.status.as_ref().unwrap().id.clone().unwrap();
    world
        .sim
        .wait_until(|w| w.servers().len() == 2, PATIENCE)
        .await
        .unwrap();
    eventually("the late one is released", async || {
        let live: Vec<String> = world
            .live(&ready)
            .into_iter()
            .map(|server| server.id)
            .collect();
        if live == [recorded.clone()] {
            Ok(())
        } else {
            Err(format!("live {live:?}\n{}", world.ledger_text()))
        }
    })
    .await;
    assert_eq!(world.ready("web").await.status.unwrap().id, Some(recorded));
    world.finish_with_surplus().await;
}

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
    eventually("the server of nobody is released", async || {
        if world.live(&applied).is_empty() {
            Ok(())
        } else {
            Err(world.ledger_text())
        }
    })
    .await;
    for reason in ["LateServerNotReleased", "LateServerReleased"] {
        eventually("Events tell of it", async || {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_whose_task_fails_is_cleaned_up_and_made_again() {
    for (name, left) in [
        ("fail-broken", FailedCreate::LeavesBroken),
        ("fail-nothing", FailedCreate::LeavesNothing),
    ] {
        let readings = Readings {
            failed_create: left,
            ..Readings::default()
        };
        let world = Setup::default().readings(readings).begin(name).await;
        let fail = Act::Task(TaskScript::Fail {
            reason: "the host is full".to_owned(),
        });
        world.sim.fault(Rule::on(CREATE, fail).times(1));
        world.apply(&instance("web")).await;
        failed(&world, "web", "the host is full").await;
        let ready = world.ready("web").await;
        let server = world.only_server(&ready);
        let status = ready.status.as_ref().unwrap();
        assert_eq!(status.id.as_deref(), Some(server.id.as_str()));
        let history: Vec<_> = status
            .history
            .iter()
            .map(|entry| (entry.attempt, entry.succeeded))
            .collect();
        assert_eq!(history, [(2, true), (1, false)]);
        assert_eq!(
            (create_calls(&world.sim), world.sim.servers().len()),
            (2, 2)
        );
        world.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_released_at_the_console_is_reported_and_not_bought_again() {
    let world = Setup::default().begin("console").await;
    world.apply(&instance("web")).await;
    world.apply(&instance("other")).await;
    let ready = world.ready("web").await;
    world.ready("other").await;
    let server = world.only_server(&ready).id;
    world
        .sim
        .world(|w| {
            w.console(Console::Release {
                server: server.clone(),
            })
        })
        .unwrap();
    let missing = world.until_reason("web", "ServerMissing").await;
    let kinds: Vec<_> = missing
        .status
        .as_ref()
        .unwrap()
        .conditions
        .iter()
        .map(|c| c.type_.as_str())
        .collect();
    assert_eq!(kinds, ["Ready", "Stalled", "Synced"]);
    assert!(
        missing.status.as_ref().unwrap().conditions[0]
            .message
            .contains(&server)
    );
    // A new process knows no more than before, and buys nothing, either.
    let mut world = world;
    world.restart().await;
    world.until_reason("web", "ServerMissing").await;
    assert_eq!(create_calls(&world.sim), 2, "{}", world.ledger_text());
    // It can still be deleted.
    world.delete("web").await;
    world.gone("web").await;
    let releases: Vec<_> = world
        .sim
        .ledger()
        .mutating()
        .iter()
        .filter(|e| e.source == Source::Call && e.path == "/instance/release")
        .map(|e| e.status)
        .collect();
    assert!(releases.len() <= 1, "{releases:?}");
    assert_eq!(world.sim.live_servers().len(), 1);
    world.finish().await;
}
