//! The calls that change something: they are validated, accepted, and get a task.

use std::time::Duration;

use super::reply::{Answer, Effect, Refusal};
use super::request::{CreateRequest, InstanceRequest, PasswordRequest, ReinstallRequest, Verb};
use super::require::{not_authorized, required};
use super::server::{Power, Server};
use super::task::{Progress, Task, TaskScript, Work};
use super::{World, rules};
use crate::mix;
use crate::readings::ReleaseWhileCreating;
use crate::secret::Secret;
use crate::time::Timestamp;

type Accepted = Result<(Answer, Effect), Refusal>;

impl World {
    /// Creates a server. Its identifier is known at once; the deployment takes a task. Names are not unique: a second create
    /// with the same name makes a second server.
    pub(super) fn create(
        &mut self,
        account: usize,
        body: &CreateRequest,
        script: TaskScript,
    ) -> Accepted {
        self.require_standing(account)?;
        let package = required(body.package_code.as_deref(), "PackageCode")?;
        let (region, zone) =
            self.require_zone(body.region_code.as_deref(), body.zone_code.as_deref())?;
        if !self.accounts[account].sees(&region) {
            return Err(not_authorized());
        }
        let name = required(body.instance_name.as_deref(), "InstanceName")?;
        rules::instance_name(name)?;
        let image = self.require_image(body.image.as_deref(), &region)?;
        let login = self.require_login(body.key.as_deref(), body.password.as_ref(), &image)?;
        self.require_package(package, &region, &zone)?;
        let firewall = self.require_firewall(body.firewall.as_deref(), &region)?;
        self.require_stock(&region)?;
        self.require_quota(account)?;

        let number = self.servers_made;
        self.servers_made += 1;
        self.dirty.meta = true;
        let id = self.new_id("ecs-", "server", number);
        let server = Server {
            number,
            id: id.clone(),
            account: self.accounts[account].name.clone(),
            name: name.to_owned(),
            region,
            zone,
            package: package.to_owned(),
            image,
            firewall,
            key: login.key,
            password: login.password,
            power: Power::Creating,
            task: None,
            pending: None,
            created_at: self.now,
            visible_at: self.now.plus(self.readings.visible_late),
            addressed_at: Timestamp::default(),
            released_at: None,
            reads: 0,
        };
        self.index(&server);
        self.servers.insert(number, server);
        let answer = self.begin(number, Verb::Create, Work::Plain, script);
        Ok((
            answer,
            Effect::Created {
                server: id,
                name: name.to_owned(),
            },
        ))
    }

    /// Releases a server. While its create runs, the readings decide: the release is refused, or the create is cancelled.
    pub(super) fn release(
        &mut self,
        account: usize,
        body: &InstanceRequest,
        script: TaskScript,
    ) -> Accepted {
        let number = self.require_server(account, body.server.as_deref())?;
        let creating = self.servers[&number].pending == Some(Verb::Create);
        if creating && self.readings.release_while_creating == ReleaseWhileCreating::Allowed {
            self.cancel_task_of(number);
        }
        self.require_idle(number)?;
        let answer = self.begin(number, Verb::Release, Work::Plain, script);
        let Server { id, name, .. } = &self.servers[&number];
        Ok((
            answer,
            Effect::ReleaseAccepted {
                server: id.clone(),
                name: name.clone(),
            },
        ))
    }

    pub(super) fn stop(
        &mut self,
        account: usize,
        body: &InstanceRequest,
        script: TaskScript,
    ) -> Accepted {
        let number = self.require_server(account, body.server.as_deref())?;
        if body.force_stop == Some(true) && self.servers[&number].pending == Some(Verb::Stop) {
            // A forced stop cuts the power while an ordinary stop is still running.
            self.cancel_task_of(number);
        }
        self.require_idle(number)?;
        self.require_power(number, Power::Started, "NotStarted")?;
        let answer = self.begin(number, Verb::Stop, Work::Plain, script);
        Ok((
            answer,
            Effect::StopAccepted {
                server: self.id_of(number),
            },
        ))
    }

