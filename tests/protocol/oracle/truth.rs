//! Judges whether status is true: Ready is based on the state that the service last showed, without an open operation; a
//! reported outcome matches the service's answer; and an edit is acknowledged before a call is made for it.
//!
//! [`super::claims`] judges outcomes.

use super::heard::{Begun, uids};
use super::requests::Property;
use super::{Oracle, ProcessId, Rule, Verdict, condition, is_ready, name_of, record};
use crate::apiserver::{Key, uid};
use cloud_simulator::model::{Request, Task, Verb, World};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The verbs for an existing server.
pub(super) const ALL: [Verb; 6] = [
    Verb::Release,
    Verb::Stop,
    Verb::Start,
    Verb::Restart,
    Verb::Password,
    Verb::Reinstall,
];

/// The information that these rules need.
#[derive(Debug, Default)]
pub(super) struct Truth {
    /// Specs by UID and generation.
    specs: BTreeMap<(String, i64), Value>,
    /// The process that announced an attempt, by nonce.
    pub(super) announcers: BTreeMap<String, ProcessId>,
    /// The process that last reported an object as Ready, by UID.
    ready_reporters: BTreeMap<String, ProcessId>,
    /// Processes and objects for which it is unknown whether the newest status was stored.
    unreported: BTreeSet<(ProcessId, String)>,
}

impl Oracle {
    /// Records the spec of an object with its generation.
    pub(super) fn specifies(&mut self, object: &Value) {
        let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
        let of = (uid(object), generation);
        self.truth.specs.insert(of, object["spec"].clone());
    }

    /// This process may have announced an attempt.
    pub(super) fn announced_by(&mut self, process: ProcessId, now: &Value) {
        let announcers = &mut self.truth.announcers;
        let operation = super::operation(now).map(|operation| operation.nonce);
        let record = record(now).map(|record| record.nonce);
        for nonce in record.into_iter().chain(operation) {
            announcers.entry(nonce).or_insert(process);
        }
    }

    /// A status write is under way, or its result is known.
    pub(super) fn tracks_status_write(&mut self, process: ProcessId, key: &Key, is_known: bool) {
        let of = (process, key.1.clone());
        match is_known {
            true => self.truth.unreported.remove(&of),
            false => self.truth.unreported.insert(of),
        };
    }

    /// A process wrote a status, which is stored.
    pub(super) fn judge_truth(
        &mut self,
        process: ProcessId,
        former: &Value,
        now: &Value,
        cloud: &World,
    ) {
        self.specifies(now);
        let about = format!("T: {}", name_of(now));
        let generation = |object: &Value| object["status"]["observedGeneration"].clone();
        if is_ready(now) {
            let was_ready = is_ready(former)
                && (self.troubles.no_lease || generation(former) == generation(now));
            let who = self
                .truth
                .ready_reporters
                .entry(uid(now))
                .or_insert(process);
            // A process that writes something else keeps the Ready of another process.
            let is_others = was_ready && *who != process;
            if !is_others {
                *who = process;
            }
            let judged = [
                (Rule::Shown, self.is_as_shown(process, now)),
                (Rule::Closed, self.is_closed(process, now, cloud)),
            ];
            for (rule, verdict) in judged {
                self.judge(rule, verdict.or_excused(is_others).about(&about));
            }
        }
        let ready = |object: &Value| {
            let ready = condition(object, "Ready");
            (ready["reason"].clone(), ready["message"].clone())
        };
        if ready(former) != ready(now)
            && let Some(verdict) = self.is_claim_true(process, now)
        {
            self.judge(Rule::Claimed, verdict.about(&about));
        }
        let known: Vec<&Value> = history(former).map(|entry| &entry["attempt"]).collect();
        let new = history(now).filter(|entry| !known.contains(&&entry["attempt"]));
        for entry in new {
            let verdict = self.is_history_true(process, (former, now), entry, cloud);
            if let Some(verdict) = verdict {
                self.judge(Rule::History, verdict.about(&about));
            }
        }
    }

