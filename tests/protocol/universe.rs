//! Everything outside the operator's processes: apiserver, service, users, faults. One lock, virtual time.
//!
//! This file has the interface to the processes; [`beginning`] creates the initial state, [`faults`] applies faults to
//! requests, [`steps`] the actions of users and the console, and [`words`] describes objects. [`moments`] records the states
//! that tools see. [`neighbours`] are teams that are not judged.

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
pub use released::FORMER_KEY;

use crate::apiserver::{
    ACCOUNTS, Apiserver, Edit, INSTANCES, Key, NAMESPACE, Refused, SECRETS, is_neighbours,
};
use crate::fault::{Dependency, Kind, Rule};
use crate::oracle::{Oracle, ProcessId};
use crate::run::Recording;
use crate::tally::Tally;
use crate::tenants::{Pace, is_ready};
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
/// The passwords that the login Secret contains alternately.
const PASSWORDS: [&str; 2] = ["First7pass!word", "Second8pass-word"];

/// An answer: an HTTP status and a JSON body.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Status.
    pub status: u16,
    /// Body.
    pub body: Value,
}

/// The subject of a request.
#[derive(Clone, Debug)]
pub enum About {
    /// An object at the apiserver.
    Object(Key),
    /// The subject that this call to the service names.
    Call(RawRequest),
}

impl About {
    /// Whether it is a neighbour's object.
    pub fn is_neighbours(&self) -> bool {
        matches!(self, Self::Object(key) if is_neighbours(&key.1))
    }
}

/// Shared by all parts of a run; cheap to clone.
#[derive(Clone)]
pub struct Shared {
    inner: Arc<Mutex<Universe>>,
    /// Notified when a watch has a new event, or a process must be started or ended.
    pub changed: Arc<Notify>,
}

impl Shared {
    /// A universe with one Account, its token, and a login.
    pub fn new(setting: &Setting, rules: Vec<Rule>, recording: Recording) -> Self {
        let mut universe = Universe::new(setting, rules, recording);
        universe.furnish(setting);
        Self {
            inner: Arc::new(Mutex::new(universe)),
            changed: Arc::default(),
        }
    }

    /// Shows later whether any part still holds the universe.
    pub fn watched(&self) -> Weak<Mutex<Universe>> {
        Arc::downgrade(&self.inner)
    }

    /// Locks it for reading or changes.
    pub fn lock(&self) -> MutexGuard<'_, Universe> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes it, and notifies all waiters.
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
    /// The teams that are not judged.
    pub neighbours: Neighbours,
    /// When each object first appeared in status and first caused a call; and every call, by kind.
    pub pace: Pace,
    /// When a process last changed anything.
    pub last_change: Instant,
    /// When a fault last hit a request.
    pub last_fault: Instant,
    /// Mutating calls and writes of the processes so far, by the name of the object.
    pub changes: BTreeMap<String, u64>,
    /// The processes that steps kill, by slot.
    pub kills: Vec<u8>,
    /// The processes that steps shut down, by slot.
    pub terminations: Vec<u8>,
    /// Faults that found no request, and steps that found nothing to act on.
    pub unmet: Vec<String>,
    /// The counted events.
    pub tally: Tally,
    /// Number and kind of the requests until the last change, and of a few more.
    pub kinds: Vec<(u32, Kind)>,
    /// Hashes of the state at every request.
    pub states: Vec<u64>,
    began: Instant,
    setting: Setting,
    /// The server that is imported.
    legacy: Option<String>,
    /// An event within this time after a change may still depend on it: a proof of absence, after the settling time.
    lately: Duration,
    rules: Vec<Rule>,
    total: u32,
    counts: HashMap<Kind, u32>,
    /// The unavailable dependencies, how they behave, and whether a process has noticed.
    away: Vec<(Dependency, Absence, bool)>,
    /// Dependencies that are available again, and have not answered a request yet although work waits for them.
    unheard: Vec<Unheard>,
    /// Until then an answer is under way, and its caller requests nothing else.
    slow_until: Option<Instant>,
    backups: HashMap<u8, Value>,
    snapshot: Option<Apiserver>,
    password: usize,
    tokens: u32,
    tasks_fail: bool,
    /// Whether listings omit one server.
    pub hides: bool,
    /// Every request to the apiserver, as method and target, and every URL of the service, if they are recorded.
    pub sent: Option<(Vec<String>, Vec<String>)>,
    recording: Recording,
    trace: Vec<String>,
    moments: Vec<Moment>,
    /// The service's answers to calls so far.
    truth: Truth,
}

