use serde_json::json;

use super::*;
use crate::catalogue::example;
use crate::model::Config;
use crate::readings::{FailReason, FailureShape, Readings, ResultWhileProcessing, TaskId};

const TOKEN: &str = "the-token";

fn world(readings: Readings) -> World {
    World::new(Config {
        token: Secret::from(TOKEN),
        readings,
        ..Config::default()
    })
}

fn create(world: &mut World, script: TaskScript) -> RawReply {
    let known = example();
    let body = json!({ "packageConfig": {
        "packageCode": known.package, "regionCode": known.region, "zoneCode": known.zone,
        "instanceName": "web-1", "imageResourceUUID": known.image, "sshKeyUUID": known.key,
        "firewallUUID": known.firewall,
    }});
    let raw = RawRequest::post("/instance/create", &body, TOKEN);
    exchange_scripted(world, Timestamp::default(), &raw, script)
}

fn task_info(world: &mut World, millis: u64, task: &str) -> serde_json::Value {
    let raw = RawRequest::get("/asynctask/getResult", &[("asyncTaskUUID", task)], TOKEN);
    exchange(world, Timestamp::from_millis(millis), &raw).body["asyncTaskInfo"].clone()
}

#[test]
fn the_task_id_is_in_the_field_that_the_reading_names() {
    for (reading, nested) in [
        (TaskId::AsSpecified, true),
        (TaskId::Nested, true),
        (TaskId::Flat, false),
    ] {
        let mut world = world(Readings {
            task_id: reading,
            ..Readings::default()
        });
        let body = create(&mut world, TaskScript::Succeed).body;
        assert_eq!(
            body["asyncTaskInfo"]["asyncTaskUUID"].is_string(),
            nested,
            "{body}"
        );
        assert_eq!(body["asyncTaskUUID"].is_string(), !nested, "{body}");
    }
}

#[test]
fn a_failed_task_gives_its_reason_in_the_field_that_the_reading_names() {
    let fields = [
        (FailReason::ErrorMessage, "errorMessage"),
        (FailReason::FailMessage, "failMessage"),
        (FailReason::Remark, "remark"),
        (FailReason::Message, "message"),
    ];
    for (reading, field) in fields {
        let mut world = world(Readings {
            fail_reason: reading,
            ..Readings::default()
        });
        let script = TaskScript::Fail {
            reason: "no room".to_owned(),
        };
        let body = create(&mut world, script).body;
        let task = body["asyncTaskInfo"]["asyncTaskUUID"]
            .as_str()
            .unwrap()
            .to_owned();
        let info = task_info(&mut world, 10_000, &task);
        assert_eq!(
            info,
            json!({ "taskStatus": "FINISHED", "processResult": "FAIL", field: "no room" })
        );
    }
}

#[test]
fn a_running_task_has_the_result_of_the_reading() {
    let table = [
        (
            ResultWhileProcessing::Absent,
            json!({ "taskStatus": "PROCESSING" }),
        ),
        (
            ResultWhileProcessing::Null,
            json!({ "taskStatus": "PROCESSING", "processResult": null }),
        ),
        (
            ResultWhileProcessing::Empty,
            json!({ "taskStatus": "PROCESSING", "processResult": "" }),
        ),
    ];
    for (reading, expected) in table {
        let mut world = world(Readings {
            result_while_processing: reading,
            ..Readings::default()
        });
        let body = create(&mut world, TaskScript::Succeed).body;
        let task = body["asyncTaskInfo"]["asyncTaskUUID"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(task_info(&mut world, 1, &task), expected);
    }
}

#[test]
fn a_refusal_has_the_shape_of_the_reading_but_a_401_is_a_401() {
    let table = [
        (FailureShape::HttpStatus, 404, None),
        (FailureShape::SuccessFalse, 200, Some(json!(false))),
        (FailureShape::Envelope, 200, None),
    ];
    for (shape, status, success) in table {
        let mut world = world(Readings {
            not_found: shape,
            ..Readings::default()
        });
        let raw = RawRequest::get(
            "/instance/detail",
            &[("ecsResourceUUID", "ecs-none")],
            TOKEN,
        );
        let reply = exchange(&mut world, Timestamp::default(), &raw);
        assert_eq!(
            (reply.status, reply.body.get("success").cloned()),
            (status, success)
        );
        assert_eq!(reply.body["code"], "InvalidInstance.NotFound");
        let without_token = RawRequest { token: None, ..raw };
        assert_eq!(
            exchange(&mut world, Timestamp::default(), &without_token).status,
            401
        );
    }
}

#[test]
fn the_token_is_checked_before_the_form() {
    let mut world = world(Readings::default());
    let mut raw = RawRequest::post("/instance/stop", &json!([]), "unknown");
    assert_eq!(exchange(&mut world, Timestamp::default(), &raw).status, 401);
    raw.token = Some(Secret::from(TOKEN));
    assert_eq!(exchange(&mut world, Timestamp::default(), &raw).status, 400);
}

#[test]
fn an_unmodelled_path_is_reported_to_a_good_token() {
    let mut world = world(Readings::default());
    let unknown_token = RawRequest::get("/instance/vnc", &[], "unknown");
    let reply = exchange(&mut world, Timestamp::default(), &unknown_token);
    assert_eq!(reply.status, 401);
    let raw = RawRequest::get("/instance/vnc", &[], TOKEN);
    let reply = exchange(&mut world, Timestamp::default(), &raw);
    assert_eq!(
        (reply.status, &reply.body["path"]),
        (501, &json!("/instance/vnc"))
    );
}

#[test]
fn a_refused_body_does_not_quote_itself() {
    let mut world = world(Readings::default());
    let body = json!({ "packageConfig": { "password": { "deep": "Canary1!" } } });
    let reply = exchange(
        &mut world,
        Timestamp::default(),
        &RawRequest::post("/instance/create", &body, TOKEN),
    );
    assert_eq!(reply.status, 400);
    assert!(!reply.body.to_string().contains("Canary"));
}
