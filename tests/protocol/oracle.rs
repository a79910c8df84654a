//! Judges all events by the true state of the world: the invariants S1 to S6, S8 and L1 (`docs/maintainers/proof.md`), and the
//! promises of an Instance's policies.
//!
//! This file has the knowledge about a run, and [`troubles`] the faults that make promises impossible; [`requests`] has the
//! users' requests. [`servers`] and [`releases`] judge the service's actions, [`written`] the operator's writes, [`passwords`]
//! the Secrets that it created, [`idle`] and [`settled`] the final state. [`heard`] records which information the service gave
//! to which process, and [`truth`] and [`claims`] judge status by that. [`counts`] has the rules, and counts how often each was
//! judged.

mod basis;
mod claims;
mod counts;
mod effort;
mod heard;
mod idle;
mod passwords;
mod releases;
mod requests;
mod servers;
mod settled;
mod troubles;
mod truth;
mod written;

use crate::apiserver::{Apiserver, INSTANCES, Key, uid};
use crate::fault::Kind;
use basis::Basis;
use cloud_server_operator::api::names::BINDING;
use cloud_server_operator::api::{Marker, Operation, PurchaseRecord, Verb};
use cloud_simulator::model::{Answer, Reply, Request, ServerInfo, World};
pub use counts::{Count, Rule, Verdict, idle, table};
use effort::Effort;
use heard::Talk;
use passwords::Passwords;
use requests::{Property, Requests};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;
use troubles::{Lists, Troubles};
use truth::Truth;

/// By then every process knows that the service's lists changed: lists are cached for five minutes, and an Instance that waits
/// for an entry checks every minute.
const LISTS_KNOWN: Duration = Duration::from_secs(375);
/// No watch is later than this, including the reconcile that follows.
const WATCHES_LATE: Duration = Duration::from_secs(27);
/// The cluster that the runs play in.
pub const CLUSTER: &str = "cluster-1";
/// The maximum between the last read of an object and the call that it precedes, if nothing delays the call.
const UNDER_WAY: Duration = Duration::from_secs(2);
/// The same if something is slow: a reconcile is aborted after 120 s.
const UNDER_WAY_WHEN_SLOW: Duration = Duration::from_secs(150);

/// One process, from its start to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessId(pub u64);

/// The judge.
#[derive(Default)]
pub struct Oracle {
    /// Descriptions of violations.
    pub violations: Vec<String>,
    counts: BTreeMap<Rule, Count>,
    settle: u32,
    troubles: Troubles,
    names: BTreeMap<Marker, String>,
    /// The users' requests and their executions, by name of the object.
    requests: BTreeMap<String, Requests>,
    erasures_done: BTreeMap<String, usize>,
    restarts_done: BTreeMap<String, usize>,
    passwords: Passwords,
    effort: Effort,
    basis: Basis,
    talk: Talk,
    truth: Truth,
    /// The server of each task.
    tasks: BTreeMap<String, String>,
    /// The requests that intents announced: package, firewall, image and key of a purchase, by marker; image and key of a
    /// reinstall, by server.
    announced: BTreeSet<(String, Vec<String>)>,
    /// The attempts that were recorded, by marker and nonce.
    nonces: BTreeSet<(Marker, String)>,
    /// Objects that were restored to a state in which a reinstall is announced and its call is unknown to the store.
    announced_only: BTreeSet<String>,
    /// Announced reinstalls, by object, before every watch is certain to have shown that the store was restored.
    announced_unseen: BTreeMap<String, usize>,
    /// Imported servers whose release the service accepted.
    released_imports: BTreeSet<String>,
    /// Number of servers that were completely deployed, by marker.
    whole: BTreeMap<Marker, usize>,
    /// Servers that were bought externally, with the object that imported each.
    foreign: BTreeMap<String, Option<String>>,
    /// Servers that two Instances imported under two processes, and those of them that were released with one of the two.
    were_imported_twice: BTreeSet<String>,
    shared: BTreeSet<String>,
    /// Servers whose Instance was being deleted when it lost its finalizer by force or when etcd was restored, with the time.
    may_yet_be_released: BTreeMap<String, Instant>,
    /// Servers, and markers, that were retained because the spec requires it.
    kept: BTreeSet<String>,
    kept_markers: BTreeSet<Marker>,
    lists: Lists,
    /// The Account's limit of Instances with a server, and since when.
    most: Option<(usize, Option<Instant>)>,
    /// The Account has never allowed imports.
    denies_imports: bool,
    /// When a stop of a server was last requested, and whether it failed.
    stops: BTreeMap<String, (Instant, bool)>,
    /// The server whose power is being cut by the current call.
    cutting: Option<String>,
    /// When the service last accepted an operation on a server.
    accepted: BTreeMap<String, Instant>,
    failed_creates: BTreeSet<String>,
    /// Servers whose newest password change failed, or was interrupted at the console.
    broken_passwords: BTreeSet<String>,
    /// The server that was bought last with each marker, and the markers whose servers are unknown to a restored store.
    newest: BTreeMap<Marker, String>,
    put_back: BTreeSet<Marker>,
    touched_at_console: BTreeSet<String>,
    released_at_console: BTreeSet<Marker>,
    /// Number of servers that were released because another one was recorded.
    pub surplus: usize,
}

