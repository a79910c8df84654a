//! Requests and answers in the service's own field names.
//!
//! Requests are exact. Answers are read leniently: one field of an unexpected type must not make the others unreadable.

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::answer::{clean_of, sentence, word};
use super::budget::RowMemory;
use super::ids::{FirewallId, ImageId, KeyId, PackageCode, Place, ServerId, TaskId};

/// The login of a server.
#[derive(Clone, Debug)]
pub enum ServerLogin {
    /// With a password; the key field is null.
    Password(SecretString),
    /// With a key pair. The specification lists `password` without defining whether a key makes it optional: it is omitted
    /// unless given here.
    Key {
        key: KeyId,
        /// A password to send as well.
        password: Option<SecretString>,
    },
}

impl ServerLogin {
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

    /// Writes both fields of the login. Create and reinstall use different names for the key.
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
    pub package: PackageCode,
    /// The zone of the new server.
    pub place: Place,
    /// The instance's name (at most 64 of letters, digits and hyphens).
    pub name: String,
    pub image: ImageId,
    /// The security group. Without one, the field is omitted (field note 29).
    pub firewall: Option<FirewallId>,
    pub login: ServerLogin,
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
    pub server: ServerId,
    pub image: ImageId,
    pub region: String,
    /// The login after the reinstall.
    pub login: ServerLogin,
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
    pub server: ServerId,
    pub region: String,
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

/// The receipt of an accepted create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateAccepted {
    pub id: ServerId,
    /// The task that deploys it.
    pub task: TaskId,
}

/// The task of an answer, nested in `asyncTaskInfo` or at the top level: both shapes occur.
pub(super) fn task_id(body: &Map<String, Value>) -> Option<TaskId> {
    either(body, "asyncTaskUUID").map(TaskId::from)
}

/// The receipt of a create, if it is complete.
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

/// An identifier is a string (specification section 2.1). A number in its place makes the answer malformed, and its text must
/// not be recorded.
fn identifier(object: &Map<String, Value>, key: &str) -> Option<String> {
    word(object, key).filter(|_| object.get(key).is_some_and(Value::is_string))
}

/// Parts of the names of fields that contain a secret.
const SECRET_NAMES: [&str; 4] = ["password", "passwd", "secret", "token"];

/// Removes secrets from an object, at any depth. The specification has none in answers, but a service might.
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
        Value::String(text) => *text = clean_of(text, secrets),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Details of one instance: the whole object without its secrets, with typed accessors that fail independently.
#[derive(Clone, Debug, PartialEq)]
pub struct Detail {
    /// The requested instance. An answer about another instance is refused.
    pub id: ServerId,
    /// Every field under the service's own name, including fields that are not in the specification.
    pub fields: Map<String, Value>,
}

impl Detail {
    /// The `instance` object of a body, if it is an object with an id.
    pub(super) fn read(body: &mut Map<String, Value>) -> Option<Self> {
        let Some(Value::Object(fields)) = body.get_mut("instance").map(Value::take) else {
            return None;
        };
        Some(Self {
            id: identifier(&fields, "ecsResourceUUID")?.into(),
            fields,
        })
    }

    /// Removes data that must not appear in a status: fields whose names suggest a secret, and these secrets wherever a text
    /// contains one.
    pub(super) fn without_secrets(mut self, secrets: &[&str]) -> Self {
        hide(&mut self.fields, secrets);
        self
    }

    fn text(&self, key: &str) -> Option<&str> {
        let text = self.fields.get(key).and_then(Value::as_str);
        text.filter(|text| !text.is_empty())
    }

    /// Whether the server is started or stopped.
    pub fn power(&self) -> Option<ServerPower> {
        ServerPower::of(&self.fields)
    }

    /// `ecsStatus`: the words that [`ServerPower`] does not know are opaque.
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

    /// `regionCode`.
    pub fn region(&self) -> Option<&str> {
        self.text("regionCode")
    }

    /// `zoneCode`.
    pub fn zone(&self) -> Option<&str> {
        self.text("zoneCode")
    }
}

/// The known values of `ecsStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ServerPower {
    Started,
    Stopped,
}

impl ServerPower {
    /// The power state in a server's detail; None if the field is missing or has another value.
    pub fn of(detail: &Map<String, Value>) -> Option<Self> {
        Self::deserialize(detail.get("ecsStatus")?).ok()
    }
}

/// The service's report on a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It is in progress.
    Running,
    Succeeded,
    /// It ended without success.
    Failed {
        /// The service's reason, cut to one line.
        reason: Option<String>,
    },
    /// An unknown word. It does not count as an end: the specification has only one word for a successful end, and callers
    /// limit their wait by the clock.
    Unknown {
        /// The word, for display.
        word: String,
    },
}

impl TaskState {
    /// Whether the state is final.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed { .. })
    }
}

/// The fields that may contain the reason of a failed task, the most reliable first (field note 6).
const REASONS: [&str; 4] = ["errorMessage", "failMessage", "remark", "message"];

impl TaskState {
    /// The report of a body, nested in `asyncTaskInfo` or at the top level. A body with none of `asyncTaskInfo`, `taskStatus` and
    /// `processResult` is not a report. None of these secrets stays in a text.
    pub(super) fn read(body: &Map<String, Value>, secrets: &[&str]) -> Option<Self> {
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
        Some(
            match result.as_deref().map(str::to_ascii_uppercase).as_deref() {
                // The specification defines the result as the mark of completion, so it takes precedence over a status that lags
                // behind.
                Some("SUCCESS") => Self::Succeeded,
                Some("FAIL" | "CANCEL") => {
                    let text = |object: &Map<String, Value>| {
                        let mut texts = REASONS.iter().filter_map(|key| object.get(*key)?.as_str());
                        texts
                            .find(|text| !text.trim().is_empty())
                            .map(str::to_owned)
                    };
                    let reason = text(info).or_else(|| text(body));
                    let reason = reason.map(|reason| sentence(&reason, secrets));
                    Self::Failed { reason }
                }
                Some("RETRY" | "PROCESSING") => Self::Running,
                Some(_) => Self::unknown(result, secrets),
                None => match status.as_deref().map(str::to_ascii_uppercase).as_deref() {
                    Some("PROCESSING") | None => Self::Running,
                    // Includes FINISHED without a result, which shows neither success nor failure, so neither is assumed. Most
                    // likely the service writes the two fields one after the other, and the next read shows both.
                    Some(_) => Self::unknown(status, secrets),
                },
            },
        )
    }

    fn unknown(word: Option<String>, secrets: &[&str]) -> Self {
        let word = clean_of(&word.unwrap_or_default(), secrets);
        Self::Unknown { word }
    }
}

/// One page of a list.
#[derive(Debug)]
pub struct ListPage<R> {
    /// The values that were made of its rows, in the service's order.
    pub rows: Vec<R>,
    /// How many rows cannot be read. Any of them might be the one that matters.
    pub unreadable: usize,
    /// `rowCount`. The specification does not define whether it counts the page or the whole list.
    pub row_count: Option<u64>,
    /// Memory for all rows, unless it is counted with each row.
    pub memory: Option<RowMemory>,
}

#[cfg(test)]
mod tests;
