//! Formats bodies and statuses as in the specification, varied by the readings.

use serde_json::{Map, Value, json};

use super::RawReply;
use super::endpoint::Endpoint;
use crate::catalogue::{Charge, Firewall, Image, Key, Package, Region};
use crate::model::{Answer, Page, Refusal, ServerView, TaskReport, Verb};
use crate::readings::{
    FailReason, FailureShape, HttpStatus, ListRows, Readings, ResultWhileProcessing, RowCount,
    TaskId,
};

/// The fields of a minimal row of the instance list: identity and status of the instance.
const MINIMAL: [&str; 7] = [
    "ecsResourceUUID",
    "instanceName",
    "ecsStatus",
    "ecsPendingStatus",
    "regionCode",
    "zoneCode",
    "createTime",
];

/// The status in the envelope of answers, regardless of the HTTP status (section 2.2).
const ENVELOPE_STATUS: u16 = 202;

/// Formats an answer or a refusal.
#[must_use]
pub fn render(
    endpoint: Endpoint,
    readings: &Readings,
    outcome: &Result<Answer, Refusal>,
) -> RawReply {
    let answer = match outcome {
        Ok(answer) => answer,
        Err(refusal) => return render_refusal(readings, refusal),
    };
    let (body, rows) = match answer {
        Answer::Accepted { verb, task, server } => {
            (accepted(readings, *verb, task, server), Some(0))
        }
        Answer::Instance(view) => (json!({ "instance": view }), Some(0)),
        Answer::Task(report) => (
            json!({ "asyncTaskInfo": task_info(readings, report) }),
            Some(0),
        ),
        Answer::Instances(page) => listing("instances", readings, page, |view| row(readings, view)),
        Answer::Firewalls(page) => {
            listing("firewalls", readings, page, |each| firewall(readings, each))
        }
        Answer::Images(page) => listing("images", readings, page, image),
        Answer::Keys(page) => listing("sshKeys", readings, page, |each| key(readings, each)),
        Answer::Packages(packages) => (
            json!({ "packages": packages.iter().map(package).collect::<Vec<_>>() }),
            None,
        ),
        Answer::Regions(regions) => {
            let rows: Vec<Value> = regions.iter().map(region).collect();
            let count = rows.len();
            (json!({ "regions": rows }), Some(count))
        }
    };
    let mut reply = RawReply {
        status: success(endpoint, readings),
        body,
    };
    if let Some(rows) = rows {
        reply.body["httpStatus"] = json!(ENVELOPE_STATUS);
        reply.body["rowCount"] = json!(rows);
    }
    if readings.success_code {
        reply.body["code"] = json!(200);
    }
    if matches!(
        answer,
        Answer::Instance(_) | Answer::Firewalls(_) | Answer::Images(_)
    ) {
        reply.body["success"] = json!(true);
    }
    reply
}

fn success(endpoint: Endpoint, readings: &Readings) -> u16 {
    match readings.http_status {
        HttpStatus::AsSpecified => endpoint.success(),
        HttpStatus::Ok => 200,
        HttpStatus::Accepted => 202,
    }
}

/// Formats a refusal. A missing token is an HTTP 401 in every reading (field note 11).
#[must_use]
pub fn render_refusal(readings: &Readings, refusal: &Refusal) -> RawReply {
    let shape = if refusal.status == 401 {
        FailureShape::HttpStatus
    } else if refusal.code == "InvalidInstance.NotFound" {
        readings.not_found
    } else {
        readings.refusals
    };
    let mut body = json!({
        "code": refusal.code,
        "httpStatus": refusal.status,
        "message": refusal.message,
    });
    let status = match shape {
        FailureShape::HttpStatus => refusal.status,
        FailureShape::SuccessFalse => {
            body["success"] = json!(false);
            200
        }
        FailureShape::Envelope => 200,
    };
    RawReply { status, body }
}

/// Reports clearly that the simulator does not model a path.
#[must_use]
pub fn unmodelled(method: &str, path: &str) -> RawReply {
    let message = format!("the simulator does not model {method} {path}");
    RawReply {
        status: 501,
        body: json!({ "code": "Simulator.NotModelled", "httpStatus": 501, "message": message, "path": path }),
    }
}

fn accepted(readings: &Readings, verb: Verb, task: &str, server: &str) -> Value {
    let nested = match readings.task_id {
        TaskId::AsSpecified => matches!(verb, Verb::Create | Verb::Release),
        TaskId::Nested => true,
        TaskId::Flat => false,
    };
    // Only the answers of create and release name the instance; the other requests name it themselves.
    let names_server = matches!(verb, Verb::Create | Verb::Release);
    let mut info = json!({ "asyncTaskUUID": task });
    if names_server {
        info["ecsResourceUUID"] = json!(server);
    }
    if nested {
        json!({ "asyncTaskInfo": info })
    } else {
        info
    }
}

