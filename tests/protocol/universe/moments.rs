//! The states of an object that a tool could see at any time, with the true state of the service at that time: for independent
//! judges.

use super::Universe;
use crate::apiserver::{ACCOUNTS, INSTANCES, Key};
use crate::oracle::servers_of;
use crate::run::Recording;
use cloud_simulator::model::{Progress, Request, Task, Verb};
use serde_json::Value;
use std::time::Duration;

/// An object's state in the apiserver, from this time until the next moment of the same object.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Time from the beginning of the run.
    pub at: Duration,
    /// Which object.
    pub key: Key,
    /// The object as readers get it.
    pub object: Value,
    /// The state of the service.
    pub truth: Truth,
}

/// The true state of the service, independent of the operator's view. A run that is recorded in this way has one Instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Running operations.
    pub running: Vec<Verb>,
    /// The difference of the servers from the spec.
    pub lacks: Option<&'static str>,
    /// Whether the login Secret contains another password than the server has, which the object does not show.
    pub has_old_password: bool,
    /// Number of restarts and reinstalls that were carried out.
    pub restarted: usize,
    pub erased: usize,
    /// Number of tasks that failed.
    pub failed: usize,
    /// Number of reinstalls that were accepted, whether or not the answer arrived.
    pub reinstalls: usize,
    /// Number of operations that the service refused.
    pub refused: usize,
    /// Whether any request succeeded.
    pub has_answered: bool,
}

impl Truth {
    /// The service answered.
    pub(super) fn answered(&mut self, request: &Request, is_done: bool) {
        self.has_answered |= is_done;
        self.refused += usize::from(!is_done && request.verb().is_some());
    }
}

impl Universe {
    /// The recorded moments.
    pub fn moments(&self) -> Vec<Moment> {
        self.moments.clone()
    }

    /// Records each object that changed, or whose service's state changed.
    pub(super) fn note_moments(&mut self) {
        if self.recording != Recording::Moments {
            return;
        }
        // A task that is due counts as ended, whether or not it was queried.
        self.advance();
        let at = self.began.elapsed();
        let seen = self.kube.all();
        let seen = seen.filter(|(key, _)| [INSTANCES, ACCOUNTS].contains(&key.0));
        let new: Vec<Moment> = seen
            .map(|(key, object)| Moment {
                at,
                key: key.clone(),
                object: object.clone(),
                truth: self.truth_of(object),
            })
            .filter(|moment| {
                let mut former = self.moments.iter().rev();
                let former = former.find(|former| former.key == moment.key);
                former.is_none_or(|former| {
                    (&former.object, &former.truth) != (&moment.object, &moment.truth)
                })
            })
            .collect();
        self.moments.extend(new);
    }

    fn truth_of(&self, object: &Value) -> Truth {
        let servers = servers_of(object, &self.cloud);
        let spec = &object["spec"];
        let desired = match spec["powerState"] == "Stopped" {
            true => "STOPPED",
            false => "STARTED",
        };
        let lacks = match servers.as_slice() {
            _ if object["kind"] == "Account" => None,
            [] => Some("there is no server"),
            [one] if one.status != desired => Some("another power state"),
            [one] if spec["image"]["id"] != one.image.as_str() => Some("another image"),
            [_] => None,
            _ => Some("there is a second server"),
        };
        let passwords = servers.iter().map(|one| self.cloud.password_of(&one.id));
        let mut passwords = passwords.flatten();
        let tasks = || self.cloud.tasks();
        let open = tasks().filter(|task| task.is_open());
        Truth {
            running: open.map(|task| task.verb).collect(),
            lacks,
            has_old_password: passwords.any(|password| password != self.password()),
            restarted: self.tally.count("restarted"),
            erased: self.tally.count("erased"),
            failed: tasks().filter(has_failed).count(),
            reinstalls: tasks().filter(|task| task.verb == Verb::Reinstall).count(),
            ..self.truth.clone()
        }
    }
}

fn has_failed(task: &&Task) -> bool {
    matches!(task.progress, Progress::Failed)
}
