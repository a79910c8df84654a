//! Everything outside the operator's processes: apiserver, service, users, faults. One lock, virtual time.
//!
//! This file is about what the processes meet; [`beginning`] is what there is at first, [`faults`] what happens at which
//! request, [`steps`] what users and the console do, [`words`] what is told of it.
//! [`moments`] is what tools see of the objects. [`neighbours`] are whom nobody judges.

mod beginning;
mod faults;
mod moments;
mod neighbours;
mod released;
mod steps;
mod words;

pub use beginning::{ImportBy, Setting};
pub use faults::Absence;
use faults::Unheard;
pub use moments::Moment;
use moments::Truth;
pub use neighbours::{Done, Fate, Manner, Neighbour, OTHERS};

use crate::apiserver::{
    ACCOUNTS, Apiserver, Edit, INSTANCES, Key, NAMESPACE, Refused, SECRETS, is_neighbours,
};
use crate::fault::{Dependency, Kind, Rule};
use crate::oracle::{Oracle, ProcessId};
use crate::run::Look;
use crate::tally::Tally;
use crate::tenants::Pace;
use cloud_server_operator::session::CredentialKey;
use cloud_simulator::Timestamp;
use cloud_simulator::model::{Config, Durations, Effect, TaskScript, Verb, World};
use cloud_simulator::wire::{
    RawReply, RawRequest, Unserved, parse, render, render_refusal, unmodelled,
};
use neighbours::Neighbours;
use serde_json::Value;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use words::{base64, outline};

/// The service's token.
pub const TOKEN: &str = "token-of-the-loop";
/// The passwords that the login Secret holds in turn.
const PASSWORDS: [&str; 2] = ["First7pass!word", "Second8pass-word"];

/// What comes back: an HTTP status and a JSON body.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Status.
    pub status: u16,
    /// Body.
    pub body: Value,
}

/// What a request speaks of.
#[derive(Clone, Debug)]
pub enum About {
    /// An object at the apiserver.
    Object(Key),
    /// Whatever this call of the service names.
    Call(RawRequest),
}

impl About {
    /// Whether it is a neighbour's object.
    pub fn is_neighbours(&self) -> bool {
        matches!(self, Self::Object(key) if is_neighbours(&key.1))
    }
}

/// Shared by everybody in a run; cheap to clone.
#[derive(Clone)]
pub struct Shared {
    inner: Arc<Mutex<Universe>>,
    /// Told when a watch has something new, or a process is to be started or ended.
    pub changed: Arc<Notify>,
}

impl Shared {
    /// A universe with one Account, its token, and a login.
    pub fn new(setting: &Setting, rules: Vec<Rule>, look: Look) -> Self {
        let mut universe = Universe::new(setting, rules, look);
        universe.furnish(setting);
        Self {
            inner: Arc::new(Mutex::new(universe)),
            changed: Arc::default(),
        }
    }

    /// Tells later on whether anybody still holds it.
    pub fn watched(&self) -> Weak<Mutex<Universe>> {
        Arc::downgrade(&self.inner)
    }

    /// Looks at it or changes it.
    pub fn lock(&self) -> MutexGuard<'_, Universe> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes it, and lets everybody know.
    pub fn with<R>(&self, act: impl FnOnce(&mut Universe) -> R) -> R {
        let mut universe = self.lock();
        let result = act(&mut universe);
        universe.note_moments();
        drop(universe);
        self.changed.notify_waiters();
        result
    }
}

