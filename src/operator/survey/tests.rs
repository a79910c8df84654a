use super::*;
use crate::api::Instance;
use crate::runtime::metrics::ObjectState;
use crate::runtime::store::Stored;
use kube::core::DeserializeGuard;
use serde_json::{Value, json};

fn instance(status: &Value) -> DeserializeGuard<Instance> {
    serde_json::from_value(json!({
        "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance",
        "metadata": {"name": "web", "namespace": "team"},
        "spec": {
            "region": "r", "zone": "z", "package": {"code": "p"},
            "image": {"id": "i"}, "firewall": {"id": "f"}, "login": {"sshKey": {"id": "k"}},
        },
        "status": status,
    }))
    .unwrap()
}

fn condition(type_: &str, status: &str, reason: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": "m",
        "lastTransitionTime": "2026-11-21T15:00:00Z",
    })
}

fn counted(instances: &[DeserializeGuard<Instance>]) -> Fleet {
    let mut fleet = Fleet::default();
    let now = "2026-11-21T15:10:00Z".parse().unwrap();
    for instance in instances {
        let brief = Instance::brief(instance);
        count_instance(&mut fleet, &brief, now);
    }
    fleet
}

#[test]
fn instances_are_counted_by_state_and_reason_whatever_stands_in_them() {
    let ready = json!({"conditions": [condition("Ready", "True", "Available")]});
    let stalled = json!({"conditions": [
        condition("Ready", "False", "ImageDiffers"), condition("Stalled", "True", "ImageDiffers"),
        condition("Drifted", "True", "ImageDiffers"),
    ]});
    let waits = json!({"conditions": [
        condition("Ready", "False", "Creating"), condition("Reconciling", "True", "Creating"),
    ]});
    let mut all: Vec<_> = [&ready, &ready, &stalled, &waits, &json!({})]
        .map(instance)
        .into();
    // A thousand objects with words of their own make no label.
    for n in 0..1000 {
        let words = format!("Words{n}");
        all.push(instance(
            &json!({"conditions": [condition("Ready", "False", &words)]}),
        ));
    }
    let unreadable: DeserializeGuard<Instance> = serde_json::from_value(json!({
        "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance",
        "metadata": {"name": "new", "namespace": "team"}, "spec": 7,
    }))
    .unwrap();
    all.push(unreadable);
    let fleet = counted(&all);
    let of = |state, reason| fleet.instances.get(&ObjectState { state, reason }).copied();
    assert_eq!(of("ready", "Available"), Some(2));
    assert_eq!(of("stalled", "ImageDiffers"), Some(1));
    assert_eq!(of("reconciling", "Creating"), Some(1));
    assert_eq!(of("unknown", "Unknown"), Some(1001));
    assert_eq!(of("stalled", "Undecodable"), Some(1));
    assert_eq!((fleet.instances.len(), fleet.drifted), (5, 1));
}

#[test]
fn the_oldest_operation_of_a_verb_counts_and_one_that_ended_does_not() {
    let operation = |verb: &str, started: &str| json!({"operation": {"verb": verb, "attempt": 1, "startedAt": started}});
    let mut ended = operation("Stop", "2026-11-21T14:00:00Z");
    ended["operation"]["end"] = json!({"reason": "Failed", "finishedAt": "2026-11-21T14:01:00Z"});
    let fleet = counted(&[
        instance(&operation("ModifyPassword", "2026-11-21T15:09:00Z")),
        instance(&operation("ModifyPassword", "2026-11-21T15:08:00Z")),
        // Announced by a process whose clock runs ahead.
        instance(&operation("Restart", "2026-11-21T16:00:00Z")),
        instance(&ended),
    ]);
    let of = |verb| fleet.operations.get(verb).copied().unwrap_or_default();
    let two_minutes = std::time::Duration::from_secs(120);
    let (count, oldest) = (2, two_minutes);
    assert_eq!(of("modify_password"), Open { count, oldest });
    let (count, oldest) = (1, std::time::Duration::ZERO);
    assert_eq!(of("restart"), Open { count, oldest });
    assert_eq!(of("stop"), Open::default());
}
