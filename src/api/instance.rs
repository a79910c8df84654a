use super::account::{SecretKeyRef, default_account, minus_one};
use super::{Applied, Verb};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A cloud server of the management service.
///
/// What the service cannot change after creation is immutable once a server exists (`status.id` is set), so that a
/// typing error can be mended as long as nothing was bought: these rules stand on the object's root, which sees spec and
/// status. `package` is a reserved word of CEL and is written `__package__`.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[kube(
    group = "cloudserver.dev",
    version = "v1alpha1",
    kind = "Instance",
    plural = "instances",
    namespaced,
    status = "InstanceStatus",
    derive = "PartialEq",
    shortname = "csi",
    category = "cloudserver",
    selectable = ".spec.region",
    doc = "A cloud server of the management service: exactly one server for each Instance.",
    printcolumn(name = "State", type_ = "string", json_path = ".status.detail.ecsStatus"),
    printcolumn(name = "Address", type_ = "string", json_path = ".status.addresses.public"),
    printcolumn(name = "Image", type_ = "string", json_path = ".status.detail.imageName"),
    printcolumn(name = "Package", type_ = "string", json_path = ".spec.package.code"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Region", type_ = "string", json_path = ".spec.region", priority = "1"),
    printcolumn(name = "Id", type_ = "string", json_path = ".status.id", priority = "1"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        priority = "1"
    ),
    validation = Rule::new(
        "!has(oldSelf.status) || !has(oldSelf.status.id) || self.spec.__package__ == oldSelf.spec.__package__"
    ).message("spec.package cannot be changed: the service cannot resize a server; delete this Instance and create a new one")
     .reason(Reason::FieldValueForbidden).field_path(".spec.package"),
    validation = Rule::new(
        "!has(oldSelf.status) || !has(oldSelf.status.id) || self.spec.region == oldSelf.spec.region"
    ).message("spec.region cannot be changed: a server cannot move; delete this Instance and create a new one")
     .reason(Reason::FieldValueForbidden).field_path(".spec.region"),
    validation = Rule::new(
        "!has(oldSelf.status) || !has(oldSelf.status.id) || self.spec.zone == oldSelf.spec.zone"
    ).message("spec.zone cannot be changed: a server cannot move; delete this Instance and create a new one")
     .reason(Reason::FieldValueForbidden).field_path(".spec.zone"),
    validation = Rule::new(
        "!has(oldSelf.status) || !has(oldSelf.status.id) || self.spec.firewall == oldSelf.spec.firewall"
    ).message("spec.firewall cannot be changed: the service cannot change it after creation; delete this Instance and create a new one")
     .reason(Reason::FieldValueForbidden).field_path(".spec.firewall"),
    validation = Rule::new(
        "!has(oldSelf.status) || !has(oldSelf.status.id) || self.spec.accountRef == oldSelf.spec.accountRef"
    ).message("spec.accountRef cannot be changed: a server cannot move to another account; delete this Instance and create a new one")
     .reason(Reason::FieldValueForbidden).field_path(".spec.accountRef")
)]
#[serde(rename_all = "camelCase")]
pub struct InstanceSpec {
    /// The Account, in this namespace, that pays for the server. Cannot be changed once a server exists.
    #[serde(default)]
    pub account_ref: AccountRef,

    /// Region code, for example ru-moscow-1. Cannot be changed once a server exists.
    #[schemars(length(min = 1, max = 63))]
    pub region: String,

    /// Zone code within the region, for example ru-moscow-1-a. Cannot be changed once a server exists.
    #[schemars(length(min = 1, max = 63))]
    pub zone: String,

    /// The package: CPUs, memory (GiB), disks (GiB) and traffic of the server. Cannot be changed once a server exists.
    pub package: PackageRef,

    /// The image that the server is installed with. Another one reinstalls the server, which erases its disk.
    pub image: ImageRef,

    /// The security group of the server. Cannot be changed once a server exists.
    pub firewall: FirewallRef,

    /// How to log in to the server: exactly one of a password and a key pair.
    pub login: Login,

    /// Whether the server is to run, to be stopped, or to be left as it is found.
    #[serde(default)]
    pub power_state: PowerState,

    /// A request to restart the server once: a new token restarts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<Restart>,

    /// A request to reinstall the server once, with the image and login that stand here: a new token erases its disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reinstall: Option<Reinstall>,
}

/// A request to reinstall once.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Reinstall {
    /// Any text; each change of it reinstalls the server once, which erases its disk.
    #[schemars(length(min = 1, max = 253))]
    pub token: String,
}

