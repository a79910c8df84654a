//! Each fault does what its description states, and the ledger shows which calls were executed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;
mod listings;

use std::time::{Duration, Instant};

use cloud_simulator::faults::{Act, ClientGone, Rule, When};
use cloud_simulator::model::{Console, Effect, TaskScript};
use cloud_simulator::{Simulator, catalogue};
use common::{Caller, DEADLINE, PASSWORD, answer, create_body, quick, settle};
use serde_json::{Value, json};

const CREATE: &str = "/instance/create";

async fn running() -> (Simulator, Caller) {
    let sim = quick().start().await.unwrap();
    let caller = Caller::of(&sim);
    (sim, caller)
}

fn servers(sim: &Simulator) -> usize {
    sim.live_servers().len()
}

async fn rows(caller: &Caller) -> Value {
    let known = catalogue::example();
    let query = [("regionCode", known.region), ("zoneCode", known.zone)];
    caller.get("/instance/list", &query).await.body
}

#[tokio::test]
async fn a_reply_is_lost_before_or_after_the_effect() {
    for (when, made) in [(When::BeforeEffect, 0), (When::AfterEffect, 1)] {
        let (sim, caller) = running().await;
        sim.fault(Rule::on(CREATE, Act::Lose { when }).times(1));
        let lost = caller.posting(CREATE, &create_body("web-1")).send().await;
        let error = lost.expect_err("no answer, not even an empty one");
        assert!(error.is_request(), "{error:?}");
        assert_eq!(servers(&sim), made);
        let ledger = sim.ledger();
        let call = ledger.calls(CREATE)[0];
        assert_eq!((call.status, call.effect.is_none()), (None, made == 0));
        caller.create("web-2").await;
    }
}

#[tokio::test]
async fn an_error_comes_instead_of_the_effect_or_after_it() {
    for (when, made) in [(When::BeforeEffect, 0), (When::AfterEffect, 1)] {
        let (sim, caller) = running().await;
        let retry_after = Some(7);
        let (code, message) = ("Throttled".to_owned(), "slowly".to_owned());
        sim.fault(Rule::on(
            "/instance/*",
            Act::Error {
                status: 429,
                code,
                message,
                retry_after,
                when,
            },
        ));
        let response = caller
            .posting(CREATE, &create_body("web-1"))
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "7");
        assert_eq!(servers(&sim), made);
        assert_eq!(sim.ledger().calls(CREATE)[0].status, Some(429));
    }
}

#[tokio::test]
async fn rules_count_and_choose_their_calls() {
    let (sim, caller) = running().await;
    sim.add_account("other", "other-token").unwrap();
    let lose = || Act::Lose {
        when: When::BeforeEffect,
    };
    let second = sim.fault(
        Rule::on("/region/list", lose())
            .nth(2)
            .times(2)
            .account("default"),
    );
    let named = sim.fault(Rule::on(CREATE, lose()).containing("web-7"));
    let call = || async { answer(caller.getting("/region/list", &[])).await.is_ok() };
    let other = caller.with_token("other-token");
    assert!(answer(other.getting("/region/list", &[])).await.is_ok());
    let got = [call().await, call().await, call().await, call().await];
    assert_eq!(got, [true, false, false, true]);
    assert_eq!(sim.faults().hits(second), 2);
    caller.create("web-6").await;
    assert!(
        answer(caller.posting(CREATE, &create_body("web-7")))
            .await
            .is_err()
    );
    assert_eq!(sim.faults().hits(named), 1);
    sim.faults().clear();
    caller.create("web-7").await;
}

#[tokio::test]
async fn a_delay_takes_its_time() {
    let (sim, caller) = running().await;
    sim.fault(Rule::on(
        CREATE,
        Act::Delay {
            millis: 150,
            when: When::AfterEffect,
        },
    ));
    let begun = Instant::now();
    caller.create("web-1").await;
    assert!(begun.elapsed() >= Duration::from_millis(150));
}

#[tokio::test]
async fn a_call_is_parked_before_or_after_its_effect_until_it_is_released() {
    for (at, made) in [(When::BeforeEffect, 0), (When::AfterEffect, 1)] {
        let (sim, caller) = running().await;
        let hold = sim.hold(Rule::on(
            CREATE,
            Act::Hold {
                at,
                gone: ClientGone::Execute,
            },
        ));
        let calling = tokio::spawn(async move { caller.create("web-1").await });
        hold.reached(DEADLINE).await.unwrap();
        assert_eq!(servers(&sim), made);
        assert!(!calling.is_finished());
        hold.release();
        calling.await.unwrap();
        assert_eq!(servers(&sim), 1);
    }
}

