//! Judges whether status is true: Ready stands on what the service last showed, with nothing open at it; what is told of an outcome
//! is what the service answered; and an edit is acknowledged before anything is called for it.
//!
//! [`super::claims`] is about outcomes. Each rule counts how often it was asked and how often it excused: a judge that always excuses judges nothing.

use super::heard::{Begun, uids};
use super::wishes::Property;
use super::{Oracle, ProcessId, condition, is_ready, name_of, record};
use crate::apiserver::{Key, uid};
use cloud_simulator::model::{Request, Task, Verb, World};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What is called for a server that stands.
pub(super) const ALL: [Verb; 6] = [
    Verb::Release,
    Verb::Stop,
    Verb::Start,
    Verb::Restart,
    Verb::Password,
    Verb::Reinstall,
];

/// How often a rule was asked, and how often it could not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Judged, excused or not.
    pub judged: u64,
    /// Excused.
    pub excused: u64,
}

/// The rules, as they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Ready is what the service last showed.
    Shown,
    /// Ready with no operation open.
    Closed,
    /// What is told of an outcome is what was answered.
    Claimed,
    /// What is in the history is what became of the task.
    History,
    /// An edit is acknowledged before a call.
    Acknowledged,
}

/// What has to be known for it.
#[derive(Debug, Default)]
pub(super) struct Truth {
    /// Specs by UID and generation.
    specs: BTreeMap<(String, i64), Value>,
    /// Who announced an attempt, by nonce.
    pub(super) announcers: BTreeMap<String, ProcessId>,
    /// Who said last that an object is Ready, by UID.
    says_ready: BTreeMap<String, ProcessId>,
    /// Whose newest status of an object is not known to stand.
    unsaid: BTreeSet<(ProcessId, String)>,
    pub(super) counts: BTreeMap<Rule, Count>,
}

impl Truth {
    pub(super) fn counts(&mut self, rule: Rule, excuse: bool) {
        let count = self.counts.entry(rule).or_default();
        count.judged += 1;
        count.excused += u64::from(excuse);
    }
}

impl Oracle {
    /// The spec of an object, of this generation.
    pub(super) fn specifies(&mut self, object: &Value) {
        let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
        let of = (uid(object), generation);
        self.truth.specs.insert(of, object["spec"].clone());
    }

    /// An attempt may have been announced by this process.
    pub(super) fn announced_by(&mut self, process: ProcessId, now: &Value) {
        let announcers = &mut self.truth.announcers;
        let operation = super::operation(now).map(|operation| operation.nonce);
        let record = record(now).map(|record| record.nonce);
        for nonce in record.into_iter().chain(operation) {
            announcers.entry(nonce).or_insert(process);
        }
    }

    /// A status is on its way, or is known to stand.
    pub(super) fn says_status(&mut self, process: ProcessId, key: &Key, stands: bool) {
        let of = (process, key.1.clone());
        match stands {
            true => self.truth.unsaid.remove(&of),
            false => self.truth.unsaid.insert(of),
        };
    }

    /// A process wrote a status, and it stands.
    pub(super) fn judge_truth(
        &mut self,
        process: ProcessId,
        former: &Value,
        now: &Value,
        cloud: &World,
    ) {
        self.specifies(now);
        let mut wrong = Vec::new();
        let generation = |object: &Value| object["status"]["observedGeneration"].clone();
        if is_ready(now) {
            let stood = is_ready(former)
                && (self.troubles.no_lease || generation(former) == generation(now));
            let who = self.truth.says_ready.entry(uid(now)).or_insert(process);
            // What another process says is left as it is by one that has something else to tell.
            let is_others = stood && *who != process;
            if !is_others {
                *who = process;
            }
            let judged = [
                (Rule::Shown, self.is_as_shown(process, now)),
                (Rule::Closed, self.is_closed(process, now, cloud)),
            ];
            for (rule, (is_excused, why)) in judged {
                let is_left = is_others && why.is_some();
                self.truth.counts(rule, is_excused || is_left);
                wrong.extend(why.filter(|_| !is_left));
            }
        }
        let says = |object: &Value| {
            let ready = condition(object, "Ready");
            (ready["reason"].clone(), ready["message"].clone())
        };
        if says(former) != says(now) {
            wrong.extend(self.judge_claim(process, now));
        }
        let known: Vec<&Value> = history(former).map(|entry| &entry["attempt"]).collect();
        let new = history(now).filter(|entry| !known.contains(&&entry["attempt"]));
        for entry in new {
            let (is_excused, why) = self.is_history_true(process, (former, now), entry, cloud);
            self.truth.counts(Rule::History, is_excused);
            wrong.extend(why);
        }
        let name = name_of(now);
        let told = wrong.into_iter().map(|why| format!("T: {name}: {why}"));
        self.violations.extend(told);
    }

