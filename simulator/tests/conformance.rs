//! Checks every endpoint against the specification: status, required fields, absent fields.

mod common;

use cloud_simulator::{AccountStatus, Simulator, catalogue};
use common::{Answer, Caller, create_body, fields, quick, settle, text};
use serde_json::{Value, json};

const INSTANCE_FIELDS: &str = "bandwidth bandwidthType cpu createTime dataDiskInfoList dataDiskSize \
    ecsPendingStatus ecsResourceUUID ecsStatus freeFlow giftCpu ifAttachable imageName imageResourceUUID \
    imageType instanceName instanceSeries internalIpAddress internetChargeType limitFlow memory networkType \
    osDistroVersion publicIpAddress publicIpResourceUUID regionCode regionName secondaryPublicIpInfoList \
    snapshotNum supportIpv6 supportSsh sysAccount systemDiskCategory systemDiskResourceUUID systemDiskSize \
    usedFlow zoneCode zoneName";

fn zone_query() -> [(&'static str, &'static str); 2] {
    let known = catalogue::example();
    [("regionCode", known.region), ("zoneCode", known.zone)]
}

/// Checks the envelope: status, `httpStatus`, `rowCount`, `success` (section 2.2).
fn envelope(answer: &Answer, status: u16, rows: u64, success: bool) {
    assert_eq!(answer.status, status, "{}", answer.body);
    assert_eq!(answer.body["httpStatus"], 202);
    assert_eq!(answer.body["rowCount"], rows);
    assert_eq!(
        answer.body.get("success"),
        success.then_some(&Value::Bool(true))
    );
}

#[tokio::test]
async fn create_answers_with_task_and_instance() {
    let sim = quick().start().await.unwrap();
    let caller = Caller::of(&sim);
    let answer = caller.post("/instance/create", &create_body("web-1")).await;
    envelope(&answer, 202, 0, false);
    assert_eq!(
        fields(&answer.body),
        ["asyncTaskInfo", "httpStatus", "rowCount"]
    );
    assert_eq!(
        fields(&answer.body["asyncTaskInfo"]),
        ["asyncTaskUUID", "ecsResourceUUID"]
    );
    assert!(text(&answer.body["asyncTaskInfo"]["ecsResourceUUID"]).starts_with("ecs-"));
}

#[tokio::test]
async fn detail_has_every_field_of_the_specification() {
    let sim = quick().start().await.unwrap();
    let caller = Caller::of(&sim);
    let (server, _) = caller.create("web-1").await;
    settle(&sim).await;
    let answer = caller
        .get("/instance/detail", &[("ecsResourceUUID", &server)])
        .await;
    envelope(&answer, 200, 0, true);
    let instance = &answer.body["instance"];
    assert_eq!(
        fields(instance),
        INSTANCE_FIELDS.split_whitespace().collect::<Vec<_>>()
    );
    assert_eq!(instance["ecsStatus"], "STARTED");
    assert_eq!(instance["ecsPendingStatus"], "NONE");
    assert_eq!(instance["sysAccount"], "root");
    assert_eq!(
        instance["createTime"].as_str().map(str::len),
        Some("YYYY-MM-DD HH:MM:SS".len())
    );
    assert!(!text(&instance["publicIpAddress"]).is_empty());
}

#[tokio::test]
async fn data_disks_add_up() {
    let sim = quick().start().await.unwrap();
    let caller = Caller::of(&sim);
    let mut body = create_body("db-1");
    body["packageConfig"]["packageCode"] = json!(catalogue::example().other_package);
    let answer = caller.post("/instance/create", &body).await;
    let server = text(&answer.body["asyncTaskInfo"]["ecsResourceUUID"]);
    let answer = caller
        .get("/instance/detail", &[("ecsResourceUUID", &server)])
        .await;
    let instance = &answer.body["instance"];
    let disks = instance["dataDiskInfoList"].as_array().unwrap();
    assert_eq!(
        fields(&disks[0]),
        [
            "dataDiskCategory",
            "dataDiskResourceUUID",
            "dataDiskSize",
            "snapshotNum"
        ]
    );
    assert_eq!(
        disks
            .iter()
            .map(|disk| disk["dataDiskSize"].as_u64().unwrap())
            .sum::<u64>(),
        100
    );
    assert_eq!(instance["dataDiskSize"], 100);
    assert_eq!(instance["internetChargeType"], "PAY_BY_BANDWIDTH");
}

