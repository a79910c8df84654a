//! Asynchronous tasks: the remaining work of an accepted operation, and the answers to queries meanwhile.

use serde::{Deserialize, Serialize};

use super::request::Verb;
use crate::secret::Secret;
use crate::time::Timestamp;

/// The course of a task, which a fault can change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "script", rename_all = "kebab-case")]
pub enum TaskScript {
    /// It runs for its duration and succeeds.
    #[default]
    Succeed,
    /// It ends as `FAIL`, with this reason, and has no effect.
    Fail {
        /// The text of the failure field.
        reason: String,
    },
    /// It ends as `CANCEL` and has no effect.
    Cancel,
    /// It reports `RETRY` when it is due, starts over, and then succeeds.
    Retry,
    /// It never ends.
    Never,
    /// Its effect takes place in time, but its query reports this word forever.
    UnknownWord {
        /// The word in `taskStatus` and `processResult`.
        word: String,
    },
    /// It reports `SUCCESS`, then `PROCESSING` again at the next query, then `SUCCESS`.
    Backwards,
    /// Its effect takes place in time, but its query does not know the id.
    LostId,
}

/// The effect of a task that succeeds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Work {
    /// Only the effect of the verb itself.
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

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// It runs.
    Running,
    /// It runs again after a `RETRY`.
    Retrying,
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
}

/// A task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// `asyncTaskUUID`
    pub id: String,
    /// The account that started it, and that may query it.
    pub account: String,
    /// The number of the server it works on.
    pub server: u64,
    /// Its operation.
    pub verb: Verb,
    /// Its effect.
    pub work: Work,
    /// Its scripted course.
    pub script: TaskScript,
    /// Its state.
    pub progress: Progress,
    /// When it began.
    pub started_at: Timestamp,
    /// When its state changes next.
    pub due: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// How often it was queried after its end.
    pub reads: u32,
}

/// The true state of a task, for the control port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskInfo {
    /// `asyncTaskUUID`
    pub id: String,
    /// Its operation.
    pub verb: String,
    /// `ecsResourceUUID` of the server it works on.
    pub server: Option<String>,
    /// Its state.
    pub progress: Progress,
    /// When it began.
    #[serde(rename = "startedAtMillis")]
    pub started_at: Timestamp,
    /// When its state changes next.
    #[serde(rename = "dueMillis")]
    pub due: Timestamp,
    /// When it ended.
    #[serde(rename = "endedAtMillis")]
    pub ended_at: Option<Timestamp>,
}

/// The answer to a query of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskReport {
    /// `taskStatus`
    pub status: String,
    /// `processResult`; `None` while the task has no result.
    pub result: Option<String>,
    /// Why it failed.
    pub reason: Option<String>,
}

impl Task {
    /// Whether it still occupies its server.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.progress, Progress::Running | Progress::Retrying)
    }

    /// The answer to a query now; `None` if the query reports that there is no such task.
    pub(super) fn report(&mut self) -> Option<TaskReport> {
        let report = |status: &str, result: Option<&str>, reason: Option<&str>| {
            Some(TaskReport {
                status: status.to_owned(),
                result: result.map(str::to_owned),
                reason: reason.map(str::to_owned),
            })
        };
        match &self.script {
            TaskScript::LostId => return None,
            TaskScript::UnknownWord { word } => return report(word, Some(word), None),
            _ => {}
        }
        match self.progress {
            Progress::Running => report("PROCESSING", None, None),
            Progress::Retrying => report("PROCESSING", Some("RETRY"), None),
            Progress::Succeeded => {
                self.reads = self.reads.saturating_add(1);
                if self.script == TaskScript::Backwards && self.reads == 2 {
                    report("PROCESSING", None, None)
                } else {
                    report("FINISHED", Some("SUCCESS"), None)
                }
            }
            Progress::Failed => {
                let reason = match &self.script {
                    TaskScript::Fail { reason } => reason.as_str(),
                    _ => "the operation failed",
                };
                report("FINISHED", Some("FAIL"), Some(reason))
            }
            Progress::Cancelled => report(
                "FINISHED",
                Some("CANCEL"),
                Some("the operation was cancelled"),
            ),
        }
    }
}