/// Everything outside the processes.
pub struct Universe {
    /// The apiserver.
    pub kube: Apiserver,
    /// The service.
    pub cloud: World,
    /// Judges what happens.
    pub oracle: Oracle,
    /// Whom nobody judges.
    pub neighbours: Neighbours,
    /// When each object was first told of in status, and each was first asked for at the service; and every call, by kind.
    pub pace: Pace,
    /// When anything was last changed by a process.
    pub last_change: Instant,
    /// When a fault last met a request.
    pub last_fault: Instant,
    /// Calls and writes of the processes so far that change something, by the name of the object.
    pub changes: BTreeMap<String, u64>,
    /// The processes to kill, by slot, as steps asked for it.
    pub kills: Vec<u8>,
    /// The processes to be told to end, likewise.
    pub terminations: Vec<u8>,
    /// Faults that found no request, and steps that found nothing to act on.
    pub unmet: Vec<String>,
    /// What came about.
    pub tally: Tally,
    /// Number and kind of the requests until the last change, and of a few more.
    pub kinds: Vec<(u32, Kind)>,
    /// Hashes of every state that was met at a request.
    pub states: Vec<u64>,
    began: Instant,
    setting: Setting,
    /// The server that is imported.
    legacy: Option<String>,
    /// What comes within this time of a change may still matter to it: a proof of absence, after the settling time.
    lately: Duration,
    rules: Vec<Rule>,
    total: u32,
    counts: HashMap<Kind, u32>,
    /// What is away, how, and whether anybody has noticed.
    away: Vec<(Dependency, Absence, bool)>,
    /// What is there again, and has answered nobody yet although somebody waits for it.
    unheard: Vec<Unheard>,
    /// Until then an answer is on its way, and whoever waits for it asks nothing.
    slow_until: Option<Instant>,
    backups: HashMap<u8, Value>,
    snapshot: Option<Apiserver>,
    password: usize,
    tokens: u32,
    tasks_fail: bool,
    /// Listings leave one server out.
    pub hides: bool,
    /// Every request to the apiserver, as method and target, and every URL of the service, where somebody wants to know.
    pub sent: Option<(Vec<String>, Vec<String>)>,
    look: Look,
    trace: Vec<String>,
    moments: Vec<Moment>,
    /// What the service said to calls so far.
    truth: Truth,
}

impl Universe {
    fn new(setting: &Setting, rules: Vec<Rule>, look: Look) -> Self {
        let now = Instant::now();
        let mut durations = Durations::all(setting.tasks);
        if let Some(stop) = setting.stop {
            durations.set(Verb::Stop, stop);
        }
        let config = Config {
            seed: setting.seed,
            durations,
            readings: setting.readings.clone(),
            token: TOKEN.into(),
        };
        Self {
            kube: Apiserver::default(),
            cloud: World::new(config),
            oracle: Oracle::new(setting.settle),
            neighbours: Neighbours::default(),
            pace: Pace::default(),
            last_change: now,
            last_fault: now,
            changes: BTreeMap::new(),
            kills: Vec::new(),
            terminations: Vec::new(),
            unmet: Vec::new(),
            tally: Tally::default(),
            kinds: Vec::new(),
            states: Vec::new(),
            began: now,
            setting: setting.clone(),
            legacy: None,
            lately: Duration::from_secs(u64::from(setting.settle) + 10),
            rules,
            total: 0,
            counts: HashMap::new(),
            away: Vec::new(),
            unheard: Vec::new(),
            slow_until: None,
            backups: HashMap::new(),
            snapshot: None,
            password: 0,
            tokens: 0,
            tasks_fail: false,
            hides: false,
            sent: None,
            look,
            trace: Vec::new(),
            moments: Vec::new(),
            truth: Truth::default(),
        }
    }

    /// The service's clock.
    pub fn timestamp(&self) -> Timestamp {
        // Not at the epoch: a server that was made at once is not one without a date.
        Timestamp::from_millis(1_700_000_000_000).plus(self.began.elapsed())
    }

    /// Notes something for people, when somebody wants to read it.
    pub fn tell(&mut self, what: impl FnOnce() -> String) {
        if self.look == Look::Trace {
            let at = self.began.elapsed().as_secs_f64();
            self.trace.push(format!("{at:9.3} {}", what()));
        }
    }

