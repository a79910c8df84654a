//! The service as a synchronous state machine: no I/O, no clock of its own, no randomness except from the seed.
//!
//! [`World::call`] executes one call of the service, [`World::advance`] lets time pass. The same seed, calls and moments always
//! give the same answers.

mod account;
mod console;
mod lists;
mod mutate;
mod records;
mod reply;
mod request;
mod require;
mod ripen;
pub mod rules;
mod server;
mod task;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

pub use account::{Account, AccountExists, AccountStatus, DEFAULT_ACCOUNT, NoSuchAccount};
pub use console::{Console, ConsoleError};
pub use records::{Record, RestoreError};
pub use reply::{Answer, Effect, Page, Refusal, Reply};
pub use request::{
    CreateRequest, InstanceRequest, ListRequest, PasswordRequest, ReinstallRequest, Request, Verb,
};
pub use server::{DiskView, Power, Server, ServerInfo, ServerView};
pub use task::{Progress, Task, TaskInfo, TaskReport, TaskScript, Work};

use crate::catalogue::Catalogue;
use crate::mix;
use crate::readings::Readings;
use crate::secret::Secret;
use crate::time::Timestamp;

/// How long each operation takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durations {
    all: Duration,
    by_verb: BTreeMap<Verb, Duration>,
}

impl Durations {
    /// The same duration for every operation.
    #[must_use]
    pub const fn all(duration: Duration) -> Self {
        Self {
            all: duration,
            by_verb: BTreeMap::new(),
        }
    }

    /// Sets the duration of one operation.
    pub fn set(&mut self, verb: Verb, duration: Duration) {
        self.by_verb.insert(verb, duration);
    }

    /// The duration of one operation.
    #[must_use]
    pub fn of(&self, verb: Verb) -> Duration {
        self.by_verb.get(&verb).copied().unwrap_or(self.all)
    }
}

/// The settings from which a world is created.
#[derive(Clone, Debug)]
pub struct Config {
    /// The seed of everything that appears random.
    pub seed: u64,
    /// How long each operation takes.
    pub durations: Durations,
    /// How the world answers questions that the specification leaves open.
    pub readings: Readings,
    /// The default account's token.
    pub token: Secret,
}

/// The seed of a world if none is chosen.
pub const DEFAULT_SEED: u64 = 1;

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: DEFAULT_SEED,
            durations: Durations::all(Duration::from_secs(3)),
            readings: Readings::default(),
            token: Self::token_of(DEFAULT_SEED),
        }
    }
}

impl Config {
    /// The default account's token if none is chosen.
    #[must_use]
    pub fn token_of(seed: u64) -> Secret {
        Secret::from(format!("token-{}", mix::suffix(seed, "token", 0)))
    }
}

/// The live servers by account and zone, as server numbers.
type Places = BTreeMap<(String, String), BTreeSet<u64>>;

/// The state of the whole service.
#[derive(Clone, Debug)]
pub struct World {
    seed: u64,
    durations: Durations,
    readings: Readings,
    catalogue: Arc<Catalogue>,
    now: Timestamp,
    servers_made: u64,
    tasks_made: u64,
    accounts: Vec<Account>,
    sold_out: BTreeSet<String>,
    servers: BTreeMap<u64, Server>,
    server_by_id: HashMap<String, u64>,
    places: Places,
    all_visible_from: Timestamp,
    members: HashMap<String, usize>,
    tasks: BTreeMap<u64, Task>,
    task_by_id: HashMap<String, u64>,
    due: BTreeSet<(Timestamp, u64)>,
    events: Vec<Effect>,
    dirty: records::Dirty,
}

