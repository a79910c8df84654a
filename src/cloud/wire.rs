//! What is said to the service and what it says back, in its own field names.
//!
//! Requests are exact. Answers are read leniently: one field of an unexpected type must not cost the rest.

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};

use super::answer::{clean, word};
use super::ids::{FirewallId, ImageId, KeyId, PackageCode, Place, ServerId, TaskId};
use super::password;

/// How the owner of a server logs in.
#[derive(Clone, Debug)]
pub enum Login {
    /// With a password; the key field is null.
    Password(SecretString),
    /// With a key pair. The specification lists `password` without saying whether a key makes it optional: it is left
    /// out unless one is given here.
    Key {
        /// The key pair.
        key: KeyId,
        /// A password to send all the same.
        password: Option<SecretString>,
    },
}

impl Login {
    pub(super) fn password(&self) -> Option<&str> {
        match self {
            Self::Password(password) => Some(password.expose_secret()),
            Self::Key { password, .. } => password.as_ref().map(ExposeSecret::expose_secret),
        }
    }

    fn key(&self) -> Option<&str> {
        match self {
            Self::Password(_) => None,
            Self::Key { key, .. } => Some(key.as_str()),
        }
    }

    /// Writes both fields of the login; create and reinstall differ in what they call the key.
    fn write(&self, key_field: &str, body: &mut Value) {
        body[key_field] = self.key().map_or(Value::Null, Value::from);
        if let Some(password) = self.password() {
            body["password"] = password.into();
        }
    }
}

/// Section 4.1: create an instance.
#[derive(Clone, Debug)]
pub struct CreateRequest {
    /// The package to deploy.
    pub package: PackageCode,
    /// Where.
    pub place: Place,
    /// The instance's name (at most 64 of letters, digits and hyphens).
    pub name: String,
    /// The image to install.
    pub image: ImageId,
    /// The security group; the field is left out without one (field note 29).
    pub firewall: Option<FirewallId>,
    /// How to log in.
    pub login: Login,
}

impl CreateRequest {
    pub(super) fn body(&self) -> Value {
        let mut config = json!({
            "packageCode": self.package,
            "regionCode": self.place.region,
            "zoneCode": self.place.zone,
            "instanceName": self.name,
            "imageResourceUUID": self.image,
        });
        if let Some(firewall) = &self.firewall {
            config["firewallUUID"] = json!(firewall);
        }
        self.login.write("sshKeyUUID", &mut config);
        json!({ "packageConfig": config })
    }
}

/// Section 4.4: reinstall the operating system.
#[derive(Clone, Debug)]
pub struct ReinstallRequest {
    /// The server.
    pub server: ServerId,
    /// The image to install.
    pub image: ImageId,
    /// The server's region.
    pub region: String,
    /// How to log in afterwards.
    pub login: Login,
}

impl ReinstallRequest {
    pub(super) fn body(&self) -> Value {
        let mut body = json!({
            "ecsResourceUUID": self.server,
            "imageResourceUUID": self.image,
            "regionCode": self.region,
        });
        self.login.write("sshKeyResourceUUID", &mut body);
        body
    }
}

/// Section 4.2: set the password of the login account.
#[derive(Clone, Debug)]
pub struct PasswordRequest {
    /// The server.
    pub server: ServerId,
    /// The server's region.
    pub region: String,
    /// The new password.
    pub password: SecretString,
}

impl PasswordRequest {
    pub(super) fn body(&self) -> Value {
        json!({
            "ecsResourceUUID": self.server,
            "regionCode": self.region,
            "password": self.password.expose_secret(),
        })
    }
}

/// A create that was accepted: the receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateAccepted {
    /// The new server.
    pub id: ServerId,
    /// The task that makes it.
    pub task: TaskId,
}

/// Another mutating call that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The task, if the answer named one.
    pub task: Option<TaskId>,
}

/// The task of an answer, nested in `asyncTaskInfo` or flat: both shapes are seen.
pub(super) fn task_id(body: &Map<String, Value>) -> Option<TaskId> {
    either(body, "asyncTaskUUID").map(TaskId::from)
}

/// The receipt of a create, if it is whole.
pub(super) fn receipt(body: &Map<String, Value>) -> Option<CreateAccepted> {
    Some(CreateAccepted {
        id: either(body, "ecsResourceUUID")?.into(),
        task: task_id(body)?,
    })
}

fn either(body: &Map<String, Value>, key: &str) -> Option<String> {
    let nested = body.get("asyncTaskInfo").and_then(Value::as_object);
    nested
        .and_then(|info| identifier(info, key))
        .or_else(|| identifier(body, key))
}

/// An identifier is a string (specification section 2.1): a number in its place is a broken answer, and what it stands
/// for must not get on record.
fn identifier(object: &Map<String, Value>, key: &str) -> Option<String> {
    word(object, key).filter(|_| object.get(key).is_some_and(Value::is_string))
}

/// Parts of the names of fields that hold a secret.
const SECRET_NAMES: [&str; 4] = ["password", "passwd", "secret", "token"];

/// Takes secrets out of an object, however deep. The specification puts none into an answer; a service might.
pub(super) fn hide(fields: &mut Map<String, Value>, secrets: &[&str]) {
    fields.retain(|name, _| {
        let name = name.to_ascii_lowercase();
        !SECRET_NAMES.iter().any(|part| name.contains(part))
    });
    fields
        .values_mut()
        .for_each(|value| hide_in(value, secrets));
}