    /// The key of the credentials in records, as this process finds it.
    pub fn credential_key(&self, process: ProcessId) -> CredentialKey {
        let number = if self.setting.forgets_key {
            process.0
        } else {
            0
        };
        CredentialKey::of(&[number.to_be_bytes(); 4].concat())
    }

    /// What was noted.
    pub fn trace(&self) -> Vec<String> {
        self.trace.clone()
    }

    /// How many requests were counted.
    pub fn requests(&self) -> u32 {
        self.total
    }

    /// A digest of all that lasts: to count the states that were met.
    pub fn note_state(&mut self) {
        if self.look == Look::Verdict {
            return;
        }
        let mut hash = DefaultHasher::new();
        for (key, object) in self.kube.all().filter(|(key, _)| key.0 == INSTANCES) {
            key.hash(&mut hash);
            let status = &object["status"];
            let phase = (
                object["metadata"]["annotations"][cloud_server_operator::api::names::BINDING]
                    .as_str()
                    .map(words::without_nonce),
                object["metadata"]["deletionTimestamp"].is_null(),
                object["metadata"]["finalizers"].to_string(),
                object["spec"].to_string(),
                status["operation"]["attempt"].as_i64(),
                status["conditions"][0]["reason"].to_string(),
                status["observedGeneration"].as_i64(),
            );
            phase.hash(&mut hash);
        }
        for (key, secret) in self.kube.all().filter(|(key, _)| key.0 == SECRETS) {
            (key, words::phase_of_secret(secret)).hash(&mut hash);
        }
        for server in self.cloud.live_servers() {
            (server.id, server.image, server.status, server.pending).hash(&mut hash);
        }
        self.states.push(hash.finish());
    }

    /// A patch of an object or of its status, by a process.
    pub fn patch(
        &mut self,
        (process, kind): (ProcessId, Kind),
        key: &Key,
        is_status: bool,
        edit: &Edit,
    ) -> Result<Value, Refused> {
        if is_neighbours(&key.1) {
            self.neighbours.done.writes += 1;
            return self.kube.patch(key, is_status, edit);
        }
        let former = self.kube.get(key).cloned();
        let answer = self.kube.patch(key, is_status, edit);
        if let (true, Ok(now)) = (is_status, &answer) {
            self.pace.told(self.began.elapsed(), &key.1, now);
        }
        self.tell(|| {
            let outcome = answer.as_ref().map_or_else(|e| e.0.to_string(), outline);
            format!("{kind:?} {} -> {outcome}", key.1)
        });
        if let (true, Some(former), Ok(now)) = (is_status, &former, &answer) {
            self.oracle.judge_others_conditions(former, now);
        }
        if let (Some(former), Ok(now)) = (former, &answer)
            && key.0 != ACCOUNTS
        {
            let (cloud, kube) = (&self.cloud, &self.kube);
            self.oracle
                .wrote((process, kind, is_status), &former, now, cloud, kube);
        }
        // One that is refused is no rest either.
        if key.0 != ACCOUNTS {
            self.changed(&key.1);
        }
        answer
    }

    /// A process makes a Secret.
    pub fn make_secret(&mut self, secret: &Value) -> Result<Value, Refused> {
        let name = secret["metadata"]["name"].as_str().unwrap_or_default();
        let answer = self.kube.make(&(SECRETS, name.to_owned()), secret.clone());
        self.tell(|| {
            let outcome = answer.as_ref().map_or_else(|e| e.0.to_string(), outline);
            format!("make Secret {name} -> {outcome}")
        });
        if let Ok(now) = &answer {
            self.oracle.made_secret(now, &self.cloud, &self.kube);
            self.changed(name);
        }
        answer
    }

    /// Kubernetes removes what belonged to objects that are gone.
    pub fn collect_garbage(&mut self) {
        if self.kube.collect_garbage() {
            self.tell(|| "   garbage was collected".to_owned());
        }
    }

