use super::cause::Cause;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;
use std::fmt;

/// The newest operation on the server, complete: `status.operation`.
///
/// Its intent, its receipt and its end are each written by one patch of status. A create is recorded in the
/// [`PurchaseRecord`](super::PurchaseRecord); this field only shows it while it is in flight, if it failed, or if its server is
/// gone and will be replaced.
#[skip_serializing_none]
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// The operation.
    pub verb: Verb,
    /// Number of the attempt; strictly increasing unless status is lost.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub attempt: i64,
    /// A random value of the reconcile that announced the newest call of the operation. By it, that reconcile recognizes its
    /// announcement, even if the write got no answer. `refused` while a reinstall waits after a refusal that may pass: no
    /// call is in flight, and the next one has a new value.
    #[serde(default)]
    pub nonce: String,
    /// Generation of the spec for which the operation was announced.
    #[serde(default)]
    pub generation: i64,
    /// The reason for the operation.
    #[serde(default, deserialize_with = "Cause::read")]
    pub cause: Option<Cause>,
    /// The current or last call of a reinstall, if it is a stop before the reinstall, or the reinstall after such a stop.
    /// Without it, the call is the operation itself.
    pub stage: Option<Stage>,
    /// A stop of the operation cuts the server's power before its operating system has shut down.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub power_cut: bool,
    /// The state that the operation will give the server.
    #[serde(default)]
    pub target: Applied,
    /// The password of the operation is under a separate key for pending passwords in a Secret of the operator. If spec.login
    /// changes to passwordSecretRef with this Secret and key, that is another password than the one of target. Also set if the
    /// server was adopted or imported and its password is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waiting_password: bool,
    /// The state of the server when the operation was announced.
    #[serde(default)]
    pub before: Before,
    /// The service accepted the call. Always present, so that each patch can test it: one that knows only the intent must not
    /// replace the receipt.
    #[serde(default)]
    pub accepted: bool,
    /// The service's asyncTaskUUID, if its answer contained one.
    pub task_id: Option<String>,
    /// When the operation was announced.
    pub started_at: Time,
    /// The failure of the operation, if it failed. If the operation must wait before it may begin again, status.retries shows
    /// that, except for a create. Without a failure here, the operation is in flight.
    pub end: Option<OperationEnd>,
}

/// The calls of a reinstall for which the server is stopped.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The server is being stopped, because the service reinstalls only stopped servers.
    Stopping,
    /// The reinstall itself, after that stop.
    Erasing,
}

/// The end of a failed operation.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct OperationEnd {
    /// The reason for the failure.
    pub reason: EndReason,
    /// The service's message about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Number of consecutive failures of this kind; with ServerGone, of replacements, including the next.
    #[serde(default)]
    #[schemars(with = "i64", range(min = 0, max = 1_000_000_000))]
    pub times: u32,
    /// When the end was observed.
    pub finished_at: Time,
}

/// An operation that ended badly, and when it may begin again. The wait until notBefore ends early if the spec is edited or the
/// target changes.
#[skip_serializing_none]
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// The operation.
    pub verb: Verb,
    /// Generation of the spec when it ended. An edit after that ends the wait until notBefore.
    #[serde(default)]
    pub generation: i64,
    /// The state that it would have given the server.
    #[serde(default)]
    pub target: Applied,
    /// How it ended.
    pub reason: EndReason,
    /// The service's message about it.
    pub message: Option<String>,
    /// How often in a row it ended with such a wait.
    #[serde(default)]
    #[schemars(with = "i64", range(min = 0, max = 1_000_000_000))]
    pub times: u32,
    /// The operator does not begin it again before this time. If absent, the operator does not begin it again until the spec
    /// requests another image or key, or has another spec.reinstall.token.
    pub not_before: Option<Time>,
}

/// The state that a server showed before an operation. The difference shows the effect of the operation.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Before {
    /// Its imageResourceUUID, if the server showed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// True if it was running, or was off only because of an earlier reinstall.
    #[serde(default)]
    pub running: bool,
}

/// The values that the service last accepted for a server. The spec is compared with these and not with the last observation,
/// so that an external change erases nothing.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    /// imageResourceUUID of the installed image.
    #[serde(default)]
    pub image: String,
    /// sshKeyUUID, if the server logs in by key.
    pub key: Option<String>,
    /// Name, key, UID and resourceVersion of the Secret with the server's password, if the server logs in by password.
    pub password_secret: Option<String>,
    /// The token of the last restart.
    pub restart: Option<String>,
    /// The token of the last reinstall that a token requested.
    pub reinstall: Option<String>,
    /// The desired power state that the server last had. If the server leaves it while the spec still requests it, the cause
    /// is an external change, unless leftOff is set.
    pub power_state: Option<PowerState>,
}

/// The desired power state.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PowerState {
    /// The server runs.
    #[default]
    Running,
    /// The server is stopped.
    Stopped,
    /// The operator does not manage the power state.
    Unmanaged,
}

/// An operation of the service that creates, changes or releases a server. Each is announced before its call, except a release,
/// which may be repeated.
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
    /// All verbs.
    pub const ALL: [Self; 7] = [
        Self::Create,
        Self::Release,
        Self::Reinstall,
        Self::ModifyPassword,
        Self::Start,
        Self::Stop,
        Self::Restart,
    ];

    /// The name in metrics.
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

    /// Whether its request contains a password or a key.
    pub fn bears_login(self) -> bool {
        matches!(self, Self::Create | Self::Reinstall | Self::ModifyPassword)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ModifyPassword => "password change",
            verb => verb.as_str(),
        })
    }
}

impl Operation {
    /// The nonce of an operation whose newest call was refused.
    pub const REFUSED: &str = "refused";

    /// This operation, marked as one whose newest call was refused.
    #[must_use]
    pub fn refused(self) -> Self {
        let nonce = Self::REFUSED.to_owned();
        Self { nonce, ..self }
    }

    /// Whether status shows that the service refused the newest call: none is in flight, even if another process made the
    /// call.
    pub fn is_refused(&self) -> bool {
        self.nonce == Self::REFUSED
    }

    /// Whether the operation is in flight, as far as status shows.
    pub fn is_open(&self) -> bool {
        self.end.is_none()
    }

    /// The verb of the newest call: a stop in the stage Stopping of a reinstall, otherwise that of the operation.
    pub fn call(&self) -> Verb {
        match self.stage {
            Some(Stage::Stopping) => Verb::Stop,
            Some(Stage::Erasing) | None => self.verb,
        }
    }
}

/// The reason why an operation failed.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The service accepted it, but its task failed, or the server does not show its effect.
    Failed,
    /// The service refused it.
    Refused,
    /// Its outcome is unknown, and the server does not show its effect.
    AnswerLost,
    /// It was given up before its call had an effect (a reinstall may have stopped the server), because the spec, a Secret or the
    /// server had changed. Or the server was gone before the outcome was known.
    Superseded,
    /// The server was released externally and will be replaced.
    ServerGone,
    /// Its outcome is unknown and cannot be observed, and a repeat could erase the disk a second time.
    OutcomeUnknown,
}

impl EndReason {
    /// The label in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::AnswerLost => "answer_lost",
            Self::Superseded => "superseded",
            Self::ServerGone => "server_gone",
            Self::OutcomeUnknown => "outcome_unknown",
        }
    }
}