    /// Whether the spec that status speaks of is what the service last showed to whom says Ready.
    fn is_as_shown(&self, process: ProcessId, now: &Value) -> (bool, Option<String>) {
        let told = now["status"]["observedGeneration"].as_i64().unwrap_or(0);
        let (of, id) = (uid(now), now["status"]["id"].as_str().unwrap_or_default());
        // A deletion is a generation too, of the same spec.
        let specs = &self.truth.specs;
        let spec = specs.range((of.clone(), 0)..=(of, told)).next_back();
        let Some((_, spec)) = spec else {
            return (true, None);
        };
        if Property::Observed.is_in(spec) {
            return (true, None);
        }
        let mut shown = self.talk.shown(process, id);
        let Some(last) = shown.next() else {
            let why = format!("Ready, and server {id} was never shown to who says so");
            return (false, Some(why));
        };
        let Some(why) = differs(spec, now, last.row.as_ref()) else {
            return (false, None);
        };
        // What was shown while the status was under way is for the next one.
        let is_new = last.at.elapsed() < self.under_way();
        let was_so = shown
            .next()
            .is_some_and(|shown| differs(spec, now, shown.row.as_ref()).is_none());
        // Of two processes at once, each takes up what the other one has read and told.
        let is_told = self.troubles.no_lease
            && self
                .talk
                .shown_to_others(process, id, last.at)
                .any(|shown| differs(spec, now, shown.row.as_ref()).is_none());
        if (is_new && was_so) || is_told {
            return (true, None);
        }
        (false, Some(format!("Ready, and {why}")))
    }

    /// Whether nothing that the operator began is open at the server that is told as Ready.
    fn is_closed(&self, process: ProcessId, now: &Value, cloud: &World) -> (bool, Option<String>) {
        let id = now["status"]["id"].as_str().unwrap_or_default();
        let looked = self.talk.shown(process, id).next().map(|shown| shown.at);
        let open = self.talk.begun.iter().filter(|begun| begun.server == id);
        let mut open = open.filter(|begun| cloud.task(&begun.task).is_some_and(Task::is_open));
        // Another process called after this one looked, or a call came late that was for a former owner of the server: nothing could
        // tell it.
        let of = uids(now);
        let is_unseen = |begun: &Begun| {
            let is_others = begun.process != process || !of.contains(&begun.object);
            is_others && looked.is_none_or(|at| begun.at >= at)
        };
        let Some(begun) = open.next() else {
            return (false, None);
        };
        // The store went back after the deletion that the release was for.
        let is_undone = begun.verb == Verb::Release && self.troubles.restores > 0;
        if is_unseen(begun) || is_undone {
            return (true, None);
        }
        let why = format!("Ready, and a {} of server {id} is open", begun.verb);
        (false, Some(why))
    }

    /// A process is about to call this for an object that it saw like that.
    pub(super) fn judge_acknowledged(
        &mut self,
        process: ProcessId,
        request: &Request,
        seen: &Value,
    ) {
        let Some(verb) = request.verb().filter(|verb| ALL.contains(verb)) else {
            return;
        };
        let id = super::effort::server_of(request);
        let is_its = record(seen).is_some_and(|record| record.id.as_deref() == id);
        // A surplus server is nothing that status tells of.
        if !is_its {
            return;
        }
        let generation = seen["metadata"]["generation"].as_i64();
        let told = seen["status"]["observedGeneration"].as_i64();
        let is_behind = is_ready(seen) && told < generation;
        let name = name_of(seen).to_owned();
        let is_excused = is_behind && self.truth.unsaid.contains(&(process, name.clone()));
        self.truth.counts(Rule::Acknowledged, is_excused);
        if is_behind && !is_excused {
            self.violations.push(format!(
                "T: {name}: a {verb} was called while status said Ready of generation {told:?}, and the spec is of {generation:?}"
            ));
        }
    }

    /// All is quiet: whether what is told as Ready is so.
    pub(super) fn is_told_truly(&self, object: &Value, cloud: &World) -> Option<String> {
        let id = object["status"]["id"]
            .as_str()
            .filter(|_| is_ready(object))?;
        let mut begun = self.talk.begun.iter().filter(|begun| begun.server == id);
        let open = begun.find(|begun| cloud.task(&begun.task).is_some_and(Task::is_open));
        open.map(|begun| format!("T: Ready, and a {} of server {id} is open", begun.verb))
    }

    /// How often each rule was asked, and excused.
    pub fn counted(&self) -> BTreeMap<Rule, Count> {
        self.truth.counts.clone()
    }
}

/// What a server shows that the spec does not want, or that status counts as not applied.
fn differs(spec: &Value, now: &Value, row: Option<&Value>) -> Option<String> {
    let Some(row) = row else {
        return Some("the service says that there is no such server".to_owned());
    };
    let (has, pending) = (&row["ecsStatus"], &row["ecsPendingStatus"]);
    let wanted = match spec["powerState"].as_str() {
        Some("Stopped") => Some("STOPPED"),
        Some("Unmanaged") => None,
        _ => Some("STARTED"),
    };
    if wanted.is_some_and(|wanted| *has != wanted) {
        return Some(format!("the service showed it as {has}"));
    }
    if pending.as_str().is_some_and(|pending| pending != "NONE") {
        return Some(format!("the service showed it as {pending}"));
    }
    let status = &now["status"];
    let image = match &spec["image"]["id"] {
        Value::Null => &status["resolved"]["image"]["id"],
        id => id,
    };
    // A minimal row tells no image.
    let shown = &row["imageResourceUUID"];
    if !shown.is_null() && shown != image {
        return Some(format!("the service showed image {shown}, not {image}"));
    }
    for (wish, applied) in [
        (&spec["restart"]["token"], &status["applied"]["restart"]),
        (&spec["reinstall"]["token"], &status["applied"]["reinstall"]),
    ] {
        if wish.is_string() && wish != applied {
            return Some(format!("token {wish} is not applied"));
        }
    }
    None
}

fn history(object: &Value) -> impl Iterator<Item = &Value> {
    let all = object["status"]["history"].as_array();
    all.into_iter().flatten()
}
