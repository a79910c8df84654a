//! What each process asked the service for, what it was answered, and what the service last showed it: what a status may stand
//! on.

use super::claims::verb_of;
use super::{Oracle, ProcessId, name_of, newest_attempt, open_operation, record, speaks};
use crate::apiserver::{Apiserver, INSTANCES, uid};
use crate::universe::Reply as Heard;
use cloud_simulator::model::{Answer, Reply, Request, Verb, World};
use serde_json::Value;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// What became of a call, as its process knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// No answer has come, and it may have been carried out.
    Open,
    /// It never left, so it was not carried out.
    NotSent,
    /// The service took it.
    Accepted,
    /// The service said no, with this code.
    Refused(String),
    /// The answer was lost, cut off, or tells nothing.
    Lost,
}

/// A call that changes something.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) process: ProcessId,
    pub(super) verb: Verb,
    /// The server; of a create the name that it is to have.
    subject: String,
    /// UID of the object that it is for, and the attempt that was on record when it left.
    pub(super) object: String,
    pub(super) attempt: u32,
    pub(super) is_announced: bool,
    pub(super) fate: Fate,
}

/// An operation that the service took for the operator.
#[derive(Clone, Debug)]
pub(super) struct Begun {
    pub(super) process: ProcessId,
    pub(super) verb: Verb,
    pub(super) server: String,
    pub(super) task: String,
    pub(super) at: Instant,
    /// UID of the object that it is for, and the attempt.
    pub(super) object: String,
    pub(super) attempt: u32,
    /// Status announced the operation when the call left; else the attempt is a guess.
    pub(super) is_announced: bool,
}

/// What the service showed of a server: none, that it does not know it.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) at: Instant,
    pub(super) row: Option<Value>,
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Talk {
    pub(super) calls: Vec<Call>,
    pub(super) begun: Vec<Begun>,
    shown: BTreeMap<(ProcessId, String), Vec<Shown>>,
    /// Tasks that the service said it does not know.
    pub(super) unknown_tasks: Vec<String>,
}

impl Talk {
    /// What the service showed a process of a server, the newest first.
    pub(super) fn shown<'a>(
        &'a self,
        process: ProcessId,
        server: &str,
    ) -> impl Iterator<Item = &'a Shown> {
        let of = (process, server.to_owned());
        self.shown.get(&of).into_iter().flatten().rev()
    }

    /// What the service showed of a server to any other process since then.
    pub(super) fn shown_to_others<'a>(
        &'a self,
        process: ProcessId,
        server: &'a str,
        since: Instant,
    ) -> impl Iterator<Item = &'a Shown> {
        let of_server = self
            .shown
            .iter()
            .filter(move |((other, id), _)| *other != process && id == server);
        of_server
            .flat_map(|(_, shown)| shown)
            .filter(move |shown| shown.at >= since)
    }

    fn shows(&mut self, process: ProcessId, server: &str, row: Option<&Value>) {
        let of = (process, server.to_owned());
        self.shown.entry(of).or_default().push(Shown {
            at: Instant::now(),
            row: row.cloned(),
        });
    }
}

impl Oracle {
    /// A call that changes something leaves a process.
    pub(super) fn begins_call(
        &mut self,
        process: ProcessId,
        request: &Request,
        cloud: &World,
        kube: &Apiserver,
    ) {
        let (Some(verb), Some(subject)) = (request.verb(), subject(request)) else {
            return;
        };
        // Of two that have the same server, which two processes without a lease may take over, the one that announced it.
        let announced = kube.all().map(|(_, object)| object).find(|object| {
            let is_announced = open_operation(object).is_some_and(|told| told.task_id.is_none());
            let told = object["status"]["operation"]["verb"].as_str();
            let of_server = || record(object).and_then(|record| record.id);
            is_announced
                && told.and_then(verb_of) == Some(verb)
                && of_server().as_deref() == Some(subject)
        });
        let object = announced.or_else(|| {
            let name = self.object_of(request, cloud)?;
            kube.get(&(INSTANCES, name))
        });
        let attempt = object.filter(|object| {
            let record = record(object);
            record.is_some_and(|record| speaks(&record, object))
        });
        let attempt = attempt.map_or(0, newest_attempt);
        self.talk.calls.push(Call {
            process,
            verb,
            subject: subject.to_owned(),
            object: object.map(uid).unwrap_or_default(),
            attempt,
            is_announced: announced.is_some(),
            fate: Fate::Open,
        });
    }