fn task_info(readings: &Readings, report: &TaskReport) -> Value {
    let mut info = json!({ "taskStatus": report.status });
    match (&report.result, readings.result_while_processing) {
        (Some(result), _) => info["processResult"] = json!(result),
        (None, ResultWhileProcessing::Absent) => {}
        (None, ResultWhileProcessing::Null) => info["processResult"] = Value::Null,
        (None, ResultWhileProcessing::Empty) => info["processResult"] = json!(""),
        (None, ResultWhileProcessing::Retry) => info["processResult"] = json!("RETRY"),
    }
    if let Some(reason) = &report.reason {
        let field = match readings.fail_reason {
            FailReason::ErrorMessage => "errorMessage",
            FailReason::FailMessage => "failMessage",
            FailReason::Remark => "remark",
            FailReason::Message => "message",
        };
        info[field] = json!(reason);
    }
    info
}

fn listing<T>(
    field: &str,
    readings: &Readings,
    page: &Page<T>,
    row: impl Fn(&T) -> Value,
) -> (Value, Option<usize>) {
    let rows: Vec<Value> = page.rows.iter().map(row).collect();
    let count = match readings.row_count {
        RowCount::All => page.total,
        RowCount::Page => rows.len(),
    };
    (json!({ field: rows }), Some(count))
}

fn row(readings: &Readings, view: &ServerView) -> Value {
    let mut full = serde_json::to_value(view).unwrap_or_default();
    if let Some(time) = &view.expire_time {
        full["expireTime"] = json!(time);
    }
    if readings.os_in_rows {
        full["osName"] = json!(view.os_distro_version);
        full["osVersionDetail"] = json!(view.image_name);
    }
    match (readings.list_rows, full) {
        (ListRows::Minimal, Value::Object(mut fields)) => {
            let kept = MINIMAL.iter().filter_map(|name| fields.remove_entry(*name));
            Value::Object(kept.collect::<Map<_, _>>())
        }
        (_, full) => full,
    }
}

fn firewall(
    readings: &Readings,
    (firewall, members, region_name): &(Firewall, usize, String),
) -> Value {
    let mut row = json!({
        "firewallUUID": firewall.id,
        "firewallName": firewall.name,
        "firewallStatus": "AVAILABLE",
        "bindIpAllowance": firewall.bind_allowance,
        "ecsNumber": members,
        "ruleNumber": firewall.rules,
        "regionCode": firewall.region,
        "regionName": region_name,
        "createTime": readings.time(firewall.created_at),
    });
    if let Some(description) = &firewall.description {
        row["description"] = json!(description);
    }
    row
}

fn image(image: &Image) -> Value {
    json!({
        "imageResourceUUID": image.id,
        "imageName": image.name,
        "imageType": image.kind.word(),
        "imageSize": image.size,
        "imageAccount": image.account,
        "osDistroVersion": image.distro,
        "osVersion": image.os_version,
        "osVersionDetail": image.os_version_detail,
        "snapshotUUID": image.snapshot,
        "supportChangeSysDiskSize": image.resizable,
        "supportIpv6": image.ipv6,
        "supportSsh": image.ssh,
    })
}

fn key(readings: &Readings, key: &Key) -> Value {
    json!({
        "sshKeyUUID": key.id,
        "sshKeyName": key.name,
        "createTime": readings.time(key.created_at),
    })
}

fn package(package: &Package) -> Value {
    let mut row = json!({
        "packageCode": package.code,
        "regionCode": package.region,
        "zoneCode": package.zone,
        "cpu": package.cpu,
        "memory": package.memory,
        "systemDiskSize": package.system_disk,
    });
    if let Some(size) = package.data_disk {
        row["dataDiskSize"] = json!(size);
    }
    match package.charge {
        Charge::Traffic { free_flow } => {
            row["publicIpChargeMode"] = json!("PayByTraffic");
            row["freeFlow"] = json!(free_flow);
        }
        Charge::Bandwidth { bandwidth } => {
            row["publicIpChargeMode"] = json!("PayByBandwidth");
            row["bandwidth"] = json!(bandwidth);
        }
    }
    row
}

fn region(region: &Region) -> Value {
    let zone =
        |zone: &crate::catalogue::Zone| json!({ "zoneCode": zone.code, "zoneName": zone.name });
    json!({
        "regionCode": region.code,
        "regionName": region.name,
        "zones": region.zones.iter().map(zone).collect::<Vec<_>>(),
    })
}
