//! Judges the number of calls and writes: invariant L3 (`docs/maintainers/proof.md`).
//!
//! It counts the requests of a process, regardless of their results, for each object separately, in every minute that ends with
//! a request. While external events happen, an operation may take the requests that it needs; repeated failures alone are held
//! to the bound of L3.

use super::{Oracle, ProcessId, Rule, Verdict, WATCHES_LATE, is_alive};
use crate::apiserver::{ACCOUNTS, Key, uid};
use crate::fault::Kind;
use cloud_simulator::model::{Effect, Request, World};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// The period of the bounds: a minute, minus the network's share.
const MINUTE: Duration = Duration::from_secs(59);
/// Calls and writes for one object in a minute without a preceding event (L3).
const STEADY: usize = 6;
/// One more read: a waiting Instance is woken when the Account's trouble is reported.
const WOKEN: usize = 1;
/// The additional calls for each event. If everything succeeds: a read, a stop, a check whether the server is off, the call, the
/// end of its task, and a read of the server. If everything fails: in the first minute seven calls, each after a read, before
/// the pauses between them reach their maximum.
const EACH: usize = 8;
/// How many queries a running operation may cost per minute: for its task and for its server, each as often as `instance::pace`
/// allows for a young operation.
const FOLLOWED: usize = 26;
/// The queries for each further operation that was young within that minute: as many as there are before its pauses grow.
const YOUNG: usize = 6;
/// How long an operation is young: afterwards a fifth of its age is more than the shortest pause.
const GROWN: Duration = Duration::from_secs(8);
/// The additional writes for each event.
const WRITTEN: usize = 6;
/// An event that is older than a minute plus this does not justify requests any more.
const PAST: Duration = Duration::from_secs(60);

/// The category of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cost {
    /// A call of the service.
    Calls,
    /// A poll of an operation that runs at the service.
    Polls,
    /// A write to Kubernetes.
    Writes,
}

impl Cost {
    fn rule(self) -> Rule {
        match self {
            Self::Calls => Rule::Calls,
            Self::Polls => Rule::Polls,
            Self::Writes => Rule::Writes,
        }
    }
}

/// The costs of all objects.
#[derive(Debug, Default)]
pub(super) struct Effort {
    spent: BTreeMap<(ProcessId, Cost, String), VecDeque<Instant>>,
    /// Whether a process ended or took over: the next one queries an operation in progress as often as a young one.
    has_taken_over: bool,
    /// The times of recent calls for each object that may begin an operation.
    begun: BTreeMap<String, VecDeque<Instant>>,
    /// Excesses that were reported already.
    reported: BTreeSet<(ProcessId, Cost, String)>,
    /// The times of external events.
    event: VecDeque<Instant>,
    /// Servers that are gone, with the processes that have read them since.
    found_gone: BTreeSet<(ProcessId, String)>,
    /// The status that a process has written last and knows to be stored.
    last_written: BTreeMap<(ProcessId, String), Value>,
}

impl Effort {
    /// Counts one request. An excess without an event may be excused by an earlier event.
    fn spend(
        &mut self,
        (process, cost, object): (ProcessId, Cost, &str),
        wanting: usize,
    ) -> Verdict {
        let now = Instant::now();
        let of = (process, cost, object.to_owned());
        let spent = self.spent.entry(of.clone()).or_default();
        spent.push_back(now);
        while spent.front().is_some_and(|at| *at + MINUTE <= now) {
            spent.pop_front();
        }
        let spent = spent.len();
        while self
            .event
            .front()
            .is_some_and(|at| *at + MINUTE + PAST <= now)
        {
            self.event.pop_front();
        }
        let event = self.event.len();
        let (steady, each) = match cost {
            Cost::Calls => (STEADY + WOKEN, EACH),
            Cost::Writes => (STEADY, WRITTEN),
            Cost::Polls => {
                let begun = self.begun.get(object).into_iter().flatten();
                let begun = begun.filter(|at| **at + MINUTE + GROWN > now).count();
                let again = begun.saturating_sub(1) + usize::from(self.has_taken_over);
                (FOLLOWED + YOUNG * again, 0)
            }
        };
        let most = steady * wanting + each * event;
        let why = (spent > steady).then(|| {
            format!("L3: {spent} {cost:?} for {object} within {MINUTE:?}, at most {most}")
        });
        // Reported once for each.
        let is_new = spent > most && self.reported.insert(of);
        Verdict::of(why, !is_new)
    }
}

impl Oracle {
    /// Records an external event.
    pub fn has_changes(&mut self) {
        self.effort.event.push_back(Instant::now());
    }

    /// An action of the service is new, unless the operator requested it repeatedly and it failed.
    pub(super) fn may_be_change(&mut self, effect: &Effect) {
        let is_vain = matches!(effect, Effect::None | Effect::TaskFailed { .. });
        if !is_vain && !effect.is_acceptance() {
            self.has_changes();
        }
    }

    /// The object that a call is for, or else the thing that it names; none for listings and lists of the catalogue, which all
    /// objects share.
    pub fn object_of(&self, request: &Request, cloud: &World) -> Option<String> {
        let subject = match request {
            Request::Create(body) => body.instance_name.clone(),
            Request::TaskResult { task } => {
                let task = task.clone().unwrap_or_default();
                Some(self.tasks.get(&task).cloned().unwrap_or(task))
            }
            _ => server_of(request).map(ToOwned::to_owned),
        };
        let subject = subject?;
        let owner = self.owner_of(&subject, cloud);
        let named = || {
            let marker = cloud_server_operator::api::Marker::in_name(&subject)?;
            self.names.get(&marker).cloned()
        };
        Some(owner.or_else(named).unwrap_or(subject))
    }

