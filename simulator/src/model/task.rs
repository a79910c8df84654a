//! Asynchronous tasks: what an accepted operation still has to do, and what its query says meanwhile.

use serde::{Deserialize, Serialize};

use super::request::Verb;
use crate::secret::Secret;
use crate::time::Timestamp;

/// How a task goes, where a fault wants it otherwise than well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "script", rename_all = "kebab-case")]
pub enum TaskScript {
    /// It takes its time and succeeds.
    #[default]
    Succeed,
    /// It ends as `FAIL`, with this reason, and has no effect.
    Fail {
        /// What the failure field says.
        reason: String,
    },
    /// It ends as `CANCEL` and has no effect.
    Cancel,
    /// It says `RETRY` when its time has come, starts over, and then succeeds.
    Retry,
    /// It never ends.
    Never,
    /// Its effect comes in time, but its query says this word, for ever.
    UnknownWord {
        /// The word in `taskStatus` and `processResult`.
        word: String,
    },
    /// It says `SUCCESS`, then `PROCESSING` again at the next look, then `SUCCESS`.
    Backwards,
    /// Its effect comes in time, but its query does not know the id.
    LostId,
}

/// What the task does when it ends well.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Work {
    /// Nothing but what the verb says.
    Plain,
    /// Sets this password.
    Password(Secret),
    /// Installs this image with this login.
    Reinstall {
        /// The image.
        image: String,
        /// The key pair, for key login.
        key: Option<String>,
        /// The password, for password login.
        password: Option<Secret>,
    },
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// It runs.
    Running,
    /// It runs again after a `RETRY`.
    Retrying,
    /// It ended well.
    Succeeded,
    /// It ended in failure.
    Failed,
    /// It was cancelled.
    Cancelled,
}

/// A task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// `asyncTaskUUID`
    pub id: String,
    /// The account that may query it.
    pub account: String,
    /// The number of the server it works on.
    pub server: u64,
    /// What it does.
    pub verb: Verb,
    /// With what.
    pub work: Work,
    /// How it goes.
    pub script: TaskScript,
    /// Where it stands.
    pub progress: Progress,
    /// When it began.
    pub started_at: Timestamp,
    /// When the next thing happens to it.
    pub due: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// How often it was queried after its end.
    pub looks: u32,
}

/// The truth about a task, for the control port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskInfo {
    /// `asyncTaskUUID`
    pub id: String,
    /// What it does.
    pub verb: String,
    /// `ecsResourceUUID` of the server it works on.
    pub server: Option<String>,
    /// Where it stands.
    pub progress: Progress,
    /// When it began.
    #[serde(rename = "startedAtMillis")]
    pub started_at: Timestamp,
    /// When the next thing happens to it.
    #[serde(rename = "dueMillis")]
    pub due: Timestamp,
    /// When it ended.
    #[serde(rename = "endedAtMillis")]
    pub ended_at: Option<Timestamp>,
}

/// What the task query says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskReport {
    /// `taskStatus`
    pub status: String,
    /// `processResult`; `None` while there is none yet.
    pub result: Option<String>,
    /// Why it failed.
    pub reason: Option<String>,
}

impl Task {
    /// Whether it still holds its server.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.progress, Progress::Running | Progress::Retrying)
    }

    /// What a query hears now; `None` when it is told that there is no such task.
    pub(super) fn report(&mut self) -> Option<TaskReport> {
        let said = |status: &str, result: Option<&str>, reason: Option<&str>| {
            Some(TaskReport {
                status: status.to_owned(),
                result: result.map(str::to_owned),
                reason: reason.map(str::to_owned),
            })
        };
        match &self.script {
            TaskScript::LostId => return None,
            TaskScript::UnknownWord { word } => return said(word, Some(word), None),
            _ => {}
        }
        match self.progress {
            Progress::Running => said("PROCESSING", None, None),
            Progress::Retrying => said("PROCESSING", Some("RETRY"), None),
            Progress::Succeeded => {
                self.looks = self.looks.saturating_add(1);
                if self.script == TaskScript::Backwards && self.looks == 2 {
                    said("PROCESSING", None, None)
                } else {
                    said("FINISHED", Some("SUCCESS"), None)
                }
            }
            Progress::Failed => {
                let reason = match &self.script {
                    TaskScript::Fail { reason } => reason.as_str(),
                    _ => "the operation failed",
                };
                said("FINISHED", Some("FAIL"), Some(reason))
            }
            Progress::Cancelled => said(
                "FINISHED",
                Some("CANCEL"),
                Some("the operation was cancelled"),
            ),
        }
    }
}
