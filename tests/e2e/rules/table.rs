//! Every rule and bound of the two kinds, with accepted and refused manifests.

use crate::support::{instance, with};
use serde_json::{Value, json};

/// One rule of the definitions, or one bound of a field.
pub struct Case {
    /// The beginning of the rule's message; for a bound, a part of the apiserver's message.
    pub message: &'static str,
    /// Whether it is a rule with a message of our own.
    pub is_rule: bool,
    /// The existing object, if the rule compares with it: a change that is refused once a server exists is accepted before.
    pub existing: Option<Value>,
    /// Accepted manifests.
    pub accepted: Vec<Value>,
    /// Refused manifests.
    pub refused: Vec<Value>,
}

impl Case {
    pub fn new(
        message: &'static str,
        is_rule: bool,
        accepted: Vec<Value>,
        refused: Vec<Value>,
    ) -> Self {
        Self {
            message,
            is_rule,
            existing: None,
            accepted,
            refused,
        }
    }

    /// A rule about one field of an Instance's spec.
    pub fn rule<const A: usize, const R: usize>(
        message: &'static str,
        field: &str,
        accepted: [Value; A],
        refused: [Value; R],
    ) -> Self {
        let of = |value: Value| spec(field, &value);
        let (accepted, refused) = (accepted.map(of), refused.map(of));
        Self::new(message, true, accepted.into(), refused.into())
    }

    /// A bound of one field of an Instance's spec.
    pub fn bound<const A: usize, const R: usize>(
        message: &'static str,
        field: &str,
        accepted: [Value; A],
        refused: [Value; R],
    ) -> Self {
        Self {
            is_rule: false,
            ..Self::rule(message, field, accepted, refused)
        }
    }

    /// A rule about a field that is immutable once a server exists.
    fn fixed<const N: usize>(message: &'static str, existing: Value, changes: [Value; N]) -> Self {
        let changes = Vec::from(changes);
        Self {
            existing: Some(existing),
            ..Self::new(message, true, changes.clone(), changes)
        }
    }
}

/// An Instance with this field in its spec.
pub fn spec(field: &str, value: &Value) -> Value {
    with("web", |spec| spec[field] = value.clone())
}

/// An Account with this field in its spec.
pub fn account(field: &str, value: &Value) -> Value {
    let mut account = json!({
        "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Account", "metadata": {"name": "web"},
        "spec": {"endpoint": "https://cloud.example/api", "tokenSecretRef": {"name": "a", "key": "b"}},
    });
    account["spec"][field] = value.clone();
    account
}

/// All cases.
pub fn cases() -> Vec<Case> {
    let all = [
        accounts(),
        super::transport::cases(),
        references(),
        super::login::cases(),
        imports(),
        super::names::cases(),
    ];
    let more = [policies(), bounds(), fixed()];
    all.into_iter().chain(more).flatten().collect()
}

fn accounts() -> Vec<Case> {
    let of = |field: &str, values: &[Value]| -> Vec<Value> {
        values.iter().map(|value| account(field, value)).collect()
    };
    let bound = |message, field: &str, accepted: &[Value], refused: &[Value]| {
        Case::new(message, false, of(field, accepted), of(field, refused))
    };
    let endpoint = of(
        "endpoint",
        &["https://cloud.example/api", "http://127.0.0.1:8090"].map(Value::from),
    );
    let wrong = of(
        "endpoint",
        &[
            "ftp://cloud.example",
            "https://user@cloud.example",
            "https://cloud.example/?a=b",
            "cloud.example",
        ]
        .map(Value::from),
    );
    vec![
        Case::new(
            "endpoint must be an http or https URL",
            true,
            endpoint,
            wrong,
        ),
        bound(
            "spec.maxInstances in body should be greater than or equal to 0",
            "maxInstances",
            &[json!(0), json!(100_000)],
            &[json!(-1)],
        ),
        bound(
            "spec.createRate.perMinute in body should be greater than or equal to 1",
            "createRate",
            &[json!({"perMinute": 1})],
            &[json!({"perMinute": 0})],
        ),
        bound(
            "spec.createRate.perMinute: Required value",
            "createRate",
            &[json!({"perMinute": 10_000})],
            &[json!({})],
        ),
        bound(
            "spec.tokenSecretRef.key: Required value",
            "tokenSecretRef",
            &[json!({"name": "a", "key": "b"})],
            &[json!({"name": "a"})],
        ),
        bound(
            "spec.settleSeconds",
            "settleSeconds",
            &[json!(1), json!(3600)],
            &[json!(0), json!(3601)],
        ),
        bound(
            "spec.paths.create",
            "paths",
            &[json!({}), json!({"create": "/v9/make"})],
            &[json!({"create": "v9/make"})],
        ),
    ]
}