impl Universe {
    fn new(setting: &Setting, rules: Vec<Rule>, recording: Recording) -> Self {
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
            recording,
            trace: Vec::new(),
            moments: Vec::new(),
            truth: Truth::default(),
        }
    }

    /// The service's clock.
    pub fn timestamp(&self) -> Timestamp {
        // Not at the epoch, so that a server that was created at once has a creation date.
        Timestamp::from_millis(1_700_000_000_000).plus(self.began.elapsed())
    }

    /// Records an event for people, if a trace is requested.
    pub fn note(&mut self, what: impl FnOnce() -> String) {
        if self.recording == Recording::Trace {
            let at = self.began.elapsed().as_secs_f64();
            self.trace.push(format!("{at:9.3} {}", what()));
        }
    }

    /// The trace so far.
    pub fn trace(&self) -> Vec<String> {
        self.trace.clone()
    }

    /// How many requests were counted.
    pub fn requests(&self) -> u32 {
        self.total
    }

    /// Records a digest of the whole durable state, to count the different states.
    pub fn note_state(&mut self) {
        if self.recording == Recording::Verdict {
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
            let answer = self.kube.patch(key, is_status, edit);
            let is_first = self.neighbours.done.first_ready.is_none() && key.0 != ACCOUNTS;
            if is_first && answer.as_ref().is_ok_and(is_ready) {
                self.neighbours.done.first_ready = Some(self.began.elapsed());
            }
            return answer;
        }
        let former = self.kube.get(key).cloned();
        let answer = self.kube.patch(key, is_status, edit);
        if let (true, Ok(now)) = (is_status, &answer) {
            self.pace.reported(self.began.elapsed(), &key.1, now);
        }
        self.note(|| {
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
        // A refused write counts as activity, too.
        if key.0 != ACCOUNTS {
            self.changed(&key.1);
        }
        answer
    }

    /// A process creates a Secret.
    pub fn make_secret(&mut self, secret: &Value) -> Result<Value, Refused> {
        let name = secret["metadata"]["name"].as_str().unwrap_or_default();
        let answer = self.kube.make(&(SECRETS, name.to_owned()), secret.clone());
        self.note(|| {
            let outcome = answer.as_ref().map_or_else(|e| e.0.to_string(), outline);
            format!("make Secret {name} -> {outcome}")
        });
        if let Ok(now) = &answer {
            self.oracle.made_secret(now, &self.cloud, &self.kube);
            self.changed(name);
        }
        answer
    }

    /// Kubernetes deletes the dependents of deleted objects.
    pub fn collect_garbage(&mut self) {
        if self.kube.collect_garbage() {
            self.note(|| "   garbage was collected".to_owned());
        }
    }

    /// Another process becomes active, and has yet to report the state that it finds.
    pub fn led_anew(&mut self) {
        self.oracle.has_changes();
        self.last_change = Instant::now();
    }

    fn changed(&mut self, object: &str) {
        self.last_change = Instant::now();
        *self.changes.entry(object.to_owned()).or_default() += 1;
    }

    /// A process sends a request, with any outcome.
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

    /// A process gets the result of its request to the service; `is_sent`: it may have arrived.
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
                self.oracle.on_request(&request, &self.kube);
                let reply = self.cloud.call_scripted(now, Some(TOKEN), &request, script);
                self.note(|| match (&reply.outcome, &reply.effect) {
                    (Err(refusal), _) => format!("{kind:?} -> {}", refusal.code),
                    (Ok(_), Effect::None) => format!("{kind:?}"),
                    (Ok(_), effect) => format!("{kind:?} -> {effect:?}"),
                });
                // A refused call counts as activity, too.
                if reply.effect.is_acceptance() || kind.is_mutating_call() {
                    let object = self.oracle.object_of(&request, &self.cloud);
                    self.changed(object.as_deref().unwrap_or("no object"));
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
            self.note(|| format!("   service: {effect:?}"));
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
