//! Cases of the rules about names and keys: every name that becomes part of a request to the apiserver, and the keys of Secrets.

use super::table::{Case, account, spec};
use serde_json::json;

pub fn cases() -> Vec<Case> {
    let everywhere = |name: &str| {
        let given = json!({"name": name, "key": "b"});
        vec![
            account("tokenSecretRef", &given),
            spec("accountRef", &json!({"name": name})),
            spec("login", &json!({"passwordSecretRef": given})),
            spec("login", &json!({"generate": {"secretName": name}})),
            spec("connectionSecret", &json!({"name": name})),
        ]
    };
    let keys = |key: &str| {
        let given = json!({"name": "a", "key": key});
        vec![
            account("tokenSecretRef", &given),
            spec("login", &json!({"passwordSecretRef": given})),
        ]
    };
    let hostile = [
        "../../victim/secrets/x",
        "?limit=1",
        "x?watch=true",
        "x/status",
        "..",
        "a..b",
        "a%2fb",
        "Web",
        "a/b",
        "-a",
        "a-",
        "a_b",
        "a\u{202e}b",
    ];
    vec![
        Case::new(
            "must be a name that Kubernetes takes",
            true,
            ["a", "a.b-1"].into_iter().flat_map(everywhere).collect(),
            hostile.into_iter().flat_map(everywhere).collect(),
        ),
        Case::new(
            "must be a key that a Secret can have",
            true,
            ["b", "tls.crt", "_A-1", ".a"]
                .into_iter()
                .flat_map(keys)
                .collect(),
            [".", "..", "..a", "a/b", "a b", "ä", "a\n"]
                .into_iter()
                .flat_map(keys)
                .collect(),
        ),
    ]
}