fn references() -> Vec<Case> {
    vec![
        Case::rule(
            "set exactly one of spec.package.code and a filter",
            "package",
            [
                json!({"code": "c"}),
                json!({"cpu": 1, "memory": 2, "systemDisk": 10, "dataDisk": 10}),
                json!({"chargeMode": "PayByBandwidth"}),
            ],
            [
                json!({}),
                json!({"code": "c", "cpu": 1}),
                json!({"code": "c", "chargeMode": "PayByTraffic"}),
            ],
        ),
        Case::rule(
            "set exactly one of spec.image.id and a selector",
            "image",
            [
                json!({"id": "img-1"}),
                json!({"name": "Ubuntu 24.04 LTS"}),
                json!({"distribution": "Ubuntu", "type": "Self"}),
            ],
            [
                json!({}),
                json!({"type": "System"}),
                json!({"id": "img-1", "name": "Ubuntu 24.04 LTS"}),
                json!({"id": "img-1", "type": "System"}),
            ],
        ),
        Case::rule(
            "set exactly one of spec.firewall.id and spec.firewall.name",
            "firewall",
            [json!({"id": "fw-1"}), json!({"name": "web-1"})],
            [json!({}), json!({"id": "fw-1", "name": "web-1"})],
        ),
        Case::rule(
            "set exactly one of login.sshKey.id and login.sshKey.name",
            "login",
            [
                json!({"sshKey": {"id": "key-1"}}),
                json!({"sshKey": {"name": "laptop-1"}}),
            ],
            [
                json!({"sshKey": {}}),
                json!({"sshKey": {"id": "key-1", "name": "laptop-1"}}),
            ],
        ),
    ]
}

fn imports() -> Vec<Case> {
    let address = |text: &str| json!({"address": text});
    vec![
        Case::rule(
            "set exactly one of import.id and a filter",
            "import",
            [
                json!({"id": "ecs-1"}),
                json!({"name": "by-hand"}),
                json!({"address": "203.0.113.7"}),
                json!({"name": "by-hand", "address": "203.0.113.7"}),
            ],
            [
                json!({}),
                json!({"id": "ecs-1", "name": "by-hand"}),
                json!({"id": "ecs-1", "address": "203.0.113.7"}),
            ],
        ),
        Case::rule(
            "import.address must be an IPv4 or IPv6 address",
            "import",
            ["203.0.113.7", "2001:db8::1", "::1", "fe80::"].map(address),
            ["", "web-1", "203.0.113", "203.0.113.7/24", "203.0.113.7:22"].map(address),
        ),
    ]
}

fn policies() -> Vec<Case> {
    let until = |text: &str| json!({"until": text});
    vec![
        Case::rule(
            "spec.resyncPeriod must be a duration from 1m to 24h",
            "resyncPeriod",
            ["1m", "60s", "10m", "1h30m", "24h", "90m"].map(Value::from),
            ["", "10", "59s", "25h", "soon", "-10m", "1d", "10m 5s"].map(Value::from),
        ),
        Case::rule(
            "spec.pause.until must be a time with its zone",
            "pause",
            [
                json!({}),
                until("2026-12-24T18:00:00Z"),
                until("2026-12-24T18:00:00.5+02:00"),
                until("2020-01-01T00:00:00-11:30"),
            ],
            [
                "tomorrow",
                "2026-12-24",
                "2026-12-24T18:00:00",
                "2026-13-24T18:00:00Z",
                "2026-12-24T25:00:00Z",
            ]
            .map(until),
        ),
    ]
}

