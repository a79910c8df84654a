//! Judges what happens, by what is in the world: the invariants of the design, S1 to S6, S8 and L1, and what the policies
//! of an Instance promise.
//!
//! This file is about what is known of a run, and [`troubles`] about what cannot be promised in it; [`wishes`] is what users
//! asked for, [`servers`] and [`releases`] judge what the service did, [`written`] what the operator wrote, [`passwords`] the
//! Secrets that it made, [`rest`] and [`settled`] what is left at the end. [`heard`] is what the service told whom, and [`truth`]
//! and [`claims`] judge status by that. [`counts`] are the rules, and how often each was judged.

mod claims;
mod counts;
mod effort;
mod heard;
mod looks;
mod passwords;
mod releases;
mod rest;
mod servers;
mod settled;
mod troubles;
mod truth;
mod wishes;
mod written;

use crate::apiserver::{Apiserver, INSTANCES, Key, uid};
use crate::fault::Kind;
use cloud_server_operator::api::names::BINDING;
use cloud_server_operator::api::{Marker, Operation, PurchaseRecord, Verb};
use cloud_simulator::model::{Answer, Reply, Request, ServerInfo, World};
pub use counts::{Count, Rule, Verdict, idle, table};
use effort::Effort;
use heard::Talk;
use looks::Looks;
use passwords::Passwords;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;
use troubles::{Lists, Troubles};
use truth::Truth;
use wishes::{Property, Wishes};

/// By then everybody knows of lists that were changed: they are kept for five minutes, and who waits for something in them looks
/// every minute.
const LISTS_KNOWN: Duration = Duration::from_secs(375);
/// No watch is later than this, and a turn follows.
const WATCHES_LATE: Duration = Duration::from_secs(27);
/// The cluster that the runs play in.
const CLUSTER: &str = "cluster-1";
/// Between the last look at an object and the call that it was for, when nothing is in the way.
const UNDER_WAY: Duration = Duration::from_secs(2);
/// The same when something takes its time: a turn is given up after 120 s.
const UNDER_WAY_WHEN_SLOW: Duration = Duration::from_secs(150);

/// One process, from its start to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessId(pub u64);

/// The judge.
#[derive(Default)]
pub struct Oracle {
    /// What was wrong, in words.
    pub violations: Vec<String>,
    counts: BTreeMap<Rule, Count>,
    settle: u32,
    troubles: Troubles,
    names: BTreeMap<Marker, String>,
    /// What users asked for, and what was done, by name of the object.
    wishes: BTreeMap<String, Wishes>,
    erasures_done: BTreeMap<String, usize>,
    restarts_done: BTreeMap<String, usize>,
    passwords: Passwords,
    effort: Effort,
    looks: Looks,
    talk: Talk,
    truth: Truth,
    /// Which server a task is about.
    tasks: BTreeMap<String, String>,
    /// What intents announced that they would ask for: package, firewall, image and key of a purchase, by marker; image and key
    /// of a reinstall, by server.
    announced: BTreeSet<(String, Vec<String>)>,
    /// The attempts that were on record, by marker and nonce.
    nonces: BTreeSet<(Marker, String)>,
    /// Objects that went back to a reinstall which was announced, and of whose call the store knows nothing.
    half_told: BTreeSet<String>,
    /// Reinstalls that were announced, by object, before a watch was sure to tell that the store went back.
    announced_unseen: BTreeMap<String, usize>,
    /// Servers that were imported, and whose release the service took.
    released_imports: BTreeSet<String>,
    /// Servers that came about and were whole, by marker.
    whole: BTreeMap<Marker, usize>,
    /// Servers that nobody of us bought, and for whom each was taken over.
    foreign: BTreeMap<String, Option<String>>,
    /// Servers that two Instances imported, under two processes; and those among them that went with one of the two.
    were_imported_twice: BTreeSet<String>,
    shared: BTreeSet<String>,
    /// Servers whose Instance was being deleted when it lost its finalizer by force, or when etcd went back, and when.
    may_yet_be_released: BTreeMap<String, Instant>,
    /// Servers, and markers, that were left behind because the spec wanted it so.
    kept: BTreeSet<String>,
    kept_markers: BTreeSet<Marker>,
    lists: Lists,
    /// How many Instances may have a server, and since when.
    most: Option<(usize, Option<Instant>)>,
    /// The Account has never let its Instances import anything.
    denies_imports: bool,
    /// When a server was last asked to stop, and whether that failed.
    stops: BTreeMap<String, (Instant, bool)>,
    /// The server whose power is being cut by the call that the service is asked for right now.
    cutting: Option<String>,
    /// When the service last took an operation of a server.
    accepted: BTreeMap<String, Instant>,
    failed_creates: BTreeSet<String>,
    /// Servers whose newest password change failed, or was broken off at the console.
    broken_passwords: BTreeSet<String>,
    /// The server that was bought last with each marker, and the markers of those that a restored store knows nothing of.
    newest: BTreeMap<Marker, String>,
    put_back: BTreeSet<Marker>,
    touched_at_console: BTreeSet<String>,
    released_at_console: BTreeSet<Marker>,
    /// Servers that were released although another one was recorded.
    pub surplus: usize,
}

