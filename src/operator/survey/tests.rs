use super::*;
use crate::runtime::Metrics;
use crate::runtime::watch::ObjectKey;
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

/// Asserts that a scrape that follows a survey of these Instances has these lines, each with its number.
fn assert_counted(
    metrics: &Metrics,
    instances: &[DeserializeGuard<Instance>],
    lines: &[(&str, &str)],
) {
    let store = Store::default();
    for (number, instance) in instances.iter().enumerate() {
        store.put(&ObjectKey::new("team", &number.to_string()), instance);
    }
    let now = "2026-11-21T15:10:00Z".parse().unwrap();
    let (accounts, listings) = (Store::default(), Listings::default());
    survey(metrics, "0-of-1", &store, &accounts, listings, now);
    let text = metrics.encode();
    for (series, number) in lines {
        let line = format!("cloud_server_operator_{series}}} {number}\n");
        assert!(text.contains(&line), "{line} in {text}");
    }
}

#[test]
fn instances_are_counted_by_state_and_reason_even_with_unexpected_conditions() {
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
    let states = [
        ("ready", "Available", "2"),
        ("stalled", "ImageDiffers", "1"),
        ("reconciling", "Creating", "1"),
        ("unknown", "Unknown", "1001"),
        ("stalled", "Undecodable", "1"),
    ];
    let series = states.map(|(state, reason, _)| {
        format!("instances{{shard=\"0-of-1\",state=\"{state}\",reason=\"{reason}\"")
    });
    let mut lines = vec![("instances_drifted{shard=\"0-of-1\"", "1")];
    let numbers = states.map(|(_, _, number)| number);
    lines.extend(series.iter().map(String::as_str).zip(numbers));
    let metrics = Metrics::default();
    assert_counted(&metrics, &all, &lines);
    let counted = |text: &str| text.matches("cloud_server_operator_instances{").count();
    assert_eq!(counted(&metrics.encode()), 5);
    // A state that no object has any more disappears with the next scrape.
    assert_counted(&metrics, &[instance(&ready)], &[(&series[0], "1")]);
    assert_eq!(counted(&metrics.encode()), 1);
}

#[test]
fn the_oldest_operation_of_a_verb_counts_and_one_that_ended_does_not() {
    let operation = |verb: &str, started: &str| json!({"operation": {"verb": verb, "attempt": 1, "startedAt": started}});
    let mut ended = operation("Stop", "2026-11-21T14:00:00Z");
    ended["operation"]["end"] = json!({"reason": "Failed", "finishedAt": "2026-11-21T14:01:00Z"});
    let instances = [
        instance(&operation("ModifyPassword", "2026-11-21T15:09:00Z")),
        instance(&operation("ModifyPassword", "2026-11-21T15:08:00Z")),
        // Announced by a process whose clock runs ahead.
        instance(&operation("Restart", "2026-11-21T16:00:00Z")),
        instance(&ended),
    ];
    let count = |verb| format!("operations_in_progress{{shard=\"0-of-1\",verb=\"{verb}\"");
    let age = |verb| {
        format!("operations_in_progress_oldest_age_seconds{{shard=\"0-of-1\",verb=\"{verb}\"")
    };
    let lines = [
        (&*count("modify_password"), "2"),
        (&*age("modify_password"), "120.0"),
        (&*count("restart"), "1"),
        (&*age("restart"), "0.0"),
        (&*count("stop"), "0"),
    ];
    assert_counted(&Metrics::default(), &instances, &lines);
}