impl World {
    /// A world with the catalogue, the default account and no servers.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let default = Account {
            name: DEFAULT_ACCOUNT.to_owned(),
            token: config.token,
            status: AccountStatus::Normal,
            quota: None,
            regions: None,
        };
        Self {
            seed: config.seed,
            durations: config.durations,
            readings: config.readings,
            catalogue: Catalogue::shared(),
            now: Timestamp::default(),
            servers_made: 0,
            tasks_made: 0,
            accounts: vec![default],
            sold_out: BTreeSet::new(),
            servers: BTreeMap::new(),
            server_by_id: HashMap::new(),
            places: BTreeMap::new(),
            all_visible_from: Timestamp::default(),
            members: HashMap::new(),
            tasks: BTreeMap::new(),
            task_by_id: HashMap::new(),
            due: BTreeSet::new(),
            events: Vec::new(),
            dirty: records::Dirty::of_a_new_world(),
        }
    }

    /// Executes one call of the service at the moment `now`.
    pub fn call(&mut self, now: Timestamp, token: Option<&str>, request: &Request) -> Reply {
        self.call_scripted(now, token, request, TaskScript::Succeed)
    }

    /// Executes one call. If it starts a task, the task follows `script`.
    pub fn call_scripted(
        &mut self,
        now: Timestamp,
        token: Option<&str>,
        request: &Request,
        script: TaskScript,
    ) -> Reply {
        self.advance(now);
        match self.answer(token, request, script) {
            Ok((answer, effect)) => Reply {
                outcome: Ok(answer),
                effect,
            },
            Err(refusal) => Reply {
                outcome: Err(refusal),
                effect: Effect::None,
            },
        }
    }

    fn answer(
        &mut self,
        token: Option<&str>,
        request: &Request,
        script: TaskScript,
    ) -> Result<(Answer, Effect), Refusal> {
        let account = self.authenticate(token)?;
        match request {
            Request::Create(body) => self.create(account, body, script),
            Request::Release(body) => self.release(account, body, script),
            Request::Stop(body) => self.stop(account, body, script),
            Request::Start(body) => self.start(account, body, script),
            Request::Restart(body) => self.restart(account, body, script),
            Request::Password(body) => self.change_password(account, body, script),
            Request::Reinstall(body) => self.reinstall(account, body, script),
            Request::Detail { server } => self.detail(account, server.as_deref()),
            Request::TaskResult { task } => self.task_result(account, task.as_deref()),
            Request::Instances(query) => self.list_instances(account, query),
            Request::Firewalls(query) => self.list_firewalls(account, query),
            Request::Images(query) => self.list_images(query),
            Request::Keys(query) => self.list_keys(query),
            Request::Packages(query) => self.list_packages(query),
            Request::Regions => Ok((Answer::Regions(self.regions_on_sale()), Effect::None)),
        }
    }

    /// The index of the account that a token belongs to.
    fn authenticate(&self, token: Option<&str>) -> Result<usize, Refusal> {
        let known = token.and_then(|token| {
            self.accounts
                .iter()
                .position(|account| account.token.reveal() == token)
        });
        known.ok_or_else(|| {
            let message = "The current request is not authenticated and access is not allowed";
            Refusal::new(401, "Authenticated.Error", message)
        })
    }

    /// Checks that a token belongs to an account. Done before the form of a request is checked.
    ///
    /// # Errors
    /// The refusal of field note 11.
    pub fn check_token(&self, token: Option<&str>) -> Result<(), Refusal> {
        self.authenticate(token).map(|_| ())
    }

    /// The current time of the world.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// The catalogue that the world sells from.
    #[must_use]
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The catalogue, for changes. They apply to this service only and last until the process ends.
    pub fn catalogue_mut(&mut self) -> &mut Catalogue {
        Arc::make_mut(&mut self.catalogue)
    }

    /// How the world answers questions that the specification leaves open.
    #[must_use]
    pub const fn readings(&self) -> &Readings {
        &self.readings
    }

    /// Changes the readings from now on.
    pub fn set_readings(&mut self, readings: Readings) {
        self.readings = readings;
    }

    /// Changes the durations of operations that are accepted from now on.
    pub fn set_durations(&mut self, durations: Durations) {
        self.durations = durations;
    }

    /// The seed that the world was created from.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The events since the last request for them that are not part of an answer: tasks that ended, actions at the console.
    pub fn take_events(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.events)
    }

    /// The accounts.
    #[must_use]
    pub fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// The name of the account that a token belongs to.
    #[must_use]
    pub fn account_of(&self, token: Option<&str>) -> Option<&str> {
        let index = self.authenticate(token).ok()?;
        self.accounts
            .get(index)
            .map(|account| account.name.as_str())
    }

    /// Opens an account.
    ///
    /// # Errors
    /// An account with that name or token exists.
    pub fn add_account(&mut self, name: &str, token: &str) -> Result<(), AccountExists> {
        if self
            .accounts
            .iter()
            .any(|each| each.name == name || each.token.reveal() == token)
        {
            return Err(AccountExists);
        }
        self.accounts.push(Account {
            name: name.to_owned(),
            token: Secret::from(token),
            status: AccountStatus::Normal,
            quota: None,
            regions: None,
        });
        self.dirty.meta = true;
        Ok(())
    }

    /// Changes an account: its status, its token, its quota.
    ///
    /// # Errors
    /// There is no such account.
    pub fn change_account(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut Account),
    ) -> Result<(), NoSuchAccount> {
        let account = self
            .accounts
            .iter_mut()
            .find(|account| account.name == name);
        change(account.ok_or_else(|| NoSuchAccount(name.to_owned()))?);
        self.dirty.meta = true;
        Ok(())
    }

    /// Every server that was ever created, in the order of creation.
    #[must_use]
    pub fn servers(&self) -> Vec<ServerInfo> {
        self.servers
            .values()
            .map(|server| ServerInfo::of(server, self.now))
            .collect()
    }

    /// The servers that exist and are billed.
    #[must_use]
    pub fn live_servers(&self) -> Vec<ServerInfo> {
        let live = self.servers.values().filter(|server| server.is_live());
        live.map(|server| ServerInfo::of(server, self.now))
            .collect()
    }

    /// The true state of one server.
    #[must_use]
    pub fn server(&self, id: &str) -> Option<ServerInfo> {
        self.record(id)
            .map(|server| ServerInfo::of(server, self.now))
    }

    /// The current login password of a server, if it has one.
    #[must_use]
    pub fn password_of(&self, id: &str) -> Option<String> {
        self.record(id)?
            .password
            .as_ref()
            .map(|password| password.reveal().to_owned())
    }

    /// Every task that was ever started, in the order of the start.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.tasks.values()
    }

    /// The newest tasks, at most `most` of them.
    #[must_use]
    pub fn newest_tasks(&self, most: usize) -> Vec<TaskInfo> {
        let newest = self.tasks.values().rev().take(most);
        let tasks = newest.map(|task| TaskInfo {
            id: task.id.clone(),
            verb: task.verb.to_string(),
            server: self
                .servers
                .get(&task.server)
                .map(|server| server.id.clone()),
            progress: task.progress,
            started_at: task.started_at,
            due: task.due,
            ended_at: task.ended_at,
        });
        tasks.collect()
    }

    /// The task with this id.
    #[must_use]
    pub fn task(&self, id: &str) -> Option<&Task> {
        self.tasks.get(self.task_by_id.get(id)?)
    }

    fn record(&self, id: &str) -> Option<&Server> {
        self.servers.get(self.server_by_id.get(id)?)
    }
}