impl Oracle {
    /// A judge of a service with this settling time, in seconds.
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

    /// The Account lets no Instance import a server.
    pub fn denies_imports(&mut self) {
        self.denies_imports = true;
    }

    /// The Account begins with this limit.
    pub fn limits(&mut self, most: u8) {
        self.most = Some((usize::from(most), None));
    }

    /// Whether the service's lists have been as they are for long enough that nobody goes by older ones.
    pub fn lists_are_known(&self) -> bool {
        let changed = self.lists.changed;
        changed.is_none_or(|changed| changed.elapsed() > LISTS_KNOWN)
    }

    /// The Account's limit as it stands, after it went back with the store.
    pub fn is_limited(&mut self, most: Option<u64>) {
        let most = most.and_then(|most| usize::try_from(most).ok());
        if most != self.most.map(|(most, _)| most) {
            self.most = most.map(|most| (most, Some(Instant::now())));
        }
    }

    /// A process that stood by acts from now on, on what its watch has told it so far.
    pub fn handed_over(&mut self) {
        self.troubles.handed_over = Some(Instant::now());
    }

    /// A process ended, or the run with it.
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

    /// Somebody bought a server by other means.
    pub fn bought_elsewhere(&mut self, server: &str) {
        self.foreign.insert(server.to_owned(), None);
    }

    /// A process calls the service, whatever becomes of it.
    pub fn calls(
        &mut self,
        process: ProcessId,
        request: &Request,
        cloud: &World,
        kube: &Apiserver,
    ) {
        self.counts_call(process, request, cloud);
        if let Some(seen) = self.judge_look(process, request, cloud) {
            self.judge_acknowledged(process, request, &seen);
        }
        self.begins_call(process, request, cloud, kube);
    }

    /// A process writes this object, as it is there now.
    pub fn writes(&mut self, process: ProcessId, kind: Kind, key: &Key, object: Option<&Value>) {
        let is_status = matches!(kind, Kind::Status | Kind::Intent | Kind::Receipt);
        self.counts_write(process, kind, key);
        self.lets_go(process, kind, object);
        if is_status {
            self.says_status(process, key, false);
        }
    }

    /// The service answered.
    pub fn answered(&mut self, process: ProcessId, request: &Request, reply: &Reply) {
        self.has_begun(process, request, reply);
        if let Ok(Answer::Accepted { task, server, .. }) = &reply.outcome {
            self.tasks.insert(task.clone(), server.clone());
        }
    }

    /// A user made an object.
    pub fn created(&mut self, object: &Value) {
        self.specifies(object);
        let name = name_of(object);
        let wishes = self.wishes.entry(name.to_owned()).or_default();
        wishes.are_born(object);
        // A restored object goes on under the marker of its record.
        if let Some(record) = record(object).filter(|record| speaks(record, object)) {
            self.names.insert(record.marker, name.to_owned());
        }
        self.names
            .insert(Marker::of_uid(&uid(object)), name.to_owned());
    }

    /// A user changed an object.
    pub fn edited(&mut self, object: &Value) {
        self.specifies(object);
        let wishes = self.wishes.entry(name_of(object).to_owned()).or_default();
        wishes.are_told(object);
        self.troubles.same_image |= wishes.may_leave_the_image();
    }

    /// An object is about to go, or to come back, that may be in the middle of its deletion.
    pub fn interferes(&mut self, object: &Value) {
        let record = record(object).filter(|record| speaks(record, object));
        if object["metadata"]["deletionTimestamp"].is_string()
            && let Some(id) = record.and_then(|record| record.id)
        {
            self.may_yet_be_released.insert(id, Instant::now());
        }
    }