fn bounds() -> Vec<Case> {
    let words = |field: &'static str, words: &[&str]| {
        let accepted = words.iter().map(|word| spec(field, &json!(word))).collect();
        let refused = vec![spec(field, &json!("Maybe"))];
        Case::new("supported values", false, accepted, refused)
    };
    let force = |word: &str| json!({"force": word, "gracePeriodSeconds": 3600});
    let seconds = |seconds: i32| json!({"gracePeriodSeconds": seconds});
    vec![
        words("powerState", &["Running", "Stopped", "Unmanaged"]),
        words("reinstallPolicy", &["Automatic", "OnRequest", "Never"]),
        words("deletionPolicy", &["Release", "Retain"]),
        words("managementPolicy", &["Manage", "Observe"]),
        words("onExternalDeletion", &["Fail", "Recreate"]),
        Case::bound(
            "spec.stopPolicy.force: Unsupported value",
            "stopPolicy",
            ["Never", "AfterGracePeriod", "Always"].map(force),
            [force("Maybe")],
        ),
        Case::bound(
            "spec.stopPolicy.gracePeriodSeconds",
            "stopPolicy",
            [seconds(1), json!({})],
            [seconds(0), seconds(3601)],
        ),
        Case::bound(
            "spec.recreateLimit",
            "recreateLimit",
            [json!(0)],
            [json!(-1)],
        ),
        Case::bound(
            "spec.reconcile.token",
            "reconcile",
            [json!({"token": "now"})],
            [json!({"token": ""}), json!({})],
        ),
        Case::bound(
            "spec.restart.token",
            "restart",
            [json!({"token": "now"})],
            [json!({"token": ""}), json!({})],
        ),
        Case::bound(
            "spec.reinstall.image",
            "reinstall",
            [
                json!({"token": "a"}),
                json!({"token": "a", "image": "img-1"}),
            ],
            [json!({"token": "a", "image": ""})],
        ),
        Case::bound(
            "spec.region in body",
            "region",
            [json!("Moscow")],
            [json!("")],
        ),
        Case::bound(
            "spec.package.cpu",
            "package",
            [json!({"cpu": 1})],
            [json!({"cpu": 0})],
        ),
        Case::bound(
            "spec.package.chargeMode",
            "package",
            [json!({"chargeMode": "PayByTraffic"})],
            [json!({"chargeMode": "Free"})],
        ),
        Case::bound(
            "spec.image.type",
            "image",
            [json!({"name": "u", "type": "System"})],
            [json!({"name": "u", "type": "Mine"})],
        ),
    ]
}

fn fixed() -> Vec<Case> {
    let plain = || instance("web");
    let to = |field: &str, value: Value| spec(field, &value);
    let importing = || to("import", json!({"id": "ecs-1"}));
    // Without a security group.
    let open = || {
        with("web", |spec| {
            spec.as_object_mut().unwrap().remove("firewall");
        })
    };
    vec![
        Case::fixed(
            "spec.package cannot be changed",
            plain(),
            [
                to("package", json!({"code": "c-2"})),
                to("package", json!({"cpu": 1})),
            ],
        ),
        Case::fixed(
            "spec.region cannot be changed",
            plain(),
            [
                to("region", json!("cn-dev-2")),
                to("region", json!("Moscow")),
            ],
        ),
        Case::fixed(
            "spec.zone cannot be changed",
            plain(),
            [to("zone", json!("ru-moscow-1-b"))],
        ),
        Case::fixed(
            "spec.firewall cannot be changed",
            plain(),
            [
                to("firewall", json!({"id": "fw-2"})),
                to("firewall", json!({"name": "web-1"})),
                open(),
            ],
        ),
        Case::fixed("spec.firewall cannot be changed", open(), [plain()]),
        Case::fixed(
            "spec.accountRef cannot be changed",
            plain(),
            [to("accountRef", json!({"name": "other"}))],
        ),
        Case::fixed(
            "spec.import cannot be changed",
            importing(),
            [
                plain(),
                to("import", json!({"id": "ecs-2"})),
                to("import", json!({"name": "a"})),
            ],
        ),
        Case::fixed("spec.import cannot be changed", plain(), [importing()]),
    ]
}