    /// Another process acts: what it finds, it has yet to say.
    pub fn led_anew(&mut self) {
        self.oracle.has_changes();
        self.last_change = Instant::now();
    }

    fn changed(&mut self, object: &str) {
        self.last_change = Instant::now();
        *self.changes.entry(object.to_owned()).or_default() += 1;
    }

    /// A process sends a request, whatever becomes of it.
    pub fn departs(&mut self, process: ProcessId, kind: Kind, about: &About) {
        match about {
            About::Object(key) => {
                let object = self.kube.get(key);
                self.oracle.writes(process, kind, key, object);
            }
            About::Call(raw) => {
                if let Ok((_, request)) = parse(raw) {
                    let object = self.oracle.object_of(&request, &self.cloud);
                    self.pace.called(self.began.elapsed(), kind, object);
                    self.oracle
                        .calls(process, &request, &self.cloud, &self.kube);
                }
            }
        }
    }

    /// A process hears what came of its request to the service; `is_sent`: it may have arrived.
    pub fn arrives(
        &mut self,
        process: ProcessId,
        about: &About,
        answer: Option<&Reply>,
        is_sent: bool,
    ) {
        if let About::Call(raw) = about
            && let Ok((_, request)) = parse(raw)
        {
            self.oracle
                .hears_service(process, &request, answer, is_sent);
        }
    }

    /// One call of the service.
    pub fn call(
        &mut self,
        (process, kind): (ProcessId, Kind),
        raw: &RawRequest,
        script: TaskScript,
    ) -> Reply {
        let now = self.timestamp();
        self.advance();
        let script = match self.tasks_fail {
            true => TaskScript::Fail {
                reason: "out of everything".to_owned(),
            },
            false => script,
        };
        let readings = self.cloud.readings().clone();
        let reply: RawReply = match parse(raw) {
            Ok((endpoint, request)) => {
                self.oracle.asked(&request, &self.kube);
                let reply = self.cloud.call_scripted(now, Some(TOKEN), &request, script);
                self.tell(|| match (&reply.outcome, &reply.effect) {
                    (Err(refusal), _) => format!("{kind:?} -> {}", refusal.code),
                    (Ok(_), Effect::None) => format!("{kind:?}"),
                    (Ok(_), effect) => format!("{kind:?} -> {effect:?}"),
                });
                // One that is refused is no rest either.
                if reply.effect.is_acceptance() || kind.is_mutating_call() {
                    let object = self.oracle.object_of(&request, &self.cloud);
                    self.changed(object.as_deref().unwrap_or("nobody"));
                }
                self.happened(&reply.effect);
                self.truth.answered(&request, reply.outcome.is_ok());
                self.oracle.answered(process, &request, &reply);
                render(endpoint, &readings, &reply.outcome)
            }
            Err(Unserved::Refused(refusal)) => render_refusal(&readings, &refusal),
            Err(Unserved::Unmodelled) => unmodelled(&raw.method, &raw.path),
        };
        Reply {
            status: reply.status,
            body: reply.body,
        }
    }

    /// Lets the service's time pass until now.
    pub fn advance(&mut self) {
        let now = self.timestamp();
        self.cloud.advance(now);
        for effect in self.cloud.take_events() {
            self.tell(|| format!("   service: {effect:?}"));
            self.happened(&effect);
        }
    }

    fn happened(&mut self, effect: &Effect) {
        self.tally.happened(effect);
        self.oracle.happened(effect, &self.cloud, &self.kube);
    }

    /// The password that the login Secret holds.
    pub fn password(&self) -> &'static str {
        PASSWORDS[self.password]
    }
}

/// The key of `web-n`.
pub fn instance(n: u8) -> Key {
    (INSTANCES, format!("web-{n}"))
}

/// The namespace's name in a path.
pub fn namespace() -> &'static str {
    NAMESPACE
}