    pub(super) fn start(
        &mut self,
        account: usize,
        body: &InstanceRequest,
        script: TaskScript,
    ) -> Accepted {
        let number = self.require_server(account, body.server.as_deref())?;
        self.require_idle(number)?;
        self.require_power(number, Power::Stopped, "NotStopped")?;
        let answer = self.begin(number, Verb::Start, Work::Plain, script);
        Ok((
            answer,
            Effect::StartAccepted {
                server: self.id_of(number),
            },
        ))
    }

    pub(super) fn restart(
        &mut self,
        account: usize,
        body: &InstanceRequest,
        script: TaskScript,
    ) -> Accepted {
        let number = self.require_server(account, body.server.as_deref())?;
        self.require_idle(number)?;
        self.require_power(number, Power::Started, "NotStarted")?;
        let answer = self.begin(number, Verb::Restart, Work::Plain, script);
        Ok((
            answer,
            Effect::RestartAccepted {
                server: self.id_of(number),
            },
        ))
    }

    pub(super) fn change_password(
        &mut self,
        account: usize,
        body: &PasswordRequest,
        script: TaskScript,
    ) -> Accepted {
        let number = self.require_server(account, body.server.as_deref())?;
        self.require_region_of(number, body.region_code.as_deref())?;
        let password = required(body.password.as_ref().map(Secret::reveal), "Password")?;
        rules::password(password, self.readings.password_specials)?;
        self.require_idle(number)?;
        self.require_whole(number)?;
        let work = Work::Password(Secret::from(password));
        let answer = self.begin(number, Verb::Password, work, script);
        Ok((
            answer,
            Effect::PasswordAccepted {
                server: self.id_of(number),
            },
        ))
    }

    pub(super) fn reinstall(
        &mut self,
        account: usize,
        body: &ReinstallRequest,
        script: TaskScript,
    ) -> Accepted {
        let number = self.require_server(account, body.server.as_deref())?;
        self.require_region_of(number, body.region_code.as_deref())?;
        let region = self.servers[&number].region.clone();
        let image = self.require_image(body.image.as_deref(), &region)?;
        let login = self.require_login(body.key.as_deref(), body.password.as_ref(), &image)?;
        self.require_idle(number)?;
        self.require_whole(number)?;
        if self.readings.reinstall_needs_stop {
            self.require_power(number, Power::Stopped, "NotStopped")?;
        }
        let work = Work::Reinstall {
            image: image.clone(),
            key: login.key,
            password: login.password,
        };
        let answer = self.begin(number, Verb::Reinstall, work, script);
        Ok((
            answer,
            Effect::ReinstallAccepted {
                server: self.id_of(number),
                image,
            },
        ))
    }

    /// Starts a task on the server, and answers with it.
    fn begin(&mut self, number: u64, verb: Verb, work: Work, script: TaskScript) -> Answer {
        let task = self.tasks_made;
        self.tasks_made += 1;
        self.dirty.meta = true;
        let id = self.new_id("", "task", task);
        let due = match script {
            TaskScript::Never => Timestamp::from_millis(u64::MAX),
            _ => self.now.plus(self.durations.of(verb)),
        };
        let server_id = self.id_of(number);
        self.update(number, |server| {
            server.task = Some(task);
            server.pending = Some(verb);
        });
        self.due.insert((due, task));
        self.task_by_id.insert(id.clone(), task);
        self.dirty.tasks.insert(task);
        let account = self.servers[&number].account.clone();
        self.tasks.insert(
            task,
            Task {
                id: id.clone(),
                account,
                server: number,
                verb,
                work,
                script,
                progress: Progress::Running,
                started_at: self.now,
                due,
                ended_at: None,
                reads: 0,
            },
        );
        // A task without a duration has ended when the caller first queries it.
        if self.durations.of(verb) == Duration::ZERO {
            self.advance(self.now);
        }
        Answer::Accepted {
            verb,
            task: id,
            server: server_id,
        }
    }

    fn new_id(&self, prefix: &str, purpose: &str, number: u64) -> String {
        let suffix = mix::suffix(self.seed, purpose, number);
        if self.readings.awkward_ids {
            format!("{prefix}{} +/?&=%#{}", &suffix[..6], &suffix[6..])
        } else {
            format!("{prefix}{suffix}")
        }
    }

    fn id_of(&self, number: u64) -> String {
        self.servers[&number].id.clone()
    }
}