impl Oracle {
    /// A judge for a service with this settling time, in seconds.
    pub fn new(settle: u32) -> Self {
        Self {
            settle,
            ..Self::default()
        }
    }

    /// Two processes are active at once.
    pub fn without_lease(&mut self) {
        self.troubles.no_lease = true;
    }

    /// The Account denies imports.
    pub fn denies_imports(&mut self) {
        self.denies_imports = true;
    }

    /// The Account begins with this limit.
    pub fn limits(&mut self, most: u8) {
        self.most = Some((usize::from(most), None));
    }

    /// Whether the service's lists have been unchanged for so long that no process uses older ones.
    pub fn lists_are_known(&self) -> bool {
        let changed = self.lists.changed;
        changed.is_none_or(|changed| changed.elapsed() > LISTS_KNOWN)
    }

    /// Updates the Account's limit after the store was restored.
    pub fn is_limited(&mut self, most: Option<u64>) {
        let most = most.and_then(|most| usize::try_from(most).ok());
        if most != self.most.map(|(most, _)| most) {
            self.most = most.map(|most| (most, Some(Instant::now())));
        }
    }

    /// A standby becomes active, with the information that its watch has delivered so far.
    pub fn handed_over(&mut self) {
        self.troubles.handed_over = Some(Instant::now());
    }

    /// A process ended, possibly with the run. `in_a_restore`: whether it concluded that etcd was restored.
    pub fn believed(&mut self, in_a_restore: bool) {
        let why = "a process believes that etcd was restored, which it was not".to_owned();
        let is_excused = self.troubles.restores > 0;
        self.judge(
            Rule::Believed,
            Verdict::of(in_a_restore.then_some(why), is_excused),
        );
    }

    /// Another process took over.
    pub fn taken_over(&mut self) {
        self.has_changes();
        self.troubles.takeovers += 1;
    }

    /// A server was bought externally.
    pub fn bought_externally(&mut self, server: &str) {
        self.foreign.insert(server.to_owned(), None);
    }

    /// A process calls the service, with any outcome.
    pub fn calls(
        &mut self,
        process: ProcessId,
        request: &Request,
        cloud: &World,
        kube: &Apiserver,
    ) {
        self.counts_call(process, request, cloud);
        if let Some(seen) = self.judge_basis(process, request, cloud) {
            self.judge_acknowledged(process, request, &seen);
        }
        self.begins_call(process, request, cloud, kube);
    }

    /// A process writes this object, whose current state is given.
    pub fn writes(&mut self, process: ProcessId, kind: Kind, key: &Key, object: Option<&Value>) {
        let is_status = matches!(kind, Kind::Status | Kind::Intent | Kind::Receipt);
        self.counts_write(process, kind, key);
        self.removes_finalizer(process, kind, object);
        if is_status {
            self.tracks_status_write(process, key, false);
        }
    }

