//! What specs say beside the ordinary: JSON merge patches, for schedules of every kind.

use cloud_server_operator::runtime::chance;
use cloud_simulator::catalogue::{Catalogue, example};
use serde_json::{Value, json};

/// A password that the operator makes, and a Secret for clients.
pub fn generated() -> Value {
    json!({
        "login": {"passwordSecretRef": null, "sshKey": null, "generate": {}},
        "connectionSecret": {"name": "each-its-own"},
    })
}

/// It is replaced every half a minute. The schema wants an hour; the operator does not know that, and runs stay short.
pub fn rotates() -> Value {
    json!({"login": {"generate": {"rotateEvery": "30s"}}})
}

/// It stays as it is.
pub fn rotates_no_more() -> Value {
    json!({"login": {"generate": {"rotateEvery": null}}})
}

/// So many servers are bought in the place of those that somebody else released.
pub fn recreates(limit: u8) -> Value {
    json!({"onExternalDeletion": "Recreate", "recreateLimit": limit})
}

/// No server is bought in the place of another one any more.
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

/// Deleting it releases nothing, or does.
pub fn protected(is_protected: bool) -> Value {
    json!({"deletionProtection": is_protected})
}

/// Manage or Observe.
pub fn management(policy: &str) -> Value {
    json!({"managementPolicy": policy})
}

/// Nothing is begun.
pub fn paused() -> Value {
    json!({"pause": {}})
}

/// Nothing is begun for so many seconds from the beginning of the run.
pub fn paused_until(second: i64) -> Value {
    let until = jiff::Timestamp::from_second(chance::SEEDED_DAY + second);
    json!({"pause": {"until": until.unwrap_or_default().to_string()}})
}

/// The detail is read anew every minute.
pub fn resyncs() -> Value {
    json!({"resyncPeriod": "60s"})
}

/// The pause is over.
pub fn goes_on() -> Value {
    json!({"pause": null})
}

/// The power is cut: Never, AfterGracePeriod (of five seconds) or Always.
pub fn forces(force: &str) -> Value {
    json!({"stopPolicy": {"force": force, "gracePeriodSeconds": 5}})
}

/// Image and package by what they are.
pub fn by_name() -> Value {
    let catalogue = Catalogue::shared();
    let image = catalogue.image(example().image);
    let name = image.map(|image| image.name.clone());
    json!({
        "image": {"id": null, "name": name, "type": "System"},
        "package": {"code": null, "cpu": 1, "memory": 2},
    })
}