    /// Counts a call for one object.
    pub(super) fn counts_call(&mut self, process: ProcessId, request: &Request, cloud: &World) {
        let Some(object) = self.object_of(request, cloud) else {
            return;
        };
        if let Request::Detail { server: Some(id) } = request {
            // The server may have been released long ago without a read since.
            let is_gone = cloud.server(id).is_none_or(|server| !is_alive(&server));
            if is_gone && self.effort.found_gone.insert((process, id.clone())) {
                self.has_changes();
            }
        }
        if request.verb().is_some() {
            let begun = self.effort.begun.entry(object.clone()).or_default();
            begun.retain(|at| *at + MINUTE + GROWN > Instant::now());
            begun.push_back(Instant::now());
        }
        // An imported server may be read for each Instance that requests it; and each of two processes reacts to the writes of
        // the other.
        let is_shared = self.troubles.no_lease || !self.foreign.is_empty();
        let wanting = if is_shared { 2 } else { 1 };
        let cost = match follows_what_runs(request, cloud) {
            true => Cost::Polls,
            false => Cost::Calls,
        };
        let t = &self.troubles;
        self.effort.has_taken_over = t.crashes + t.ended + t.takeovers > 0;
        let verdict = self.effort.spend((process, cost, object.as_str()), wanting);
        self.judge(cost.rule(), verdict);
    }

    /// Counts a write to an object.
    pub(super) fn counts_write(&mut self, process: ProcessId, kind: Kind, key: &Key) {
        if kind == Kind::Status && key.0 == ACCOUNTS {
            // Every Instance that waits for the Account is woken.
            self.has_changes();
        } else if kind.is_write() {
            // Each of two processes writes status again when the other one has replaced it.
            let wanting = if self.troubles.no_lease { 2 } else { 1 };
            let cost = Cost::Writes;
            let verdict = self.effort.spend((process, cost, key.1.as_str()), wanting);
            self.judge(cost.rule(), verdict);
        }
    }

    /// Judges a status write of a process: it must not repeat a status that the process has written and that is still stored.
    /// Timestamps and continuously changing values are written with the next change.
    pub(super) fn judge_silence(&mut self, process: ProcessId, former: &Value, now: &Value) {
        let content = content(now);
        let known = self.effort.last_written.get(&(process, uid(now)));
        let t = &self.troubles;
        // Versions start again after etcd was restored: until the watch event, nothing shows that the cache is older than the
        // process's own write.
        let is_uncounted = t.restored.is_some_and(|at| at.elapsed() < WATCHES_LATE);
        // Each of two concurrent processes may write a status that the other one has just replaced. So may a process that wakes
        // up after another one took over.
        let is_excused = t.no_lease || t.takeovers > 0 || is_uncounted;
        let is_nothing_new = known == Some(&content) && self::content(former) == content;
        let why =
            is_nothing_new.then(|| "L3: a status was written that reports nothing new".to_owned());
        self.judge(Rule::Silence, Verdict::of(why, is_excused));
    }

    /// A process learns that another writer came first: its status is not stored, and it knows.
    pub fn was_overtaken(&mut self, process: ProcessId, key: &Key) {
        self.tracks_status_write(process, key, true);
    }

    /// A process learns that its status is stored.
    pub fn knows_stored(&mut self, process: ProcessId, key: &Key, object: &Value) {
        self.tracks_status_write(process, key, true);
        self.effort
            .last_written
            .insert((process, uid(object)), content(object));
    }
}

/// Whether a call polls an operation that has not ended.
fn follows_what_runs(request: &Request, cloud: &World) -> bool {
    match request {
        Request::TaskResult { task: Some(id) } => {
            let task = cloud.task(id);
            task.is_some_and(|task| task.ended_at.is_none())
        }
        Request::Detail { server: Some(id) } => {
            let server = cloud.server(id);
            server.is_some_and(|server| server.pending != "NONE")
        }
        _ => false,
    }
}

/// The content of a status without timestamps.
fn content(object: &Value) -> Value {
    let mut status = object["status"].clone();
    if let Some(fields) = status.as_object_mut() {
        fields.remove("lastObservedTime");
    }
    if let Some(detail) = status["detail"].as_object_mut() {
        detail.remove("usedFlow");
        detail.remove("cpuLoad");
    }
    let conditions = status["conditions"].as_array_mut();
    for condition in conditions.into_iter().flatten() {
        if let Some(fields) = condition.as_object_mut() {
            fields.remove("lastTransitionTime");
        }
    }
    status
}

/// The server that a call names.
pub(super) fn server_of(request: &Request) -> Option<&str> {
    match request {
        Request::Release(body)
        | Request::Stop(body)
        | Request::Start(body)
        | Request::Restart(body) => body.server.as_deref(),
        Request::Password(body) => body.server.as_deref(),
        Request::Reinstall(body) => body.server.as_deref(),
        Request::Detail { server } => server.as_deref(),
        Request::Create(_)
        | Request::TaskResult { .. }
        | Request::Instances(_)
        | Request::Firewalls(_)
        | Request::Images(_)
        | Request::Keys(_)
        | Request::Packages(_)
        | Request::Regions => None,
    }
}