    /// Etcd went back, and with it what the specs and the records say.
    pub fn went_back(&mut self, kube: &Apiserver) {
        for (_, object) in kube.all().filter(|(key, _)| key.0 == INSTANCES) {
            let wishes = self.wishes.entry(name_of(object).to_owned()).or_default();
            wishes.go_back(object);
            self.specifies(object);
            let record = record(object).filter(|record| speaks(record, object));
            let known = record.as_ref().and_then(|record| record.id.as_ref());
            // The store knows that it was announced, and no more.
            if is_unanswered(object) {
                self.half_told.insert(name_of(object).to_owned());
            }
            let marker = marker_of(object);
            if self.newest.get(&marker).is_some_and(|id| Some(id) != known) {
                self.put_back.insert(marker);
            }
        }
    }

    /// Somebody is about to act on a server at the console.
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
            // The console ends its create in the middle.
            self.failed_creates.insert(server.id.clone());
        }
        let is_whole = matches!(server.status, "STARTED" | "STOPPED");
        if releases && is_whole && !self.failed_creates.contains(&server.id) {
            self.released_at_console
                .extend(Marker::in_name(&server.name));
        }
    }

    /// Whether a reinstall of this server was announced that leaves the image as it is.
    fn is_reinstall_unseen(&self, server: &ServerInfo) -> bool {
        let mut announced = self.announced.iter();
        announced.any(|(what, asked)| *what == server.id && asked.first() == Some(&server.image))
    }

    /// Whether the spec of this object has said so for longer than a call may be under way that was decided before.
    fn holds(&self, name: &str, property: Property) -> bool {
        let wishes = self.wishes.get(name);
        wishes.is_some_and(|wishes| wishes.have_said(property, self.under_way()))
    }

    /// How long a call may be under way that was decided by what stood there before.
    fn under_way(&self) -> Duration {
        if self.troubles.slow {
            UNDER_WAY_WHEN_SLOW
        } else {
            UNDER_WAY
        }
    }

    /// Whether it says so now, since however short a time.
    fn says(&self, name: &str, property: Property) -> bool {
        let wishes = self.wishes.get(name);
        wishes.is_some_and(|wishes| wishes.say(property))
    }

    /// Whether nothing may be begun for this object.
    fn is_restrained(&self, name: &str) -> bool {
        self.holds(name, Property::Paused) || self.holds(name, Property::Observed)
    }

    /// Whether its spec says so now.
    fn says_restrained(&self, name: &str) -> bool {
        self.says(name, Property::Paused) || self.says(name, Property::Observed)
    }

    /// Whether its spec has ever said so.
    fn was_ever_restrained(&self, name: &str) -> bool {
        let wishes = self.wishes.get(name);
        wishes.is_some_and(Wishes::have_ever_restrained)
    }

    /// The object that a server belongs to: by its marker, or by the record of what was taken over.
    fn owner_of(&self, server: &str, cloud: &World) -> Option<String> {
        if let Some(owner) = self.foreign.get(server) {
            return owner.clone();
        }
        let info = cloud.server(server)?;
        let marker = Marker::in_name(&info.name)?;
        self.names.get(&marker).cloned()
    }
}

/// Whether a spec says that nothing may be begun, by the clock that the operator reads.
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

/// The operation on the server that status tells of: under way, or ended and not well.
pub fn operation(object: &Value) -> Option<Operation> {
    let told = serde_json::from_value::<Operation>(object["status"]["operation"].clone());
    told.ok().filter(|told| told.verb != Verb::Create)
}

/// The operation that is under way.
pub fn open_operation(object: &Value) -> Option<Operation> {
    operation(object).filter(Operation::is_open)
}

/// The number of the newest attempt, whether it was to buy a server or to do something to it.
fn newest_attempt(object: &Value) -> u32 {
    let bought = record(object).map_or(0, |record| record.attempt);
    let told = object["status"]["attempt"].as_i64().unwrap_or(0);
    bought.max(u32::try_from(told).unwrap_or(0))
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

/// Whether status tells of a reinstall of whose call nothing is known, neither that it was taken nor that it ended.
fn is_unanswered(object: &Value) -> bool {
    open_operation(object).is_some_and(|open| open.verb == Verb::Reinstall && !open.accepted)
}

/// The marker that an object's servers bear: of its record, else of its UID.
fn marker_of(object: &Value) -> Marker {
    let record = record(object).filter(|record| speaks(record, object));
    record.map_or_else(|| Marker::of_uid(&uid(object)), |record| record.marker)
}

/// The servers of an object: those that bear its marker, and the one that it took over.
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

/// Why an Instance is Ready, or is not.
pub fn reason(object: &Value) -> Option<&str> {
    condition(object, "Ready")["reason"].as_str()
}

fn is_ready(object: &Value) -> bool {
    condition(object, "Ready")["status"] == "True"
}
