//! Readings over HTTP: the same service, worded otherwise.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use cloud_simulator::readings::{
    FailureShape, HttpStatus, ListRows, Readings, ResultWhileProcessing, RowCount, TaskId,
};
use cloud_simulator::wire::Endpoint;
use cloud_simulator::{Simulator, catalogue};
use common::{Caller, create_body, fields, text};
use serde_json::json;

#[tokio::test]
async fn readings_change_the_wording() {
    let readings = Readings {
        task_id: TaskId::Flat,
        http_status: HttpStatus::Ok,
        list_rows: ListRows::Minimal,
        row_count: RowCount::Page,
        awkward_ids: true,
        used_flow_grows: true,
        not_found: FailureShape::SuccessFalse,
        refusals: FailureShape::Envelope,
        result_while_processing: ResultWhileProcessing::Null,
        ..Readings::default()
    };
    let builder = Simulator::builder()
        .task_duration(common::ENDLESS)
        .readings(readings);
    let sim = builder.start().await.unwrap();
    let caller = Caller::of(&sim);
    let answer = caller.post("/instance/create", &create_body("web-1")).await;
    assert_eq!((answer.status, &answer.body["rowCount"]), (200, &json!(0)));
    let (server, task) = (
        text(&answer.body["ecsResourceUUID"]),
        text(&answer.body["asyncTaskUUID"]),
    );
    assert!(server.contains(" +/?&=%#"), "{server}");
    let answer = caller
        .get("/asynctask/getResult", &[("asyncTaskUUID", &task)])
        .await;
    let running = json!({ "taskStatus": "PROCESSING", "processResult": null });
    assert_eq!(answer.body["asyncTaskInfo"], running);
    for look in [1, 2] {
        let answer = caller
            .get("/instance/detail", &[("ecsResourceUUID", &server)])
            .await;
        let server = &answer.body["instance"];
        assert_eq!(
            (&server["usedFlow"], &server["cpuLoad"]),
            (&json!(f64::from(look) * 0.125), &json!(look))
        );
    }
    caller.post("/instance/create", &create_body("web-2")).await;
    let known = catalogue::example();
    let (region, zone) = (("regionCode", known.region), ("zoneCode", known.zone));
    let answer = caller
        .get("/instance/list", &[region, zone, ("pageSize", "1")])
        .await;
    assert_eq!((answer.status, &answer.body["rowCount"]), (200, &json!(1)));
    assert_eq!(answer.body["instances"][0].as_object().unwrap().len(), 7);
    let missing = caller
        .get("/instance/detail", &[("ecsResourceUUID", "ecs-none")])
        .await;
    assert_eq!(
        (missing.status, &missing.body["success"]),
        (200, &json!(false))
    );
    let refused = caller.get("/instance/list", &[]).await;
    assert_eq!(
        (refused.status, fields(&refused.body)),
        (200, vec!["code", "httpStatus", "message"])
    );
}

#[tokio::test]
async fn success_may_be_202_everywhere() {
    let readings = Readings {
        http_status: HttpStatus::Accepted,
        ..Readings::default()
    };
    let sim = common::quick().readings(readings).start().await.unwrap();
    let caller = Caller::of(&sim);
    let (server, _) = caller.create("web-1").await;
    let query = [("ecsResourceUUID", server.as_str())];
    assert_eq!(caller.get("/instance/detail", &query).await.status, 202);
}

#[tokio::test]
async fn endpoints_may_be_served_at_other_paths() {
    let sim = common::quick()
        .path(Endpoint::Create, "/v9/make")
        .path(Endpoint::RegionList, "/v9/where")
        .start()
        .await
        .unwrap();
    let caller = Caller::of(&sim);
    let made = caller.post("/v9/make", &create_body("web-1")).await;
    assert_eq!(made.status, 202);
    assert_eq!(caller.get("/v9/where", &[]).await.status, 202);
    let left = caller.post("/instance/create", &create_body("web-2")).await;
    assert_eq!(left.status, 501);
    assert!(
        text(&left.body["path"]).contains("/v9/make"),
        "{}",
        left.body
    );
    assert_eq!(sim.ledger().count("/instance/create"), 1);
    assert_eq!(sim.live_servers().len(), 1);
}
