//! Objects as users write them, and helpers that read their status.

use cloud_server_operator::api::conditions::OWN_TYPES;
use cloud_server_operator::api::{Instance, InstanceStatus};
use cloud_simulator::catalogue;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

/// An Instance that logs in by the password in Secret `login`.
pub fn instance(name: &str) -> Value {
    let example = catalogue::example();
    json!({
        "apiVersion": "cloudserver.dev/v1alpha1",
        "kind": "Instance",
        "metadata": {"name": name},
        "spec": {
            "region": example.region,
            "zone": example.zone,
            "package": {"code": example.package},
            "image": {"id": example.image},
            "firewall": {"id": example.firewall},
            "login": {"passwordSecretRef": {"name": "login", "key": "password"}},
        },
    })
}

/// An Instance that logs in by key.
pub fn instance_by_key(name: &str) -> Value {
    let mut manifest = instance(name);
    manifest["spec"]["login"] = json!({"sshKey": {"id": catalogue::example().key}});
    manifest
}

/// A name of this length that Kubernetes accepts, with dots; the longest one has 253 characters.
pub fn name_of_length(length: usize) -> String {
    let label = "a".repeat(63);
    format!("{label}.{label}.{label}.{}", "b".repeat(length - 192))
}

/// An Instance with a changed spec.
pub fn with(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut manifest = instance(name);
    change(&mut manifest["spec"]);
    manifest
}

/// The Instance with another image.
pub fn other_image(name: &str) -> Value {
    with(name, |spec| {
        spec["image"]["id"] = json!(catalogue::example().other_image);
    })
}

/// The Instance with the power state Stopped.
pub fn stopped(name: &str) -> Value {
    with(name, |spec| spec["powerState"] = json!("Stopped"))
}

/// The Instance with this restart token.
pub fn token(name: &str, token: &str) -> Value {
    with(name, |spec| spec["restart"] = json!({"token": token}))
}

/// A condition by its type.
pub fn condition<'a>(instance: &'a Instance, kind: &str) -> Option<&'a Condition> {
    instance
        .status
        .as_ref()?
        .conditions
        .iter()
        .find(|condition| condition.type_ == kind)
}

/// The message of the Ready condition.
pub fn ready_message(instance: &Instance) -> &str {
    &condition(instance, "Ready").unwrap().message
}

/// The identifier of the server in status.
pub fn server_id(instance: &Instance) -> String {
    instance.status.as_ref().unwrap().id.clone().unwrap()
}

/// The reason of the Ready condition; empty without that condition.
pub fn reason(instance: &Instance) -> &str {
    condition(instance, "Ready").map_or("", |ready| ready.reason.as_str())
}

/// Ready for the current generation.
pub fn is_ready(instance: &Instance) -> bool {
    let generation = instance.metadata.generation;
    let observed = instance
        .status
        .as_ref()
        .map(|status| status.observed_generation);
    generation == observed
        && condition(instance, "Ready").is_some_and(|ready| ready.status == "True")
}

/// A one-line summary of status.
pub fn outline(instance: &Instance) -> String {
    let Some(status) = &instance.status else {
        return "no status".to_owned();
    };
    let conditions: Vec<String> = status
        .conditions
        .iter()
        .map(|c| format!("{}={} {} ({})", c.type_, c.status, c.reason, c.message))
        .collect();
    format!(
        "generation {:?}, observed {}, id {:?}, {}",
        instance.metadata.generation,
        status.observed_generation,
        status.id,
        conditions.join("; ")
    )
}

/// The number of conditions other than `Ready` and `Synced`, which a healthy Instance has.
pub fn abnormal(status: &InstanceStatus) -> usize {
    let types = status.conditions.iter().map(|c| c.type_.as_str());
    types
        .filter(|type_| OWN_TYPES.contains(type_) && !["Ready", "Synced"].contains(type_))
        .count()
}