#[tokio::test]
async fn the_other_operations_answer_with_a_flat_task_and_release_with_a_nested_one() {
    let sim = quick().start().await.unwrap();
    let caller = Caller::of(&sim);
    let known = catalogue::example();
    let (server, _) = caller.create("web-1").await;
    let steps = [
        (
            "/instance/stop",
            json!({ "ecsResourceUUID": server, "forceStop": true }),
        ),
        ("/instance/start", json!({ "ecsResourceUUID": server })),
        ("/instance/restart", json!({ "ecsResourceUUID": server })),
        (
            "/instance/modifyInstancePassword",
            json!({ "ecsResourceUUID": server, "password": "Other1!pw", "regionCode": known.region }),
        ),
        (
            "/instance/reinstallSystem",
            json!({ "ecsResourceUUID": server, "imageResourceUUID": known.other_image,
                "sshKeyResourceUUID": known.key, "regionCode": known.region }),
        ),
    ];
    for (path, body) in steps {
        settle(&sim).await;
        let answer = caller.post(path, &body).await;
        envelope(&answer, 202, 0, false);
        assert_eq!(
            fields(&answer.body),
            ["asyncTaskUUID", "httpStatus", "rowCount"],
            "{path}"
        );
    }
    settle(&sim).await;
    let answer = caller
        .post("/instance/release", &json!({ "ecsResourceUUID": server }))
        .await;
    envelope(&answer, 200, 0, false);
    assert_eq!(
        fields(&answer.body["asyncTaskInfo"]),
        ["asyncTaskUUID", "ecsResourceUUID"]
    );
    settle(&sim).await;
    let answer = caller
        .get("/instance/detail", &[("ecsResourceUUID", &server)])
        .await;
    assert_eq!(answer.status, 404);
    assert_eq!(fields(&answer.body), ["code", "httpStatus", "message"]);
    assert_eq!(answer.body["code"], "InvalidInstance.NotFound");
}

#[tokio::test]
async fn the_task_query_goes_from_processing_to_success() {
    let sim = Simulator::builder()
        .task_duration(common::ENDLESS)
        .start()
        .await
        .unwrap();
    let caller = Caller::of(&sim);
    let (_, task) = caller.create("web-1").await;
    let answer = caller
        .get("/asynctask/getResult", &[("asyncTaskUUID", &task)])
        .await;
    envelope(&answer, 202, 0, false);
    assert_eq!(
        answer.body["asyncTaskInfo"],
        json!({ "taskStatus": "PROCESSING" })
    );
    let sim = quick().start().await.unwrap();
    let caller = Caller::of(&sim);
    let (_, task) = caller.create("web-1").await;
    settle(&sim).await;
    let answer = caller
        .get("/asynctask/getResult", &[("asyncTaskUUID", &task)])
        .await;
    let finished = json!({ "taskStatus": "FINISHED", "processResult": "SUCCESS" });
    assert_eq!(answer.body["asyncTaskInfo"], finished);
}

#[tokio::test]
async fn the_instance_list_needs_region_and_zone_and_pages() {
    let sim = quick().start().await.unwrap();
    let caller = Caller::of(&sim);
    for number in 0..12 {
        caller.create(&format!("web-{number}")).await;
    }
    let answer = caller.get("/instance/list", &zone_query()).await;
    envelope(&answer, 202, 12, false);
    let rows = answer.body["instances"].as_array().unwrap();
    assert_eq!(
        (rows.len(), &rows[0]["instanceName"]),
        (10, &json!("web-11"))
    );
    let [region, zone] = zone_query();
    let second = caller
        .get("/instance/list", &[region, zone, ("page", "2")])
        .await;
    assert_eq!(second.body["instances"].as_array().unwrap().len(), 2);
    for (query, code) in [
        (vec![zone], "InvalidRegionCode.NotNull"),
        (vec![region], "InvalidZoneCode.NotNull"),
        (
            vec![region, zone, ("pageSize", "51")],
            "InvalidPageSize.OutOfRange",
        ),
    ] {
        let answer = caller.get("/instance/list", &query).await;
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!(code)));
    }
}