#[tokio::test]
async fn a_hold_after_the_reply_knows_when_it_was_written() {
    let (sim, caller) = running().await;
    let at = When::AfterReply;
    let hold = sim.hold(Rule::on(
        CREATE,
        Act::Hold {
            at,
            gone: ClientGone::Execute,
        },
    ));
    let request = caller.posting(CREATE, &create_body("web-1"));
    let (sent, reached) = tokio::join!(answer(request), hold.reached(DEADLINE));
    assert_eq!(sent.unwrap().status, 202);
    reached.unwrap();
    assert!(hold.reached_by(2, Duration::from_millis(1)).await.is_err());
}

#[tokio::test]
async fn a_call_whose_client_left_is_executed_late_or_dropped() {
    for (gone, made) in [(ClientGone::Execute, 1), (ClientGone::Drop, 0)] {
        let (sim, caller) = running().await;
        let hold = sim.hold(Rule::on(
            CREATE,
            Act::Hold {
                at: When::BeforeEffect,
                gone,
            },
        ));
        let calling = tokio::spawn(async move { caller.create("web-1").await });
        hold.reached(DEADLINE).await.unwrap();
        calling.abort();
        hold.client_left(DEADLINE).await.unwrap();
        assert_eq!(servers(&sim), 0);
        hold.release();
        sim.wait_ledger(|ledger| ledger.count(CREATE) == 1, DEADLINE)
            .await
            .unwrap();
        assert_eq!(servers(&sim), made, "{gone:?}");
    }
}

#[tokio::test]
async fn an_effect_outlives_its_client() {
    let (sim, caller) = running().await;
    let act = Act::Hold {
        at: When::AfterEffect,
        gone: ClientGone::Drop,
    };
    let hold = sim.hold(Rule::on(CREATE, act));
    let calling = tokio::spawn(async move { caller.create("web-1").await });
    hold.reached(DEADLINE).await.unwrap();
    calling.abort();
    hold.client_left(DEADLINE).await.unwrap();
    hold.release();
    settle(&sim).await;
    assert_eq!(sim.live_servers()[0].status, "STARTED");
}

#[tokio::test]
async fn a_request_is_doubled_or_late() {
    let (sim, caller) = running().await;
    sim.fault(Rule::on(CREATE, Act::Duplicate).times(1));
    caller.create("web-1").await;
    assert_eq!(servers(&sim), 2);
    sim.fault(Rule::on(CREATE, Act::Late { millis: 30 }).times(1));
    assert!(
        answer(caller.posting(CREATE, &create_body("web-2")))
            .await
            .is_err()
    );
    sim.wait_until(|world| world.live_servers().len() == 3, DEADLINE)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_business_failure_comes_in_a_2xx() {
    let (sim, caller) = running().await;
    let (code, message) = ("Balance.Insufficient".to_owned(), String::new());
    let when = When::BeforeEffect;
    let act = Act::Business {
        status: 202,
        code,
        message,
        success_false: true,
        when,
    };
    sim.fault(Rule::on(CREATE, act));
    let answer = caller.post(CREATE, &create_body("web-1")).await;
    assert_eq!(answer.status, 202);
    assert_eq!(answer.body["success"], false);
    assert_eq!(servers(&sim), 0);
}

#[tokio::test]
async fn bodies_are_spoilt_after_the_effect() {
    let acts = [Act::Truncate, Act::Garble, Act::Html];
    for act in acts {
        let (sim, caller) = running().await;
        sim.fault(Rule::on(CREATE, act.clone()));
        let response = caller
            .posting(CREATE, &create_body("web-1"))
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 202);
        assert!(response.json::<Value>().await.is_err(), "{act:?}");
        assert_eq!(servers(&sim), 1);
    }
    let (sim, caller) = running().await;
    for (act, task, http_status) in [
        (Act::WrongTypes, json!(42), json!("202 or so")),
        (Act::Nulls, Value::Null, Value::Null),
    ] {
        sim.fault(Rule::on(CREATE, act).times(1));
        let body = caller.post(CREATE, &create_body("web-1")).await.body;
        assert_eq!(
            (&body["asyncTaskInfo"]["asyncTaskUUID"], &body["httpStatus"]),
            (&task, &http_status)
        );
    }
    sim.fault(Rule::on(CREATE, Act::Huge { bytes: 3_000_000 }).times(1));
    let response = caller
        .posting(CREATE, &create_body("web-1"))
        .send()
        .await
        .unwrap();
    assert!(response.bytes().await.unwrap().len() > 3_000_000);
    let text = "what-is-to-be-kept".to_owned();
    sim.fault(Rule::on(CREATE, Act::Quote { text }).times(1));
    let body = caller.post(CREATE, &create_body("web-1")).await.body;
    assert_eq!(body["asyncTaskInfo"]["password"], "what-is-to-be-kept");
    sim.fault(Rule::on("/instance/detail", Act::SlowBytes { millis: 1 }).times(1));
    let begun = Instant::now();
    let slow = caller
        .get("/instance/detail", &[("ecsResourceUUID", "ecs-none")])
        .await;
    assert_eq!(slow.body["code"], "InvalidInstance.NotFound");
    assert!(begun.elapsed() > Duration::from_millis(60));
}

