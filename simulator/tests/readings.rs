//! Readings over HTTP: the same service with other answers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use cloud_simulator::readings::{
    FailureShape, HttpStatus, ListRows, Readings, ResultWhileProcessing, RowCount, TaskId,
    UnseenRegion,
};
use cloud_simulator::wire::Endpoint;
use cloud_simulator::{Clock, Simulator, Timestamp, catalogue};
use common::{Caller, create_body, fields, text};
use serde_json::json;
use std::time::Duration;

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
    for read in [1, 2] {
        let answer = caller
            .get("/instance/detail", &[("ecsResourceUUID", &server)])
            .await;
        let server = &answer.body["instance"];
        assert_eq!(
            (&server["usedFlow"], &server["cpuLoad"]),
            (&json!(f64::from(read) * 0.125), &json!(read))
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
async fn as_reported_is_all_that_clients_report() {
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let sim = common::quick()
        .readings(Readings::as_reported())
        .clock(clock)
        .start()
        .await
        .unwrap();
    let caller = Caller::of(&sim);
    let mut body = create_body("web-1");
    let config = body["packageConfig"].as_object_mut().unwrap();
    config.remove("firewallUUID");
    config.insert("password".to_owned(), json!("Two1!specials?"));
    let made = caller.post("/instance/create", &body).await;
    assert_eq!((made.status, &made.body["code"]), (202, &json!(200)));
    let info = &made.body["asyncTaskInfo"];
    let (server, task) = (text(&info["ecsResourceUUID"]), text(&info["asyncTaskUUID"]));
    let task = async || {
        let query = [("asyncTaskUUID", task.as_str())];
        let answer = caller.get("/asynctask/getResult", &query).await;
        answer.body["asyncTaskInfo"].clone()
    };
    let running = json!({ "taskStatus": "PROCESSING", "processResult": "RETRY" });
    assert_eq!(task().await, running);
    sim.advance(Duration::from_secs(1));
    assert_eq!(task().await["processResult"], "SUCCESS");

    let detail = async || {
        let query = [("ecsResourceUUID", server.as_str())];
        caller.get("/instance/detail", &query).await.body["instance"].clone()
    };
    let early = detail().await;
    assert_eq!(
        (&early["ecsStatus"], &early["publicIpAddress"]),
        (&json!("STARTED"), &json!(""))
    );
    assert_ne!(early["internalIpAddress"], "");
    assert_eq!(early["createTime"], "2023-11-15 06:13:20", "UTC+8");
    assert!(early.get("expireTime").is_none());
    sim.advance(Duration::from_secs(20));
    assert_ne!(detail().await["publicIpAddress"], "");

    let known = catalogue::example();
    let (region, zone) = (("regionCode", known.region), ("zoneCode", known.zone));
    let rows = caller.get("/instance/list", &[region, zone]).await;
    let row = &rows.body["instances"][0];
    assert_eq!(row["expireTime"], "2023-12-15 06:13:20");
    assert_eq!(
        (&row["osName"], &row["osVersionDetail"]),
        (&json!("Ubuntu"), &json!("Ubuntu 24.04 LTS"))
    );
    let other = caller
        .get("/instance/list", &[region, ("zoneCode", known.other_zone)])
        .await;
    assert_eq!(
        (other.status, text(&other.body["code"])),
        (404, "InvalidZoneCode.NotFound".to_owned())
    );
    let regions = caller.get("/region/list", &[]).await;
    for region in regions.body["regions"].as_array().unwrap() {
        let zones = region["zones"].as_array().unwrap();
        assert_eq!(zones.len(), 1, "{region}");
        assert_eq!(
            text(&zones[0]["zoneCode"]),
            format!("{}-a", text(&region["regionCode"]))
        );
    }
    let again = json!({ "ecsResourceUUID": server, "imageResourceUUID": known.other_image,
        "regionCode": known.region, "sshKeyResourceUUID": null, "password": common::PASSWORD });
    let refused = caller.post("/instance/reinstallSystem", &again).await;
    assert_eq!(
        (refused.status, text(&refused.body["code"])),
        (409, "InvalidEcsStatus.NotStopped".to_owned())
    );
}

#[tokio::test]
async fn a_token_that_is_limited_to_regions_sees_no_servers_of_others() {
    let sim = common::quick().start().await.unwrap();
    let caller = Caller::of(&sim);
    let (server, _) = caller.create("web-1").await;
    let known = catalogue::example();
    let place = [("regionCode", known.region), ("zoneCode", known.zone)];
    let listed = async || {
        let answer = caller.get("/instance/list", &place).await;
        (answer.status, answer.body["rowCount"].clone())
    };
    assert_eq!(listed().await, (202, json!(1)));
    sim.set_regions("default", Some(&["de-frankfurt-1"]))
        .unwrap();
    assert_eq!(listed().await, (202, json!(0)));
    let query = [("ecsResourceUUID", server.as_str())];
    assert_eq!(caller.get("/instance/detail", &query).await.status, 404);
    let refused = caller.post("/instance/create", &create_body("web-2")).await;
    assert_eq!(refused.status, 403);
    sim.set_readings(Readings {
        unseen_region: UnseenRegion::Refused,
        ..Readings::default()
    });
    assert_eq!(listed().await.0, 403);
    assert_eq!(caller.get("/instance/detail", &query).await.status, 403);
    sim.set_regions("default", None).unwrap();
    assert_eq!(listed().await, (202, json!(1)));
}

#[tokio::test]
async fn a_key_login_may_need_a_password_as_well() {
    let readings = Readings {
        key_needs_password: true,
        ..Readings::default()
    };
    let sim = common::quick().readings(readings).start().await.unwrap();
    let caller = Caller::of(&sim);
    let mut body = create_body("web-1");
    let config = body["packageConfig"].as_object_mut().unwrap();
    config.insert("sshKeyUUID".to_owned(), json!(catalogue::example().key));
    let password = config.remove("password").unwrap();
    let refused = caller.post("/instance/create", &body).await;
    assert_eq!(
        (refused.status, text(&refused.body["code"])),
        (400, "InvalidPassword.NotNull".to_owned())
    );
    body["packageConfig"]["password"] = password;
    let made = caller.post("/instance/create", &body).await;
    let server = text(&made.body["asyncTaskInfo"]["ecsResourceUUID"]);
    let kept = sim.world(|world| world.password_of(&server));
    assert_eq!(kept.as_deref(), Some(common::PASSWORD));
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