fn hide_in(value: &mut Value, secrets: &[&str]) {
    match value {
        Value::Object(fields) => hide(fields, secrets),
        Value::Array(values) => values.iter_mut().for_each(|value| hide_in(value, secrets)),
        Value::String(text) => {
            for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
                if text.contains(secret) {
                    *text = text.replace(secret, "[redacted]");
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Details of one instance: the whole object as served, and typed looks at it that fail one by one.
#[derive(Clone, Debug, PartialEq)]
pub struct Detail {
    /// The instance that was asked for; an answer about another one is no answer.
    pub id: ServerId,
    /// Every field under the service's own name, also those that the specification does not know.
    pub fields: Map<String, Value>,
}

impl Detail {
    /// The `instance` object of a body, if it is one and has an id.
    pub(super) fn read(body: &mut Map<String, Value>) -> Option<Self> {
        let Some(Value::Object(fields)) = body.get_mut("instance").map(Value::take) else {
            return None;
        };
        Some(Self {
            id: identifier(&fields, "ecsResourceUUID")?.into(),
            fields,
        })
    }

    /// Without what nobody may read in a status: fields that are called after a secret, and texts that are one of these.
    pub(super) fn without_secrets(mut self, secrets: &[&str]) -> Self {
        hide(&mut self.fields, secrets);
        self
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.fields
            .get(key)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    }

    /// `ecsStatus`: `STARTED` and `STOPPED` are known, every other word is opaque.
    pub fn status(&self) -> Option<&str> {
        self.text("ecsStatus")
    }

    /// `ecsPendingStatus`: `NONE` when idle, something else while an operation runs.
    pub fn pending(&self) -> Option<&str> {
        self.text("ecsPendingStatus")
    }

    /// `instanceName`.
    pub fn name(&self) -> Option<&str> {
        self.text("instanceName")
    }

    /// `imageResourceUUID`.
    pub fn image(&self) -> Option<ImageId> {
        self.text("imageResourceUUID").map(ImageId::from)
    }

    /// `publicIpAddress`.
    pub fn public_address(&self) -> Option<&str> {
        self.text("publicIpAddress")
    }

    /// `internalIpAddress`.
    pub fn internal_address(&self) -> Option<&str> {
        self.text("internalIpAddress")
    }

    /// `regionCode`.
    pub fn region(&self) -> Option<&str> {
        self.text("regionCode")
    }

    /// `zoneCode`.
    pub fn zone(&self) -> Option<&str> {
        self.text("zoneCode")
    }
}

/// What the service says of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskReport {
    /// What it means.
    pub state: TaskState,
    /// `taskStatus` as served.
    pub status: Option<String>,
    /// `processResult` as served.
    pub result: Option<String>,
}

/// How far a task is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It goes on.
    Running,
    /// It is complete.
    Succeeded,
    /// It ended without success.
    Failed {
        /// The service's words, cut to a line.
        reason: Option<String>,
    },
    /// A word that is not known. Not an end: the specification knows only one word that ends a task well, and a caller
    /// that gives up waiting does so by the clock.
    Unknown {
        /// The word, for display.
        word: String,
    },
}

impl TaskState {
    /// Whether nothing more is to be expected.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Succeeded | Self::Failed { .. } => true,
            Self::Running | Self::Unknown { .. } => false,
        }
    }
}

/// Where a failed task may say why, in the order of trust (field note 6).
const REASONS: [&str; 4] = ["errorMessage", "failMessage", "remark", "message"];

impl TaskReport {
    /// The report of a body: nested in `asyncTaskInfo` or flat. Neither of the two fields makes it no report.
    pub(super) fn read(body: &Map<String, Value>) -> Option<Self> {
        let nested = body.get("asyncTaskInfo").and_then(Value::as_object);
        let info = nested.unwrap_or(body);
        if nested.is_none()
            && !info.contains_key("taskStatus")
            && !info.contains_key("processResult")
        {
            return None;
        }
        let status = word(info, "taskStatus");
        let result = word(info, "processResult");
        let state = match result.as_deref().map(str::to_ascii_uppercase).as_deref() {
            // The result is the specification's mark of completion, so it wins over a status that lags behind.
            Some("SUCCESS") => TaskState::Succeeded,
            Some("FAIL" | "CANCEL") => {
                let text = |object: &Map<String, Value>| {
                    REASONS
                        .iter()
                        .find_map(|key| object.get(*key).and_then(Value::as_str).map(str::to_owned))
                };
                let reason = text(info)
                    .or_else(|| text(body))
                    .map(|reason| clean(&password::hide_in(&reason), &[]));
                TaskState::Failed {
                    reason: reason.filter(|reason| !reason.is_empty()),
                }
            }
            Some("RETRY" | "PROCESSING") => TaskState::Running,
            Some(_) => TaskState::Unknown {
                word: result.clone().unwrap_or_default(),
            },
            None => match status.as_deref().map(str::to_ascii_uppercase).as_deref() {
                Some("PROCESSING") | None => TaskState::Running,
                // Also FINISHED without a result: neither success nor failure is said, so neither is believed. Most
                // likely the two fields are written one after the other, and the next look shows both.
                Some(_) => TaskState::Unknown {
                    word: status.clone().unwrap_or_default(),
                },
            },
        };
        Some(Self {
            state,
            status,
            result,
        })
    }
}

/// One page of the instance list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<R> {
    /// What was made of its rows.
    pub rows: Vec<R>,
    /// How many are no server. Any of these might be the one that matters.
    pub unreadable: usize,
    /// `rowCount`: of the page or of the whole listing, the specification leaves it open.
    pub row_count: Option<u64>,
}

#[cfg(test)]
mod tests;
