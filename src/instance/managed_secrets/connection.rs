//! The connection Secret: where the server is, and what is in force there.

use crate::api::PASSWORD;
use crate::instance::connection::wanted;
use crate::instance::context::Context;
use crate::instance::fact::ConnectionFact;
use crate::instance::managed_secrets::{
    CONNECTION, Change, NotWritten, USERNAME, create, is_ours, not_ours, patch,
};
use crate::instance::memory::kinds::{Connected, Connection, ConnectionTrouble};
use crate::instance::memory::{Memory, open};
use crate::instance::observation::Observation;
use crate::instance::outcome::Outcome;
use crate::instance::times;
use crate::runtime::watch::ObjectKey;
use crate::session;
use crate::session::{Content, SecretProblem};
use secrecy::ExposeSecret;
use std::sync::{Arc, Mutex};

const HOST: &str = "host";
const PORT: &str = "port";
const KEY: &str = "sshKeyId";

/// Reads the Secret. The login that is to stand in it was read before.
pub(in crate::instance) async fn look(context: &Context, observed: &mut Observation) {
    observed.connection = ConnectionFact::Unread;
    let Some(wanted) = wanted(observed) else {
        return;
    };
    let Some(change) = change(observed, &wanted) else {
        return;
    };
    let namespace = &observed.facts.key.namespace;
    let read = session::read(&context.client, namespace, &wanted.name).await;
    let mut words = format!(
        "{}: name another one in spec.connectionSecret.name, or delete it",
        not_ours(&wanted.name)
    );
    let (fact, version) = match read {
        Err(SecretProblem::NoSecret(_)) => (ConnectionFact::Differs(None), None),
        // There is none of that name, so none of ours.
        Err(SecretProblem::NoName(no_name)) => {
            words = format!("{no_name}: mend spec.connectionSecret.name");
            (ConnectionFact::NotOurs, None)
        }
        Err(_) => return,
        Ok(content) => {
            let version = Some(content.version());
            let fact = if !is_ours(&content, &observed.facts.uid, CONNECTION) {
                ConnectionFact::NotOurs
            } else if says(&content, &change) {
                ConnectionFact::Same
            } else {
                ConnectionFact::Differs(Some(Arc::new(content)))
            };
            (fact, version)
        }
    };
    let trouble =
        matches!(fact, ConnectionFact::NotOurs).then_some(ConnectionTrouble { words, until: None });
    if !matches!(fact, ConnectionFact::Differs(_)) {
        let connected = Connected {
            wanted,
            version,
            trouble,
        };
        observed.memory.secrets.connection = Some(Box::new(connected));
    }
    observed.connection = fact;
}

/// Every key that is ours, with its value or without.
fn change(observed: &Observation, wanted: &Connection) -> Option<Change> {
    let mut change = Change::default();
    change.put(HOST, &wanted.host);
    change.put(PORT, wanted.port);
    change.put(USERNAME, &wanted.username);
    match &wanted.key {
        Some(key) => change.put(KEY, key),
        None => change.removed.push(KEY),
    }
    match &wanted.secret {
        Some(version) => {
            let password = super::password_of(observed, version)?;
            change.put(PASSWORD, password.expose_secret());
        }
        None => change.removed.push(PASSWORD),
    }
    Some(change)
}

/// Whether a Secret says all of it and nothing else under our keys.
fn says(content: &Content, change: &Change) -> bool {
    let values = change.values.iter();
    let mut values = values.map(|(key, value)| (*key, value.expose_secret()));
    values.all(|(key, value)| content.text(key) == Some(value))
        && change.removed.iter().all(|key| content.text(key).is_none())
}

/// Makes or changes the Secret. It is no part of the server's state: trouble with it is remembered, and told beside.
pub(super) async fn write(
    context: &Context,
    observed: &Observation,
    memory: &Mutex<Memory>,
) -> Outcome {
    let (ConnectionFact::Differs(former), Some(wanted)) = (&observed.connection, wanted(observed))
    else {
        return Outcome::Stale;
    };
    let Some(change) = change(observed, &wanted) else {
        return Outcome::Stale;
    };
    let facts = &observed.facts;
    let written = match former {
        None => create(context, facts, &wanted.name, CONNECTION, &change).await,
        Some(content) => patch(context, facts, &wanted.name, content, &change).await,
    };
    let key = ObjectKey::new(&facts.key.namespace, &wanted.name);
    let kept = |words: String| ConnectionTrouble {
        words: format!("connection Secret {} is not kept: {words}", wanted.name),
        until: Some(observed.now + times::SECRET_UNWRITTEN_RETRY),
    };
    let (trouble, version) = match written {
        Ok(()) => match context.secrets.of(&key) {
            Some(version) => (None, Some(version)),
            // It is gone again already, or the watch of its namespace has yet to tell.
            None => return Outcome::Stale,
        },
        Err(NotWritten::Stale) => return Outcome::Stale,
        // Tried again by itself, and not worth a word.
        Err(NotWritten::Failed(error)) if !error.is_refusal() => {
            return Outcome::not_written(&error);
        }
        Err(NotWritten::Failed(error)) => {
            let words = match error.category() {
                "forbidden" => super::refused(&error),
                _ => error.to_string(),
            };
            (Some(kept(words)), observed.connection_version.clone())
        }
        Err(NotWritten::Unsafe(words)) => (Some(kept(words)), observed.connection_version.clone()),
    };
    let connected = Connected {
        wanted,
        version,
        trouble,
    };
    open(memory).secrets.connection = Some(Box::new(connected));
    Outcome::Written
}
