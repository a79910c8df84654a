//! Records each process's requests to the service and their answers, and the state that the service last showed to it: the
//! information on which a status may be based.

use super::claims::verb_of;
use super::{Oracle, ProcessId, name_of, newest_attempt, open_operation, record, speaks};
use crate::apiserver::{Apiserver, INSTANCES, uid};
use crate::universe::Reply as Heard;
use cloud_simulator::model::{Answer, Reply, Request, Verb, World};
use serde_json::Value;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// The outcome of a call, as its process knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// No answer has arrived, and the call may have been carried out.
    Open,
    /// The call was never sent, so it was not carried out.
    NotSent,
    /// The service accepted the call.
    Accepted,
    /// The service refused the call, with this code.
    Refused(String),
    /// The answer was lost, truncated, or without information.
    Lost,
}

/// A mutating call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) process: ProcessId,
    pub(super) verb: Verb,
    /// The server, or for a create the name of the new one.
    subject: String,
    /// UID of the call's object, and the attempt that was recorded when the call was sent.
    pub(super) object: String,
    pub(super) attempt: u32,
    pub(super) is_announced: bool,
    pub(super) fate: Fate,
}

/// An operation that the service accepted from the operator.
#[derive(Clone, Debug)]
pub(super) struct Begun {
    pub(super) process: ProcessId,
    pub(super) verb: Verb,
    pub(super) server: String,
    pub(super) task: String,
    pub(super) at: Instant,
    /// UID of the operation's object, and the attempt.
    pub(super) object: String,
    pub(super) attempt: u32,
    /// Whether status announced the operation when the call was sent; otherwise the attempt is a guess.
    pub(super) is_announced: bool,
}

/// The state of a server that the service showed; none if the service reported that it does not exist.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) at: Instant,
    pub(super) row: Option<Value>,
}

/// All recorded information.
#[derive(Debug, Default)]
pub(super) struct Talk {
    pub(super) calls: Vec<Call>,
    pub(super) begun: Vec<Begun>,
    shown: BTreeMap<(ProcessId, String), Vec<Shown>>,
    /// Tasks that the service claimed not to know.
    pub(super) unknown_tasks: Vec<String>,
}

impl Talk {
    /// The states of a server that the service showed to a process, the newest first.
    pub(super) fn shown<'a>(
        &'a self,
        process: ProcessId,
        server: &str,
    ) -> impl Iterator<Item = &'a Shown> {
        let of = (process, server.to_owned());
        self.shown.get(&of).into_iter().flatten().rev()
    }

    /// The states of a server that the service showed to any other process since then.
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
    /// A process sends a mutating call.
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
        // If two objects have the same server, which two processes without a lease may import, this is the one that announced
        // the call.
        let announced = kube.all().map(|(_, object)| object).find(|object| {
            let is_announced =
                open_operation(object).is_some_and(|operation| operation.task_id.is_none());
            let announced = object["status"]["operation"]["verb"].as_str();
            let of_server = || record(object).and_then(|record| record.id);
            is_announced
                && announced.and_then(verb_of) == Some(verb)
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

    /// The service accepted a request of a process, which may no longer be waiting for the answer.
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

    /// A process gets the service's answer, or learns that none will come; `is_sent`: the request may have arrived.
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

    /// The calls with these verbs for an object.
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

/// The UIDs of an object: its current one, and the one before it was restored.
pub(super) fn uids(object: &Value) -> Vec<String> {
    let former = record(object).map(|record| record.uid);
    former.into_iter().chain([uid(object)]).collect()
}

/// The outcome of a call, as its answer shows it.
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

/// The server of a call, or the name of the new one.
fn subject(request: &Request) -> Option<&str> {
    match request {
        Request::Create(body) => body.instance_name.as_deref(),
        _ => super::effort::server_of(request),
    }
}
