//! Describes objects, for people and for digests.

use serde_json::Value;

/// A record without the values that differ between processes.
pub fn without_nonce(text: &str) -> String {
    let mut record: Value = serde_json::from_str(text).unwrap_or_default();
    record["nonce"] = Value::Null;
    record["startedAt"] = Value::Null;
    record.to_string()
}

/// An object in a line.
pub fn outline(object: &Value) -> String {
    let record = crate::oracle::record(object);
    let record = record.map(|r| {
        format!(
            "create #{} id {:?} task {}",
            r.attempt,
            r.id,
            r.task.is_some()
        )
    });
    let runs = crate::oracle::operation(object);
    let runs = runs.map(|o| {
        format!(
            "{} #{} taken {} end {:?}",
            o.verb,
            o.attempt,
            o.accepted,
            o.end.map(|end| end.reason)
        )
    });
    let status = &object["status"];
    let conditions: Vec<String> = status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|c| format!("{}={}/{}", c["type"], c["status"], c["reason"]).replace('"', ""))
        .collect();
    format!(
        "rv {} gen {}/{} {} {} of {} {} {}",
        object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default(),
        status["observedGeneration"],
        object["metadata"]["generation"],
        record.unwrap_or_default(),
        runs.unwrap_or_default(),
        status["id"],
        conditions.join(" "),
        if object["metadata"]["deletionTimestamp"].is_string() {
            "deleting"
        } else {
            ""
        },
    )
}

/// Encodes as in Secrets.
pub fn base64(text: &str) -> String {
    data_encoding::BASE64.encode(text.as_bytes())
}

/// Which of its passwords are equal, and which keys exist: the values themselves differ between runs.
pub fn phase_of_secret(secret: &Value) -> (Vec<String>, bool) {
    let data = secret["data"].as_object();
    let keys = data.into_iter().flatten().map(|(key, _)| key.clone());
    let is_settled = secret["data"]["password"] == secret["data"]["current"];
    (keys.collect(), is_settled)
}