    /// Whether the spec that status refers to matches the state that the service last showed to the process that reports Ready.
    fn is_as_shown(&self, process: ProcessId, now: &Value) -> Verdict {
        let observed = now["status"]["observedGeneration"].as_i64().unwrap_or(0);
        let (of, id) = (uid(now), now["status"]["id"].as_str().unwrap_or_default());
        // A deletion is also a generation, with the same spec.
        let specs = &self.truth.specs;
        let spec = specs.range((of.clone(), 0)..=(of, observed)).next_back();
        let Some((_, spec)) = spec else {
            return Verdict::Excused;
        };
        // For an observed object, Ready promises nothing.
        let is_observed = Property::Observed.is_in(spec);
        let mut shown = self.talk.shown(process, id);
        let Some(last) = shown.next() else {
            let why =
                format!("Ready, and server {id} was never shown to the process that reports it");
            return Verdict::of(Some(why), is_observed);
        };
        let Some(why) = differs(spec, now, last.row.as_ref()) else {
            return Verdict::Right;
        };
        // A state that was shown while the write was under way belongs to the next status.
        let is_new = last.at.elapsed() < self.under_way();
        let was_so = shown
            .next()
            .is_some_and(|shown| differs(spec, now, shown.row.as_ref()).is_none());
        // Each of two concurrent processes adopts the state that the other one has read and reported.
        let is_adopted = self.troubles.no_lease
            && self
                .talk
                .shown_to_others(process, id, last.at)
                .any(|shown| differs(spec, now, shown.row.as_ref()).is_none());
        let is_excused = is_observed || (is_new && was_so) || is_adopted;
        Verdict::of(Some(format!("Ready, and {why}")), is_excused)
    }

    /// Whether no operation of the operator is open at a server that is reported as Ready.
    fn is_closed(&self, process: ProcessId, now: &Value, cloud: &World) -> Verdict {
        let id = now["status"]["id"].as_str().unwrap_or_default();
        let looked = self.talk.shown(process, id).next().map(|shown| shown.at);
        let open = self.talk.begun.iter().filter(|begun| begun.server == id);
        let mut open = open.filter(|begun| cloud.task(&begun.task).is_some_and(Task::is_open));
        // Another process called after this one's read, or a late call for a former owner of the server arrived: this process
        // could not know of it.
        let of = uids(now);
        let is_unseen = |begun: &Begun| {
            let is_others = begun.process != process || !of.contains(&begun.object);
            is_others && looked.is_none_or(|at| begun.at >= at)
        };
        let Some(begun) = open.next() else {
            return Verdict::Right;
        };
        // The store was restored after the deletion that caused the release.
        let is_undone = begun.verb == Verb::Release && self.troubles.restores > 0;
        let why = format!("Ready, and a {} of server {id} is open", begun.verb);
        Verdict::of(Some(why), is_unseen(begun) || is_undone)
    }

    /// A process is about to make this call for an object that it saw in this state.
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
        // Status does not mention surplus servers.
        if !is_its {
            return;
        }
        let generation = seen["metadata"]["generation"].as_i64();
        let observed = seen["status"]["observedGeneration"].as_i64();
        let is_behind = is_ready(seen) && observed < generation;
        let name = name_of(seen).to_owned();
        let is_excused = self.truth.unreported.contains(&(process, name.clone()));
        let why = is_behind.then(|| format!(
            "T: {name}: a {verb} was called while status showed Ready of generation {observed:?}, and the spec is of {generation:?}"
        ));
        self.judge(Rule::Acknowledged, Verdict::of(why, is_excused));
    }

    /// When all is idle: whether a reported Ready is true.
    pub(super) fn is_ready_truthful(&self, object: &Value, cloud: &World) -> Option<Verdict> {
        let id = object["status"]["id"]
            .as_str()
            .filter(|_| is_ready(object))?;
        let mut begun = self.talk.begun.iter().filter(|begun| begun.server == id);
        let open = begun.find(|begun| cloud.task(&begun.task).is_some_and(Task::is_open));
        let why =
            open.map(|begun| format!("T: Ready, and a {} of server {id} is open", begun.verb));
        Some(Verdict::of(why, false))
    }
}

/// The difference of a server from the spec, or from the values that count as applied.
fn differs(spec: &Value, now: &Value, row: Option<&Value>) -> Option<String> {
    let Some(row) = row else {
        return Some("the service reports that there is no such server".to_owned());
    };
    let (has, pending) = (&row["ecsStatus"], &row["ecsPendingStatus"]);
    let desired = match spec["powerState"].as_str() {
        Some("Stopped") => Some("STOPPED"),
        Some("Unmanaged") => None,
        _ => Some("STARTED"),
    };
    if desired.is_some_and(|desired| *has != desired) {
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
    // A minimal row has no image.
    let shown = &row["imageResourceUUID"];
    if !shown.is_null() && shown != image {
        return Some(format!("the service showed image {shown}, not {image}"));
    }
    for (token, applied) in [
        (&spec["restart"]["token"], &status["applied"]["restart"]),
        (&spec["reinstall"]["token"], &status["applied"]["reinstall"]),
    ] {
        if token.is_string() && token != applied {
            return Some(format!("token {token} is not applied"));
        }
    }
    None
}

fn history(object: &Value) -> impl Iterator<Item = &Value> {
    let all = object["status"]["history"].as_array();
    all.into_iter().flatten()
}
