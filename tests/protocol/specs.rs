//! Variations of specs as JSON merge patches, for schedules of every kind.

use cloud_server_operator::runtime::chance;
use cloud_simulator::catalogue::{Catalogue, example};
use serde_json::{Value, json};

/// A password that the operator generates, and a connection Secret.
pub fn generated() -> Value {
    json!({
        "login": {"passwordSecretRef": null, "sshKey": null, "generate": {}},
        "connectionSecret": {"name": "each-its-own"},
    })
}

/// The password is rotated every half a minute. The schema requires an hour; the operator does not check that, and runs stay
/// short.
pub fn rotates() -> Value {
    json!({"login": {"generate": {"rotateEvery": "30s"}}})
}

/// The password is not rotated.
pub fn rotates_no_more() -> Value {
    json!({"login": {"generate": {"rotateEvery": null}}})
}

/// An externally released server is replaced up to this number of times.
pub fn recreates(limit: u8) -> Value {
    json!({"onExternalDeletion": "Recreate", "recreateLimit": limit})
}

/// Servers are not replaced any more.
pub fn recreates_no_more() -> Value {
    json!({"onExternalDeletion": "Fail"})
}

/// Reinstalls are Automatic, OnRequest or Never.
pub fn reinstalls(policy: &str) -> Value {
    json!({"reinstallPolicy": policy})
}

/// The server outlives its Instance.
pub fn retains() -> Value {
    json!({"deletionPolicy": "Retain"})
}

/// A deletion releases nothing, or releases the server.
pub fn protected(is_protected: bool) -> Value {
    json!({"deletionProtection": is_protected})
}

/// Manage or Observe.
pub fn management(policy: &str) -> Value {
    json!({"managementPolicy": policy})
}

/// The operator begins nothing.
pub fn paused() -> Value {
    json!({"pause": {}})
}

/// The operator begins nothing for this many seconds from the beginning of the run.
pub fn paused_until(second: i64) -> Value {
    let until = jiff::Timestamp::from_second(chance::SEEDED_DAY + second);
    json!({"pause": {"until": until.unwrap_or_default().to_string()}})
}

/// The detail is read again every minute.
pub fn resyncs() -> Value {
    json!({"resyncPeriod": "60s"})
}

/// The pause is over.
pub fn goes_on() -> Value {
    json!({"pause": null})
}

/// The policy for power cuts: Never, AfterGracePeriod (of five seconds) or Always.
pub fn forces(force: &str) -> Value {
    json!({"stopPolicy": {"force": force, "gracePeriodSeconds": 5}})
}

/// Selects image and package by properties.
pub fn by_name() -> Value {
    let catalogue = Catalogue::shared();
    let image = catalogue.image(example().image);
    let name = image.map(|image| image.name.clone());
    json!({
        "image": {"id": null, "name": name, "type": "System"},
        "package": {"code": null, "cpu": 1, "memory": 2},
    })
}
