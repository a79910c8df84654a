//! The passing of time: tasks end and take effect.

use super::World;
use super::reply::Effect;
use super::request::Verb;
use super::server::{Power, Server};
use super::task::{Progress, TaskScript, Work};
use crate::readings::{FailedCreate, PowerAfterReinstall};
use crate::time::Timestamp;

impl World {
    /// Lets time pass until `now`. Every task that is due by then ends, in order. Time never goes back.
    pub fn advance(&mut self, now: Timestamp) {
        while let Some(&(due, task)) = self.due.first() {
            if due > now || due == Timestamp::from_millis(u64::MAX) {
                break;
            }
            self.due.pop_first();
            self.now = self.now.max(due);
            self.ripen(task);
        }
        self.now = self.now.max(now);
    }

    /// When the next task ends; `None` if no task will end on its own.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        let (due, _) = self.due.first()?;
        (due.as_millis() != u64::MAX).then_some(*due)
    }

    fn ripen(&mut self, task_number: u64) {
        let again = self.durations.of(self.tasks[&task_number].verb);
        let now = self.now;
        let Some(task) = self.tasks.get_mut(&task_number) else {
            return;
        };
        self.dirty.tasks.insert(task_number);
        if task.script == TaskScript::Retry && task.progress == Progress::Running {
            task.progress = Progress::Retrying;
            task.due = now.plus(again);
            self.due.insert((task.due, task_number));
            return;
        }
        task.progress = match task.script {
            TaskScript::Fail { .. } => Progress::Failed,
            TaskScript::Cancel => Progress::Cancelled,
            _ => Progress::Succeeded,
        };
        task.ended_at = Some(now);
        let (number, verb, progress, work) =
            (task.server, task.verb, task.progress, task.work.clone());
        self.update(number, |server| {
            server.task = None;
            server.pending = None;
        });
        let server = self.servers[&number].id.clone();
        let effect = match progress {
            Progress::Failed | Progress::Cancelled => {
                if verb == Verb::Create {
                    self.fail_create(number);
                }
                let result = if progress == Progress::Failed {
                    "FAIL"
                } else {
                    "CANCEL"
                };
                Effect::TaskFailed {
                    server,
                    verb,
                    result: result.to_owned(),
                }
            }
            _ => self.complete(number, verb, work),
        };
        self.events.push(effect);
    }

    /// Applies the effect of the operation.
    fn complete(&mut self, number: u64, verb: Verb, work: Work) -> Effect {
        let server = self.servers[&number].id.clone();
        let power = |power: Power| move |server: &mut Server| server.power = power;
        match (verb, work) {
            (Verb::Create, _) => {
                let addressed_at = self.now.plus(self.readings.address_late);
                self.update(number, |server| {
                    server.power = Power::Started;
                    server.addressed_at = addressed_at;
                });
                Effect::Deployed { server }
            }
            (Verb::Release, _) => {
                self.remove(number);
                Effect::Released { server }
            }
            (Verb::Stop, _) => {
                self.update(number, power(Power::Stopped));
                Effect::Stopped { server }
            }
            (Verb::Start, _) => {
                self.update(number, power(Power::Started));
                Effect::Started { server }
            }
            (Verb::Restart, _) => Effect::Restarted { server },
            (Verb::Password, Work::Password(password)) => {
                self.update(number, |server| server.password = Some(password));
                Effect::PasswordChanged { server }
            }
            (
                Verb::Reinstall,
                Work::Reinstall {
                    image,
                    key,
                    password,
                },
            ) => {
                let power = match self.readings.power_after_reinstall {
                    PowerAfterReinstall::Kept => None,
                    PowerAfterReinstall::Started => Some(Power::Started),
                    PowerAfterReinstall::Stopped => Some(Power::Stopped),
                };
                let installed = image.clone();
                self.update(number, |server| {
                    server.image = installed;
                    server.key = key;
                    server.password = password;
                    server.power = power.unwrap_or(server.power);
                });
                Effect::Reinstalled { server, image }
            }
            (Verb::Password | Verb::Reinstall, _) => Effect::None,
        }
    }

    fn fail_create(&mut self, number: u64) {
        match self.readings.failed_create {
            FailedCreate::LeavesBroken => {
                self.update(number, |server| server.power = Power::Broken);
            }
            FailedCreate::LeavesNothing => self.remove(number),
        }
    }

    /// Ends the task of a server now, including a task that would never end.
    pub(super) fn end_task_of(&mut self, number: u64) {
        let Some(task_number) = self.servers[&number].task else {
            return;
        };
        if let Some(task) = self.tasks.get_mut(&task_number) {
            self.due.remove(&(task.due, task_number));
            task.due = self.now;
            self.dirty.tasks.insert(task_number);
            self.ripen(task_number);
        }
    }

    /// Ends the task of a server as cancelled, without its effect.
    pub(super) fn cancel_task_of(&mut self, number: u64) {
        let Some(task_number) = self.servers[&number].task else {
            return;
        };
        if let Some(task) = self.tasks.get_mut(&task_number) {
            self.due.remove(&(task.due, task_number));
            task.progress = Progress::Cancelled;
            task.ended_at = Some(self.now);
            self.dirty.tasks.insert(task_number);
        }
        self.update(number, |server| {
            server.task = None;
            server.pending = None;
        });
    }

    /// Changes a server and records the change for the store.
    pub(super) fn update(&mut self, number: u64, change: impl FnOnce(&mut Server)) {
        if let Some(server) = self.servers.get_mut(&number) {
            change(server);
            self.dirty.servers.insert(number);
        }
    }

    /// Removes a server from the world; its record stays.
    pub(super) fn remove(&mut self, number: u64) {
        let now = self.now;
        self.update(number, |server| {
            server.released_at = Some(now);
            server.power = Power::Stopped;
        });
        let server = &self.servers[&number];
        let place = (server.account.clone(), server.zone.clone());
        if let Some(members) = self.members.get_mut(&server.firewall) {
            *members = members.saturating_sub(1);
        }
        if let Some(numbers) = self.places.get_mut(&place) {
            numbers.remove(&number);
        }
    }

    /// Adds a server to the indices.
    pub(super) fn index(&mut self, server: &Server) {
        self.server_by_id.insert(server.id.clone(), server.number);
        self.dirty.servers.insert(server.number);
        self.all_visible_from = self.all_visible_from.max(server.visible_at);
        if server.is_live() {
            let place = (server.account.clone(), server.zone.clone());
            self.places.entry(place).or_default().insert(server.number);
            *self.members.entry(server.firewall.clone()).or_default() += 1;
        }
    }
}
