//! The connection Secret: the server's address, and the login in force.

use crate::api::PASSWORD;
use crate::instance::connection::wanted;
use crate::instance::context::Context;
use crate::instance::fact::ConnectionFact;
use crate::instance::managed_secrets::USERNAME;
use crate::instance::managed_secrets::ownership::{Managed, Ownership};
use crate::instance::managed_secrets::writing::{Change, NotWritten, create, patch, refused};
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

/// Reads the Secret. The login that belongs into it was read before.
pub(in crate::instance) async fn look(context: &Context, observed: &mut Observation) {
    observed.connection = ConnectionFact::Unread;
    let Some(wanted) = wanted(observed) else {
        return;
    };
    let Some(change) = change(observed, &wanted) else {
        return;
    };
    let facts = &observed.facts;
    let Some(managed) = Managed::connection(facts) else {
        return;
    };
    let read = session::read(&context.client, &facts.key.namespace, &managed.name).await;
    let mut words = String::new();
    let (fact, version) = match read {
        Err(SecretProblem::NoSecret(_)) => (ConnectionFact::Differs(None), None),
        // No Secret can have this name, so none of ours has it.
        Err(SecretProblem::NoName(no_name)) => {
            words = format!("{no_name}: fix spec.connectionSecret.name");
            (ConnectionFact::NotOurs, None)
        }
        Err(_) => return,
        Ok(content) => {
            let version = Some(content.version());
            let is_whole = says(&content, &change) && managed.is_labelled(&content);
            let fact = match managed.ownership(&content, facts) {
                Ownership::Ours if is_whole => ConnectionFact::Same,
                Ownership::Ours | Ownership::Unowned => {
                    ConnectionFact::Differs(Some(Arc::new(content)))
                }
                whose @ (Ownership::Former | Ownership::Free | Ownership::Foreign) => {
                    let remedy = "name another one in spec.connectionSecret.name";
                    words = managed.not_ours(whose, facts, remedy);
                    ConnectionFact::NotOurs
                }
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

/// All keys that the operator manages, each with a value or to be removed.
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

/// Whether the managed keys of a Secret have exactly these values.
fn says(content: &Content, change: &Change) -> bool {
    let values = change.values.iter();
    let mut values = values.map(|(key, value)| (*key, value.expose_secret()));
    values.all(|(key, value)| content.text(key) == Some(value))
        && change.removed.iter().all(|key| content.text(key).is_none())
}

/// Creates or changes the Secret. A failure does not affect the server, so it is remembered and reported separately.
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
    let Some(managed) = Managed::connection(facts) else {
        return Outcome::Stale;
    };
    let written = match former {
        None => create(context, facts, &managed, &change).await,
        Some(content) => patch(context, facts, &managed, content, &change).await,
    };
    let key = ObjectKey::new(&facts.key.namespace, &managed.name);
    let kept = |words: String| ConnectionTrouble {
        words,
        until: Some(observed.now + times::SECRET_UNWRITTEN_RETRY),
    };
    let (trouble, version) = match written {
        Ok(()) => match context.secrets.of(&key) {
            Some(version) => (None, Some(version)),
            // The Secret is already gone again, or the watch of its namespace has not shown it yet.
            None => return Outcome::Stale,
        },
        Err(NotWritten::Stale) => return Outcome::Stale,
        Err(NotWritten::Failed(error)) => match error.obstacle() {
            // The operator retries without a message.
            None => return Outcome::not_written(&error),
            Some(obstacle) => {
                let words = refused(&managed.name, obstacle, &error);
                (Some(kept(words)), observed.connection_version.clone())
            }
        },
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