#[tokio::test]
async fn a_hanging_call_never_answers() {
    let (sim, caller) = running().await;
    sim.fault(Rule::on(
        CREATE,
        Act::Hang {
            when: When::AfterEffect,
        },
    ));
    let mut calling = tokio::spawn(caller.posting(CREATE, &create_body("web-1")).send());
    sim.wait_until(|world| world.live_servers().len() == 1, DEADLINE)
        .await
        .unwrap();
    // If the call were answered, the answer would follow its effect at once.
    let answer = tokio::time::timeout(Duration::from_millis(100), &mut calling).await;
    assert!(answer.is_err(), "{answer:?}");
    calling.abort();
}

#[tokio::test]
async fn calls_beyond_a_limit_are_refused_and_not_executed() {
    let (sim, caller) = running().await;
    // No token is refilled over time, so that the speed of the calls does not matter here.
    let limit = Act::Limit {
        per_second: 0,
        burst: 2,
        retry_after: Some(3),
    };
    let id = sim.fault(Rule::on("/*", limit));
    for number in 0..2 {
        caller.create(&format!("web-{number}")).await;
    }
    let refused = caller
        .posting(CREATE, &create_body("web-2"))
        .send()
        .await
        .unwrap();
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["retry-after"]),
        (429, &"3".parse().unwrap())
    );
    assert_eq!((servers(&sim), sim.faults().hits(id)), (2, 1));
    sim.faults().clear();
    caller.create("web-2").await;
}

#[tokio::test]
async fn an_identifier_is_reused() {
    let (sim, caller) = running().await;
    sim.add_account("other", "other-token").unwrap();
    let (server, _) = caller.create("web-1").await;
    settle(&sim).await;
    let recycle = |account: &str| Console::Recycle {
        server: server.clone(),
        account: account.to_owned(),
        name: "not-ours".to_owned(),
    };
    assert!(
        sim.world(|w| w.console(recycle("other"))).is_err(),
        "it is in use"
    );
    let release = Console::Release {
        server: server.clone(),
    };
    sim.world(|w| w.console(release)).unwrap();
    sim.world(|w| w.console(recycle("other"))).unwrap();
    let query = [("ecsResourceUUID", server.as_str())];
    let detail = caller.get("/instance/detail", &query).await;
    assert_eq!(detail.body["code"], "InvalidInstance.NotFound");
    let other = caller.with_token("other-token");
    let detail = other.get("/instance/detail", &query).await;
    assert_eq!(detail.body["instance"]["instanceName"], "not-ours");
    assert_eq!((sim.servers().len(), servers(&sim)), (2, 1));
}

#[tokio::test]
async fn a_task_follows_its_script() {
    let (sim, caller) = running().await;
    let script = TaskScript::Fail {
        reason: "no capacity".to_owned(),
    };
    sim.fault(Rule::on(CREATE, Act::Task(script)).times(1));
    let (server, task) = caller.create("web-1").await;
    settle(&sim).await;
    let answer = caller
        .get("/asynctask/getResult", &[("asyncTaskUUID", &task)])
        .await;
    let failed =
        json!({ "taskStatus": "FINISHED", "processResult": "FAIL", "errorMessage": "no capacity" });
    assert_eq!(answer.body["asyncTaskInfo"], failed);
    assert!(sim.live_servers()[0].broken);
    let effects: Vec<Effect> = sim.ledger().effects().into_iter().cloned().collect();
    assert!(
        matches!(&effects[..], [Effect::Created { server: made, .. }, Effect::TaskFailed { .. }] if *made == server)
    );
}

#[tokio::test]
async fn the_ledger_knows_no_secret() {
    let (sim, caller) = running().await;
    let (server, _) = caller.create("web-1").await;
    let body = json!({ "ecsResourceUUID": server, "password": PASSWORD, "regionCode": "x" });
    caller.post("/instance/modifyInstancePassword", &body).await;
    let ledger = serde_json::to_string(&sim.ledger().entries().collect::<Vec<_>>()).unwrap();
    assert!(
        !ledger.contains(PASSWORD) && !ledger.contains(sim.token()),
        "{ledger}"
    );
    assert!(ledger.contains("passwordGiven"));
    assert!(!format!("{:?}", sim.world(|world| world.clone())).contains(PASSWORD));
}
