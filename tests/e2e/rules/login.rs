//! Cases of the rules about logins and connection Secrets.

use super::table::Case;
use crate::support::{name_of_length, with};
use serde_json::{Value, json};

pub fn cases() -> Vec<Case> {
    let (connections, lengths) = (connections(), lengths());
    logins().into_iter().chain([connections, lengths]).collect()
}

fn lengths() -> Case {
    let named = |length: usize, login: Value| {
        let mut manifest = with("web", |spec| spec["login"] = login);
        manifest["metadata"]["name"] = json!(name_of_length(length));
        manifest
    };
    Case::new(
        "the login Secret is named after this Instance and '-login', and that name is longer than 253 characters",
        true,
        vec![
            named(247, json!({"generate": {}})),
            named(253, json!({"generate": {"secretName": "own"}})),
            named(253, json!({"sshKey": {"id": "key-1"}})),
        ],
        vec![
            named(248, json!({"generate": {}})),
            named(253, json!({"generate": {}})),
        ],
    )
}

fn logins() -> Vec<Case> {
    let (given, key) = (json!({"name": "a", "key": "b"}), json!({"id": "key-1"}));
    let rotated = |text: &str| json!({"generate": {"rotateEvery": text}});
    let templated = |template: Value| json!({"generate": {"template": template}});
    vec![
        Case::rule(
            "set exactly one of login.passwordSecretRef, login.sshKey and login.generate",
            "login",
            [
                json!({"passwordSecretRef": given}),
                json!({"sshKey": key}),
                json!({"generate": {}}),
            ],
            [
                json!({}),
                json!({"passwordSecretRef": given, "sshKey": key}),
                json!({"generate": {}, "sshKey": key}),
                json!({"generate": {}, "passwordSecretRef": given}),
                json!({"generate": {}, "passwordSecretRef": given, "sshKey": key}),
            ],
        ),
        Case::rule(
            "login.generate.rotateEvery must be a duration of at least 1h",
            "login",
            ["1h", "720h", "90m", "1h30m", "3600s"].map(rotated),
            ["59m", "30s", "1d", "soon", "-2h", "0h", "h"].map(rotated),
        ),
        Case::rule(
            "must not name app.kubernetes.io/managed-by or a key that begins with cloudserver.dev/",
            "login",
            [
                templated(json!({"labels": {"team": "a", "app.kubernetes.io/part-of": "b"}})),
                templated(json!({"annotations": {"a.example/b": "any text: at all"}})),
                templated(json!({})),
            ],
            [
                templated(json!({"labels": {"cloudserver.dev/use": "token"}})),
                templated(json!({"labels": {"cloudserver.dev/marker": "aaaaaaaaaaaaa"}})),
                templated(json!({"labels": {"app.kubernetes.io/managed-by": "me"}})),
                templated(
                    json!({"annotations": {"cloudserver.dev/endpoint": "https://a.example"}}),
                ),
            ],
        ),
        Case::bound(
            "spec.login.passwordSecretRef.key: Required value",
            "login",
            [json!({"passwordSecretRef": {"name": "a", "key": "b"}})],
            [json!({"passwordSecretRef": {"name": "a"}})],
        ),
    ]
}

fn connections() -> Case {
    let (given, key) = (
        json!({"passwordSecretRef": {"name": "a", "key": "b"}}),
        json!({"sshKey": {"id": "key-1"}}),
    );
    let (generated, own) = (
        json!({"generate": {}}),
        json!({"generate": {"secretName": "b"}}),
    );
    let connected = |login: &Value, name: &str| {
        with("web", |spec| {
            spec["login"] = login.clone();
            spec["connectionSecret"] = json!({"name": name});
        })
    };
    Case::new(
        "spec.connectionSecret.name is the name of the login Secret",
        true,
        vec![
            connected(&generated, "web-connection"),
            connected(&own, "web-login"),
            connected(&given, "web-login"),
            connected(&key, "web-login"),
        ],
        vec![
            connected(&generated, "web-login"),
            connected(&own, "b"),
            connected(&given, "a"),
        ],
    )
}
