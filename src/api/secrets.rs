//! The Secrets that the operator writes for an Instance: a generated login, and the data that a client needs to connect.

use super::policies::duration;
use super::valid::{KEY_MESSAGE, KEY_RULE, NAME_MESSAGE, NAME_RULE};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;
use std::collections::BTreeMap;
use std::time::Duration;

/// Key of the password in a generated login Secret and in a connection Secret. In a login Secret it is the password to log in with,
/// or one that a user requests by an edit; the key `current` has the password that the server is known to have.
pub const PASSWORD: &str = "password";

/// A password that the operator generates.
#[skip_serializing_none]
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct GeneratedLogin {
    /// Name of the Secret that the operator creates in this namespace. Default: the Instance's name and `-login`. An Instance
    /// whose name is longer than 247 characters must set it. An existing Secret that does not belong to this Instance is
    /// neither used nor changed.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(NAME_RULE).message(NAME_MESSAGE))]
    pub secret_name: Option<String>,
    /// Age after which the operator replaces the password, as soon as the server is running and Ready: hours, minutes and
    /// seconds, for example 720h; at least 1h. If absent, passwords do not expire.
    #[schemars(length(min = 1, max = 24))]
    #[x_kube(validation = Rule::new(
        "self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && duration(self) >= duration('1h')"
    ).message("login.generate.rotateEvery must be a duration of at least 1h in hours, minutes and seconds, for example 720h"))]
    pub rotate_every: Option<String>,
    /// Labels and annotations for the Secret.
    pub template: Option<SecretTemplate>,
}

/// Rule of the schema for the keys of a [`SecretTemplate`]. The excluded labels and annotations are those by which the operator
/// recognizes Secrets and by which Secrets consent to their use.
const TEMPLATE_RULE: &str =
    "self.all(key, !key.startsWith('cloudserver.dev/') && key != 'app.kubernetes.io/managed-by')";
/// The schema's message for a violation of [`TEMPLATE_RULE`].
const TEMPLATE_MESSAGE: &str = "must not name app.kubernetes.io/managed-by or a key that begins with cloudserver.dev/: the operator recognizes Secrets by them";

/// Labels and annotations of a Secret that the operator writes. The operator adds and updates those that are listed here. All
/// others on the Secret stay, even those that were once listed here.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretTemplate {
    /// Labels of the Secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    #[x_kube(validation = Rule::new(TEMPLATE_RULE).message(TEMPLATE_MESSAGE))]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the Secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    #[x_kube(validation = Rule::new(TEMPLATE_RULE).message(TEMPLATE_MESSAGE))]
    pub annotations: BTreeMap<String, String>,
}

impl SecretTemplate {
    /// Whether the labels and annotations of a Secret include all of the template's.
    pub fn is_met(
        &self,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
    ) -> bool {
        let has = |all: &BTreeMap<String, String>, (key, value): (&String, &String)| {
            all.get(key) == Some(value)
        };
        self.labels.iter().all(|pair| has(labels, pair))
            && self.annotations.iter().all(|pair| has(annotations, pair))
    }
}

/// The Secret with the data that a client needs to connect.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct ConnectionSecretRef {
    /// Name of the Secret that the operator writes in this namespace. An existing Secret that does not belong to this Instance
    /// is not changed.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(NAME_RULE).message(NAME_MESSAGE))]
    pub name: String,
    /// Labels and annotations for the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<SecretTemplate>,
}

impl GeneratedLogin {
    /// The age at which a password is replaced; none if it does not expire, or if the text is not a duration.
    pub fn rotates_every(&self) -> Option<Duration> {
        let every = self.rotate_every.as_deref().and_then(duration);
        every.filter(|every| !every.is_zero())
    }
}

/// One key of a Secret in the object's own namespace.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Hash)]
pub struct SecretKeyRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(NAME_RULE).message(NAME_MESSAGE))]
    pub name: String,
    /// Key within the Secret's data.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(KEY_RULE).message(KEY_MESSAGE))]
    pub key: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::InstanceSpec;

    #[test]
    fn a_duration_is_hours_minutes_and_seconds() {
        for (text, seconds) in [
            ("720h", Some(2_592_000)),
            ("1h30m", Some(5400)),
            ("3600s", Some(3600)),
            ("1h0m5s", Some(3605)),
            ("", None),
            ("0h", None),
            ("30", None),
            ("1d", None),
            ("5m1h", None),
            ("-1h", None),
            ("99999999999999999999h", None),
        ] {
            let login = GeneratedLogin {
                rotate_every: Some(text.to_owned()),
                ..GeneratedLogin::default()
            };
            let every = login.rotates_every();
            assert_eq!(every, seconds.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn the_login_secret_is_named_in_the_spec_or_after_the_instance() {
        let of = |login: serde_json::Value| {
            let spec: InstanceSpec = serde_json::from_value(serde_json::json!({
                "region": "r", "zone": "z", "package": {"code": "p"}, "image": {"id": "i"}, "firewall": {"id": "f"},
                "login": login,
            }))
            .unwrap();
            spec.login_secret("web")
                .map(|secret| format!("{}/{}", secret.name, secret.key))
        };
        let json = |text: &str| serde_json::from_str(text).unwrap();
        for (login, secret) in [
            (r#"{"generate": {}}"#, Some("web-login/password")),
            (
                r#"{"generate": {"secretName": "own"}}"#,
                Some("own/password"),
            ),
            (
                r#"{"passwordSecretRef": {"name": "a", "key": "b"}}"#,
                Some("a/b"),
            ),
            (r#"{"sshKey": {"id": "key-1"}}"#, None),
        ] {
            assert_eq!(of(json(login)).as_deref(), secret);
        }
    }
}