    /// The service answered.
    pub fn answered(&mut self, process: ProcessId, request: &Request, reply: &Reply) {
        self.has_begun(process, request, reply);
        if let Ok(Answer::Accepted { task, server, .. }) = &reply.outcome {
            self.tasks.insert(task.clone(), server.clone());
        }
    }

    /// A user created an object.
    pub fn created(&mut self, object: &Value) {
        self.specifies(object);
        let name = name_of(object);
        let requests = self.requests.entry(name.to_owned()).or_default();
        requests.are_born(object);
        // A restored object keeps the marker of its record.
        if let Some(record) = record(object).filter(|record| speaks(record, object)) {
            self.names.insert(record.marker, name.to_owned());
        }
        self.names
            .insert(Marker::of_uid(&uid(object)), name.to_owned());
    }

    /// A user changed an object.
    pub fn edited(&mut self, object: &Value) {
        self.specifies(object);
        let requests = self.requests.entry(name_of(object).to_owned()).or_default();
        requests.are_edited(object);
        self.troubles.same_image |= requests.may_leave_the_image();
    }

    /// An object that may be in the middle of its deletion is about to be removed or restored.
    pub fn interferes(&mut self, object: &Value) {
        let record = record(object).filter(|record| speaks(record, object));
        if object["metadata"]["deletionTimestamp"].is_string()
            && let Some(id) = record.and_then(|record| record.id)
        {
            self.may_yet_be_released.insert(id, Instant::now());
        }
    }

    /// Etcd was restored, and with it the specs and records.
    pub fn went_back(&mut self, kube: &Apiserver) {
        for (_, object) in kube.all().filter(|(key, _)| key.0 == INSTANCES) {
            let requests = self.requests.entry(name_of(object).to_owned()).or_default();
            requests.go_back(object);
            self.specifies(object);
            let record = record(object).filter(|record| speaks(record, object));
            let known = record.as_ref().and_then(|record| record.id.as_ref());
            // The store contains only the announcement.
            if is_unanswered(object) {
                self.announced_only.insert(name_of(object).to_owned());
            }
            let marker = marker_of(object);
            if self.newest.get(&marker).is_some_and(|id| Some(id) != known) {
                self.put_back.insert(marker);
            }
        }
    }

    /// A user is about to act on a server at the console.
    pub fn at_console(&mut self, server: &ServerInfo, releases: bool) {
        self.touched_at_console.insert(server.id.clone());
        if server.pending == "MODIFYING_PASSWORD"
            || (server.pending == "REINSTALLING" && self.is_reinstall_unseen(server))
        {
            self.broken_passwords.insert(server.id.clone());
        }
        if server.pending == "STOPPING" {
            self.stops.insert(server.id.clone(), (Instant::now(), true));
        }
        if server.status == "CREATING" {
            // The console interrupts its create.
            self.failed_creates.insert(server.id.clone());
        }
        let is_whole = matches!(server.status, "STARTED" | "STOPPED");
        if releases && is_whole && !self.failed_creates.contains(&server.id) {
            self.released_at_console
                .extend(Marker::in_name(&server.name));
        }
    }

    /// Whether a reinstall of this server was announced that keeps the image.
    fn is_reinstall_unseen(&self, server: &ServerInfo) -> bool {
        let mut announced = self.announced.iter();
        announced
            .any(|(what, requested)| *what == server.id && requested.first() == Some(&server.image))
    }

    /// Whether the spec of this object has had this property for longer than an earlier decided call may be under way.
    fn holds(&self, name: &str, property: Property) -> bool {
        let requests = self.requests.get(name);
        requests.is_some_and(|requests| requests.have_held(property, self.under_way()))
    }

    /// How long a call may be under way that is based on an older state.
    fn under_way(&self) -> Duration {
        if self.troubles.slow {
            UNDER_WAY_WHEN_SLOW
        } else {
            UNDER_WAY
        }
    }

    /// Whether the spec has this property now, for any length of time.
    fn requests_now(&self, name: &str, property: Property) -> bool {
        let requests = self.requests.get(name);
        requests.is_some_and(|requests| requests.hold_now(property))
    }

    /// Whether the operator must begin nothing for this object.
    fn is_restrained(&self, name: &str) -> bool {
        self.holds(name, Property::Paused) || self.holds(name, Property::Observed)
    }

