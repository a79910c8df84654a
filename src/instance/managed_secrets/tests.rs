//! What a generated login Secret says, as its keys stand.

use super::*;
use serde_json::json;

const UID: &str = "uid-of-web";

fn content(data: &Value) -> Content {
    let data: Map<String, Value> = data
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, text)| {
            let text = BASE64.encode(text.as_str().unwrap().as_bytes());
            (key.clone(), Value::from(text))
        })
        .collect();
    let mut secret: Secret = serde_json::from_value(json!({
        "metadata": {
            "uid": "u", "resourceVersion": "7",
            "labels": {SECRET_ROLE: LOGIN},
            "annotations": {SETTLED_FROM: "6"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "other"},
                {"apiVersion": "v1", "kind": "Instance", "name": "web", "uid": UID, "controller": true},
            ],
        },
        "data": data,
    }))
    .unwrap();
    Content::of(&mut secret)
}

#[test]
fn what_waits_is_wanted_unless_somebody_edited_the_password_since() {
    for (data, key, settled) in [
        (json!({"password": "a", "current": "a"}), PASSWORD, true),
        (
            json!({"password": "a", "current": "a", "previous": "b"}),
            PASSWORD,
            true,
        ),
        (json!({"password": "a\n", "current": "a"}), PASSWORD, true),
        (
            json!({"password": "a", "current": "a", "pending": "b"}),
            PENDING,
            false,
        ),
        (
            json!({"password": "c", "current": "a", "pending": "b"}),
            PASSWORD,
            false,
        ),
        (json!({"password": "c", "current": "a"}), PASSWORD, false),
        (json!({"password": "c"}), PASSWORD, false),
        (json!({"current": "a", "pending": "b"}), PASSWORD, false),
        (json!({"pending": "b"}), PENDING, false),
        (json!({"password": "c", "pending": "b"}), PASSWORD, false),
    ] {
        let content = content(&data);
        assert_eq!(wanted_key(&content), key, "{data}");
        assert_eq!(is_settled(&content), settled, "{data}");
    }
}

#[test]
fn a_first_password_is_told_as_in_force_only_where_a_server_is_bought_with_it() {
    let fresh = SecretString::from("Abcdef1!");
    let keys = |has_server| {
        let data = first(&fresh, has_server).data();
        let mut keys: Vec<String> = data.into_iter().map(|(key, _)| key).collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(false), [CURRENT, PASSWORD]);
    assert_eq!(keys(true), [PENDING], "it has another one");
}

#[test]
fn only_what_this_instance_controls_and_for_this_purpose_is_ours() {
    let mut content = content(&json!({}));
    assert!(is_ours(&content, UID, LOGIN));
    assert!(!is_ours(&content, UID, CONNECTION), "it holds the login");
    assert!(
        !is_ours(&content, "other", LOGIN),
        "an owner that controls nothing"
    );
    content.labels.clear();
    assert!(is_ours(&content, UID, LOGIN));
    assert!(is_of_former(&content, "web", "new") && !is_of_former(&content, "web", UID));
    assert!(!is_of_former(&content, "db", "new"), "another Instance's");
    content.controller = None;
    assert!(!is_ours(&content, UID, LOGIN), "nobody's is not ours");
    assert_eq!(settled_from(&content).as_deref(), Some("u/6"));
}

#[test]
fn an_error_does_not_repeat_what_was_to_be_written() {
    let mut change = Change::default();
    change.put(PASSWORD, "Abcdef1!");
    let encoded = BASE64.encode(b"Abcdef1!");
    let message = format!("a webhook denied Abcdef1! and {encoded}");
    let status = kube::core::Status::failure(&message, "Forbidden").with_code(403);
    let told = change.without_values(KubeError::Refused {
        operation: "create a Secret",
        status: Box::new(status),
    });
    let told = told.to_string();
    assert!(
        !told.contains("Abcdef1!") && !told.contains(&encoded),
        "{told}"
    );
    assert!(
        told.contains("a webhook denied [hidden] and [hidden]"),
        "{told}"
    );
    assert!(!format!("{change:?}").contains("Abcdef1!"));
}

#[test]
fn what_is_to_be_written_shows_no_password() {
    let mut change = Change::default();
    change.put(PASSWORD, "canary-5f0e8c2b");
    for text in [format!("{change:?}"), format!("{change:#?}")] {
        assert!(!text.contains("canary"), "{text}");
    }
}