#[tokio::test]
async fn lists_of_the_catalogue_are_as_specified() {
    let sim = quick().start().await.unwrap();
    let caller = Caller::of(&sim);
    let region = ("regionCode", catalogue::example().region);
    let whole = ("pageSize", "50");

    let answer = caller.get("/firewall/list", &[region, whole]).await;
    envelope(&answer, 202, 56, true);
    let rows = answer.body["firewalls"].as_array().unwrap();
    assert_eq!(rows.len(), 50);
    assert!(
        rows.iter().any(|row| row.get("description").is_none()),
        "it is optional"
    );
    assert!(rows.iter().any(|row| row["description"].is_string()));

    for kind in ["System", "Self", "Application"] {
        let answer = caller
            .get("/image/list", &[region, whole, ("imageType", kind)])
            .await;
        let rows = answer.body["images"].as_array().unwrap();
        envelope(&answer, 202, rows.len() as u64, true);
        assert!(rows.len() > 10);
        for row in rows {
            assert_eq!(row["imageType"], kind);
            assert_eq!(row["snapshotUUID"].is_string(), kind == "Self");
            assert_eq!(row["snapshotUUID"].is_null(), kind != "Self");
        }
    }
    let answer = caller
        .get("/image/list", &[region, ("imageType", "Other")])
        .await;
    assert_eq!(
        (answer.status, &answer.body["code"]),
        (400, &json!("InvalidImageType.Malformed"))
    );

    let answer = caller.get("/sshkey/list", &[whole]).await;
    envelope(&answer, 202, 58, false);
    assert_eq!(
        fields(&answer.body["sshKeys"][0]),
        ["createTime", "sshKeyName", "sshKeyUUID"]
    );

    let answer = caller.get("/region/list", &[]).await;
    envelope(&answer, 202, 8, false);
    assert_eq!(
        fields(&answer.body["regions"][0]),
        ["regionCode", "regionName", "zones"]
    );
    assert_eq!(
        fields(&answer.body["regions"][0]["zones"][0]),
        ["zoneCode", "zoneName"]
    );
}

#[tokio::test]
async fn the_package_list_has_no_envelope() {
    let sim = quick().start().await.unwrap();
    let caller = Caller::of(&sim);
    let [region, zone] = zone_query();
    let answer = caller.get("/package/list", &[region]).await;
    assert_eq!(
        (answer.status, fields(&answer.body)),
        (200, vec!["packages"])
    );
    let rows = answer.body["packages"].as_array().unwrap();
    assert!(rows.len() > 60);
    for row in rows {
        let by_traffic = row["publicIpChargeMode"] == "PayByTraffic";
        assert_eq!(row.get("freeFlow").is_some(), by_traffic);
        assert_eq!(row.get("bandwidth").is_some(), !by_traffic);
    }
    assert!(rows.iter().any(|row| row.get("dataDiskSize").is_none()));
    let code = ("packageCode", catalogue::example().package);
    let answer = caller.get("/package/list", &[region, zone, code]).await;
    assert_eq!(answer.body["packages"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn bad_tokens_accounts_forms_and_paths_are_refused() {
    let sim = quick().start().await.unwrap();
    let caller = Caller::of(&sim);
    let unknown_caller = caller.with_token("unknown").get("/region/list", &[]).await;
    let known = json!({
        "code": "Authenticated.Error",
        "httpStatus": 401,
        "message": "The current request is not authenticated and access is not allowed",
    });
    assert_eq!((unknown_caller.status, unknown_caller.body), (401, known));
    let bare = common::answer(caller.http.get(format!("{}/region/list", sim.url())))
        .await
        .unwrap();
    assert_eq!(bare.status, 401);

    let unknown = caller.get("/instance/resize", &[]).await;
    assert_eq!(
        (unknown.status, &unknown.body["path"]),
        (501, &json!("/instance/resize"))
    );
    let misspelt = caller.get("/sshKey/list", &[]).await;
    assert_eq!(misspelt.status, 501, "the specification's path stands");
    let unknown_caller = caller.with_token("unknown");
    let unknown_caller = unknown_caller.get("/instance/resize", &[]).await;
    assert_eq!(unknown_caller.status, 401, "the token is checked first");

    let method = caller.get("/instance/create", &[]).await;
    assert_eq!(method.status, 405);
    let post = caller
        .http
        .post(format!("{}/instance/stop", sim.url()))
        .header("x-open-token", sim.token());
    let form = common::answer(post.body("{}")).await.unwrap();
    assert_eq!(
        (form.status, &form.body["code"]),
        (415, &json!("InvalidContentType.NotSupported"))
    );
    let garbage = caller
        .post("/instance/stop", &json!({ "ecsResourceUUID": 5 }))
        .await;
    assert_eq!(
        (garbage.status, &garbage.body["code"]),
        (400, &json!("InvalidRequestBody.Malformed"))
    );

    sim.set_account_status("default", AccountStatus::Frozen)
        .unwrap();
    let frozen = caller.post("/instance/create", &create_body("web-1")).await;
    assert_eq!(
        (frozen.status, &frozen.body["code"]),
        (403, &json!("AccountStatus.Abnormal"))
    );
    assert!(sim.ledger().effects().is_empty());
}
