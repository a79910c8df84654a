//! What a tool could see of an object at any time, with how the service stood just then: for judges that know nothing of us.

use super::Universe;
use crate::apiserver::{ACCOUNTS, INSTANCES, Key};
use crate::oracle::servers_of;
use crate::run::Look;
use cloud_simulator::model::{Progress, Request, Task, Verb};
use serde_json::Value;
use std::time::Duration;

/// An object as the apiserver has it, from this time on until the next moment of the same object.
#[derive(Clone, Debug)]
pub struct Moment {
    /// From the beginning of the run.
    pub at: Duration,
    /// Which object.
    pub key: Key,
    /// As anybody reads it.
    pub object: Value,
    /// How the service stood.
    pub truth: Truth,
}

/// How the service stands: of its own books, not of what the operator made of them. A run that is looked at so has one Instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Operations that run.
    pub running: Vec<Verb>,
    /// What the servers are not that the spec wants.
    pub lacks: Option<&'static str>,
    /// The login Secret holds another password than the server has. Nothing of that stands in the object.
    pub has_old_password: bool,
    /// Restarts and reinstalls that were carried out.
    pub restarted: usize,
    pub erased: usize,
    /// Tasks that failed.
    pub failed: usize,
    /// Reinstalls that were taken, whoever heard of it.
    pub reinstalls: usize,
    /// Operations that the service refused.
    pub refused: usize,
    /// Something was answered as it was asked.
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
    /// What was noted.
    pub fn moments(&self) -> Vec<Moment> {
        self.moments.clone()
    }

    /// Notes each object that is not as it was, or whose service is not.
    pub(super) fn note_moments(&mut self) {
        if self.look != Look::Moments {
            return;
        }
        // A task that is over by now is open no more, whether or not anybody asked.
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
        let wanted = match spec["powerState"] == "Stopped" {
            true => "STOPPED",
            false => "STARTED",
        };
        let lacks = match servers.as_slice() {
            _ if object["kind"] == "Account" => None,
            [] => Some("there is no server"),
            [one] if one.status != wanted => Some("another power state"),
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