    /// Whether the spec restrains the operator now.
    fn is_restrained_now(&self, name: &str) -> bool {
        self.requests_now(name, Property::Paused) || self.requests_now(name, Property::Observed)
    }

    /// Whether the spec has ever restrained the operator.
    fn was_ever_restrained(&self, name: &str) -> bool {
        let requests = self.requests.get(name);
        requests.is_some_and(Requests::have_ever_restrained)
    }

    /// The object that owns a server: by its marker, or by the record of the import.
    fn owner_of(&self, server: &str, cloud: &World) -> Option<String> {
        if let Some(owner) = self.foreign.get(server) {
            return owner.clone();
        }
        let info = cloud.server(server)?;
        let marker = Marker::in_name(&info.name)?;
        self.names.get(&marker).cloned()
    }
}

/// Whether a spec is paused, by the clock that the operator reads.
pub fn is_paused(spec: &Value) -> bool {
    Property::Paused.is_in(spec)
}

/// The name of an object.
fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The record on an object.
pub fn record(object: &Value) -> Option<PurchaseRecord> {
    let text = object["metadata"]["annotations"][BINDING].as_str()?;
    PurchaseRecord::parse(text).ok()
}

/// The operation on the server in status: in flight, or failed.
pub fn operation(object: &Value) -> Option<Operation> {
    let operation = serde_json::from_value::<Operation>(object["status"]["operation"].clone());
    operation
        .ok()
        .filter(|operation| operation.verb != Verb::Create)
}

/// The operation in flight.
pub fn open_operation(object: &Value) -> Option<Operation> {
    operation(object).filter(Operation::is_open)
}

/// The number of the newest attempt, of a purchase or of an operation.
fn newest_attempt(object: &Value) -> u32 {
    let bought = record(object).map_or(0, |record| record.attempt);
    let reported = object["status"]["attempt"].as_i64().unwrap_or(0);
    bought.max(u32::try_from(reported).unwrap_or(0))
}

fn speaks(record: &PurchaseRecord, object: &Value) -> bool {
    use cloud_server_operator::api::Speaks;
    let meta = &object["metadata"];
    let text = |field: &str| meta[field].as_str().unwrap_or_default().to_owned();
    let speaks = record.speaks_for(CLUSTER, &text("namespace"), &text("name"), &text("uid"));
    !matches!(speaks, Speaks::Other)
}

/// The servers that bear this marker.
fn bearing(cloud: &World, marker: &Marker) -> Vec<ServerInfo> {
    let mut alive = cloud.live_servers();
    alive.retain(|server| Marker::in_name(&server.name).as_ref() == Some(marker));
    alive
}

/// Whether status shows a reinstall whose call has neither a known acceptance nor a known end.
fn is_unanswered(object: &Value) -> bool {
    open_operation(object).is_some_and(|open| open.verb == Verb::Reinstall && !open.accepted)
}

/// The marker of an object's servers: from its record, else from its UID.
fn marker_of(object: &Value) -> Marker {
    let record = record(object).filter(|record| speaks(record, object));
    record.map_or_else(|| Marker::of_uid(&uid(object)), |record| record.marker)
}

/// The servers of an object: those with its marker, and the imported one.
pub fn servers_of(object: &Value, cloud: &World) -> Vec<ServerInfo> {
    let record = record(object).filter(|record| speaks(record, object));
    let mut alive = bearing(cloud, &marker_of(object));
    let taken_over = record
        .filter(|record| record.imported.is_some())
        .and_then(|record| cloud.server(&record.id?))
        .filter(is_alive);
    alive.extend(taken_over);
    alive
}

fn is_alive(server: &ServerInfo) -> bool {
    server.released_at.is_none()
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let all = object["status"]["conditions"].as_array();
    let found = all.into_iter().flatten().find(|c| c["type"] == kind);
    found.unwrap_or(&Value::Null)
}

/// The reason of the condition Ready.
pub fn reason(object: &Value) -> Option<&str> {
    condition(object, "Ready")["reason"].as_str()
}

fn is_ready(object: &Value) -> bool {
    condition(object, "Ready")["status"] == "True"
}