/// A request to restart once.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    /// Any text; each change of it restarts the server once.
    #[schemars(length(min = 1, max = 253))]
    pub token: String,
}

/// The Account that an Instance uses.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct AccountRef {
    /// Name of the Account in the Instance's own namespace.
    #[serde(default = "default_account")]
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

impl Default for AccountRef {
    fn default() -> Self {
        Self {
            name: default_account(),
        }
    }
}

/// A package of the service.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct PackageRef {
    /// The service's packageCode.
    #[schemars(length(min = 1, max = 253))]
    pub code: String,
}

/// An image of the service.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct ImageRef {
    /// The service's imageResourceUUID (img-…).
    #[schemars(length(min = 1, max = 253))]
    pub id: String,
}

/// A security group of the service.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct FirewallRef {
    /// The service's firewallUUID (fw-…).
    #[schemars(length(min = 1, max = 253))]
    pub id: String,
}

/// How to log in to the server (as root on Linux, as Administrator on Windows).
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.passwordSecretRef) != has(self.sshKey)")
    .message("set exactly one of login.passwordSecretRef and login.sshKey"))]
pub struct Login {
    /// The Secret, in this namespace, that holds the password: 8 to 30 characters with at least one of A-Z, one of a-z,
    /// one digit, and exactly one of ( ) ~ ! @ # $ * - + = { } [ ] : ; , . ? /
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_secret_ref: Option<SecretKeyRef>,
    /// A key pair of the service. Another one reinstalls the server, which erases its disk; so does a change between key and
    /// password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_key: Option<SshKeyRef>,
}

/// A key pair of the service.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct SshKeyRef {
    /// The service's sshKeyUUID (key-…).
    #[schemars(length(min = 1, max = 253))]
    pub id: String,
}

/// Whether the server is to run.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PowerState {
    /// The server is to run.
    #[default]
    Running,
    /// The server is to be stopped.
    Stopped,
    /// The server's power state is nobody's business.
    Unmanaged,
}

/// What the operator has seen of the server, and what it is doing about it.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("default" = {"observedGeneration": -1}))]
pub struct InstanceStatus {
    /// Generation of the spec that the conditions speak of; -1 until the operator has looked.
    #[serde(default = "minus_one")]
    pub observed_generation: i64,

    /// The server's identifier at the service (ecsResourceUUID, ecs-…).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub id: Option<String>,

    /// Addresses of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Addresses>,

    /// What was last asked of the service, and taken. Where it is missing, what the spec says counts as applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Applied>,

    /// The operation that is in flight at the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationStatus>,

    /// The operations that ended, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub history: Vec<HistoryEntry>,

    /// The whole instance object as the service serves it (specification section 2.3), under its own field names. Memory
    /// and disk sizes are GiB, bandwidth Mbit/s and freeFlow GB, as far as is known.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "any_object")]
    pub detail: Map<String, Value>,

    /// When the values that stand here were first seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_observed_time: Option<Time>,

    /// Ready; and, only while true, Reconciling, Stalled and Drifted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,
}

impl Default for InstanceStatus {
    fn default() -> Self {
        Self {
            observed_generation: minus_one(),
            id: None,
            addresses: None,
            applied: None,
            operation: None,
            history: Vec::new(),
            detail: Map::new(),
            last_observed_time: None,
            conditions: Vec::new(),
        }
    }
}

/// Addresses of the server.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// publicIpAddress of the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public: Option<String>,
    /// internalIpAddress of the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internal: Option<String>,
}

/// An operation in flight.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct OperationStatus {
    /// What is being done.
    pub verb: Verb,
    /// Number of the attempt; strictly increasing over the life of the Instance.
    pub attempt: i64,
    /// The service's asyncTaskUUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// When the operation was recorded.
    pub started_at: Time,
}

/// An operation that ended.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// What was done.
    pub verb: Verb,
    /// Number of the attempt.
    pub attempt: i64,
    /// Whether it was done.
    pub succeeded: bool,
    /// Why it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<EndReason>,
    /// What the service said about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the operation was recorded.
    pub started_at: Time,
    /// When its end was seen.
    pub finished_at: Time,
}

/// Why an operation was not done.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The service took it, and it failed.
    Failed,
    /// The service did not want it.
    Refused,
    /// Its answer was lost, and the server does not show it.
    AnswerLost,
    /// Nothing was done yet, and the spec or a Secret asked for something else.
    Superseded,
}

fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