    /// The service took what a process had asked for: now, or when nobody waits for it any more.
    pub(super) fn has_begun(&mut self, process: ProcessId, request: &Request, reply: &Reply) {
        let (Ok(Answer::Accepted { task, server, verb }), Some(subject)) =
            (&reply.outcome, subject(request))
        else {
            return;
        };
        let mut calls = self.talk.calls.iter().rev();
        let of = calls
            .find(|call| call.process == process && call.verb == *verb && call.subject == subject);
        self.talk.begun.push(Begun {
            process,
            verb: *verb,
            server: server.clone(),
            task: task.clone(),
            at: Instant::now(),
            object: of.map(|call| call.object.clone()).unwrap_or_default(),
            attempt: of.map_or(0, |call| call.attempt),
            is_announced: of.is_some_and(|call| call.is_announced),
        });
    }

    /// A process hears the answer of the service, or that none will come; `is_sent`: the request may have arrived.
    pub fn hears_service(
        &mut self,
        process: ProcessId,
        request: &Request,
        answer: Option<&Heard>,
        is_sent: bool,
    ) {
        let fate = match answer {
            None if is_sent => Fate::Lost,
            None => Fate::NotSent,
            Some(answer) => fate(answer),
        };
        match request {
            Request::Detail { server: Some(id) } => match (&fate, answer) {
                (Fate::Accepted, Some(answer)) => {
                    let row = &answer.body["instance"];
                    self.talk.shows(process, id, Some(row));
                }
                (Fate::Refused(code), _) if code.contains("NotFound") => {
                    self.talk.shows(process, id, None);
                }
                _ => {}
            },
            Request::Instances(_) if fate == Fate::Accepted => {
                let rows = answer.and_then(|answer| answer.body["instances"].as_array());
                for row in rows.into_iter().flatten() {
                    let id = row["ecsResourceUUID"].as_str().unwrap_or_default();
                    self.talk.shows(process, id, Some(row));
                }
            }
            Request::TaskResult { task: Some(task) } if matches!(fate, Fate::Refused(_)) => {
                self.talk.unknown_tasks.push(task.clone());
            }
            _ => {
                let (verb, subject) = (request.verb(), subject(request));
                let mut calls = self.talk.calls.iter_mut().rev();
                let call = calls.find(|call| {
                    call.process == process
                        && Some(call.verb) == verb
                        && Some(call.subject.as_str()) == subject
                        && call.fate == Fate::Open
                });
                if let Some(call) = call {
                    call.fate = fate;
                }
            }
        }
    }

    /// The calls for an object, as far as anybody made any, of these verbs.
    pub(super) fn calls_for<'a>(
        &'a self,
        object: &'a Value,
        verbs: &'a [Verb],
    ) -> impl Iterator<Item = &'a Call> {
        let of = uids(object);
        let name = name_of(object).to_owned();
        self.talk.calls.iter().filter(move |call| {
            let is_its = of.contains(&call.object)
                || call
                    .subject
                    .strip_prefix(&name)
                    .is_some_and(|rest| rest.starts_with('-'));
            is_its && verbs.contains(&call.verb)
        })
    }
}

/// The UIDs of an object: its own, and what it was before it was restored.
pub(super) fn uids(object: &Value) -> Vec<String> {
    let former = record(object).map(|record| record.uid);
    former.into_iter().chain([uid(object)]).collect()
}

/// What an answer says of a call.
fn fate(answer: &Heard) -> Fate {
    if !answer.body.is_object() {
        return Fate::Lost;
    }
    let inner = answer.body["httpStatus"].as_u64().unwrap_or(200);
    let status = u64::from(answer.status).max(inner);
    match status {
        500.. => Fate::Lost,
        400.. => Fate::Refused(answer.body["code"].as_str().unwrap_or_default().to_owned()),
        _ => Fate::Accepted,
    }
}

/// The server that a call is for, or the name that it is to have.
fn subject(request: &Request) -> Option<&str> {
    match request {
        Request::Create(body) => body.instance_name.as_deref(),
        _ => super::effort::server_of(request),
    }
}
