use super::cause::Cause;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The newest operation on the server, whole: `status.operation`.
///
/// Its intent, its receipt and its end are one write of status each. Of a create the record tells
/// ([`PurchaseRecord`](super::PurchaseRecord)); here it is shown while it lasts, and its bad end.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// What is being done.
    pub verb: Verb,
    /// Number of the attempt; strictly increasing over the life of the Instance.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub attempt: i64,
    /// A random word of the reconcile that announced it: the announcement is that one's, whatever became of its acknowledgement.
    #[serde(default)]
    pub nonce: String,
    /// Generation of the spec that it was announced for.
    #[serde(default)]
    pub generation: i64,
    /// Why it is done.
    #[serde(
        default,
        deserialize_with = "Cause::read",
        skip_serializing_if = "Option::is_none"
    )]
    pub cause: Option<Cause>,
    /// It cuts the server's power: a stop that does not ask the operating system.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub power_cut: bool,
    /// What the server is to be afterwards.
    #[serde(default)]
    pub target: Applied,
    /// The password that it brings waits in a Secret of the operator, beside the one that whoever names the same Secret and
    /// key by passwordSecretRef gets: the version in target says nothing about that one. Or the server was found or taken over,
    /// and which password it has is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waiting_password: bool,
    /// What the server showed when it was announced.
    #[serde(default)]
    pub before: Before,
    /// The service took the call. Always present: what is written on the ground of an intent alone must not replace its receipt.
    #[serde(default)]
    pub accepted: bool,
    /// The service's asyncTaskUUID, where its answer named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// When it was announced.
    pub started_at: Time,
    /// How it ended, where it did not end well; it is asked for again in its time. Without it the operation is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<OperationEnd>,
}

/// The end of an operation that was not done.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct OperationEnd {
    /// Why it was not done.
    pub reason: EndReason,
    /// What the service said about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How often in a row it ended like that.
    #[serde(default)]
    #[schemars(with = "i64", range(min = 0, max = 1_000_000_000))]
    pub times: u32,
    /// When its end was seen.
    pub finished_at: Time,
}

/// What a server showed before an operation: its effect is told by the difference.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Before {
    /// Its imageResourceUUID, if it showed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Whether it was running.
    #[serde(default)]
    pub running: bool,
}

/// What was last asked of the service for a server, and taken: the spec is compared with this, not with the last look, so
/// that a drift which somebody else caused erases nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    /// imageResourceUUID of the installation.
    #[serde(default)]
    pub image: String,
    /// sshKeyUUID, when the server logs in by key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Name, key, UID and resourceVersion of the Secret whose password the server has, when it logs in by password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_secret: Option<String>,
    /// The token of the last restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<String>,
    /// The token of the last reinstall that was asked for by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reinstall: Option<String>,
}

/// An operation of the service that is announced before it is called.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Verb {
    /// Create instance.
    Create,
    /// Release instance.
    Release,
    /// Reinstall operating system.
    Reinstall,
    /// Modify password.
    ModifyPassword,
    /// Start.
    Start,
    /// Stop.
    Stop,
    /// Restart.
    Restart,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Create,
        Self::Release,
        Self::Reinstall,
        Self::ModifyPassword,
        Self::Start,
        Self::Stop,
        Self::Restart,
    ];

    /// The label of metrics: the words that calls to the service are counted by.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Release => "release",
            Self::Reinstall => "reinstall",
            Self::ModifyPassword => "modify_password",
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
        }
    }

    /// Whether its request carries a password or a key.
    pub fn bears_login(self) -> bool {
        matches!(self, Self::Create | Self::Reinstall | Self::ModifyPassword)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Release => "release",
            Self::Reinstall => "reinstall",
            Self::ModifyPassword => "password change",
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
        })
    }
}

impl Operation {
    /// Whether it is not known to have ended.
    pub fn is_open(&self) -> bool {
        self.end.is_none()
    }
}

/// Why an operation was not done.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The service took it, and it failed.
    Failed,
    /// The service did not want it.
    Refused,
    /// It is not known whether it was carried out, and the server does not show it.
    AnswerLost,
    /// Nothing was done yet, and the spec or a Secret asked for something else.
    Superseded,
    /// Somebody else released the server, and another one is to take its place.
    ServerGone,
}
