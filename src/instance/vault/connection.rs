//! The connection Secret: where the server is, and what is in force there.

use super::{CONNECTION, Change, NotWritten, USERNAME, create, is_ours, not_ours, patch};
use crate::api::{Applied, PASSWORD};
use crate::instance::memory::{Connected, Connection, ConnectionTrouble, Memory, open};
use crate::instance::observe::Observation;
use crate::instance::record::Recorded;
use crate::instance::{Context, login, references};
use crate::session::{self, Content, Seat, SecretProblem};
use secrecy::ExposeSecret;
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const HOST: &str = "host";
const PORT: &str = "port";
const KEY: &str = "sshKeyId";
/// A Secret that could not be written is tried again after this time: rights that come are no event.
const AGAIN: Duration = Duration::from_secs(60);

/// What is known of the connection Secret.
#[derive(Clone, Debug, Default)]
pub enum ConnectionFact {
    /// Nobody asked.
    #[default]
    NotAsked,
    /// It says what it is to say.
    Same,
    /// It has to be made, or changed from this.
    Differs(Option<Arc<Content>>),
    /// It is somebody else's.
    NotOurs,
    /// It could not be read, or what is to stand in it is not known now.
    Unread,
}

/// What the connection Secret is to say now; none while the server is not known, or while another login is on its way.
pub(in crate::instance) fn wanted(seen: &Observation) -> Option<Connection> {
    let (facts, status) = (&seen.facts, &seen.facts.status);
    let name = facts.spec.connection_secret.as_ref()?.name.clone();
    let (addresses, applied) = (status.addresses.as_ref()?, status.applied.as_ref()?);
    let host = addresses.public.clone().or(addresses.internal.clone())?;
    let wants_key = facts.spec.login.ssh_key.is_some();
    let key = references::key(seen).map(|key| key.id);
    if wants_key && key.is_none() {
        return None;
    }
    if facts.deleting || facts.is_open() || !is_in_force(seen, applied, key.as_ref()) {
        return None;
    }
    let (username, port) = account(&status.detail);
    Some(Connection {
        name,
        host,
        port,
        username,
        secret: seen.secret_version.clone().filter(|_| key.is_none()),
        key,
    })
}

/// Whether the login of the spec is the one that the server has.
fn is_in_force(seen: &Observation, applied: &Applied, key: Option<&String>) -> bool {
    match key {
        Some(key) => applied.key.as_ref() == Some(key),
        None => seen.secret_version.is_some() && applied.password_secret == seen.secret_version,
    }
}

/// The account that the service tells.
pub(super) fn told_account(detail: &Map<String, Value>) -> Option<&str> {
    let told = detail.get("sysAccount").and_then(Value::as_str)?;
    Some(told.trim()).filter(|told| !told.is_empty())
}

/// Account and port: as the service tells them, else as the image lets expect (specification section 1).
fn account(detail: &Map<String, Value>) -> (String, &'static str) {
    let image = ["osDistroVersion", "imageName"].map(|field| detail.get(field));
    let mut image = image.iter().flatten().filter_map(|word| word.as_str());
    let is_windows = image.any(|word| word.to_ascii_lowercase().contains("windows"));
    let by_image = if is_windows { "Administrator" } else { "root" };
    let name = told_account(detail).unwrap_or(by_image);
    let is_windows = is_windows || name.eq_ignore_ascii_case("Administrator");
    (name.to_owned(), if is_windows { "3389" } else { "22" })
}

/// Reads the Secret, and the login that is to stand in it.
pub(in crate::instance) async fn look(context: &Context, seen: &mut Observation, seat: &Seat) {
    seen.connection = ConnectionFact::Unread;
    let Some(wanted) = wanted(seen) else { return };
    if wanted.secret.is_some() && matches!(seen.login, login::LoginFact::NotAsked) {
        let key = references::key(seen).map(|key| key.id);
        seen.login = login::read(context, &seen.facts, key, seat).await;
    }
    let Some(change) = change(seen, &wanted) else {
        return;
    };
    let namespace = &seen.facts.key.namespace;
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
            let fact = if !is_ours(&content, &seen.facts.uid, CONNECTION) {
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
        seen.memory.connection = Some(Connected {
            wanted,
            version,
            trouble,
        });
    }
    seen.connection = fact;
}

/// Every key that is ours, with its value or without.
fn change(seen: &Observation, wanted: &Connection) -> Option<Change> {
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
            let password = super::password_of(seen, version)?;
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
    seen: &Observation,
    memory: &Mutex<Memory>,
) -> Recorded {
    let (ConnectionFact::Differs(former), Some(wanted)) = (&seen.connection, wanted(seen)) else {
        return Recorded::Stale;
    };
    let Some(change) = change(seen, &wanted) else {
        return Recorded::Stale;
    };
    let facts = &seen.facts;
    let written = match former {
        None => create(context, facts, &wanted.name, CONNECTION, &change).await,
        Some(content) => patch(context, facts, &wanted.name, content, &change).await,
    };
    let key = crate::runtime::watch::ObjectKey {
        namespace: facts.key.namespace.clone(),
        name: wanted.name.clone(),
    };
    let kept = |words: String| ConnectionTrouble {
        words: format!("connection Secret {} is not kept: {words}", wanted.name),
        until: Some(seen.now + AGAIN),
    };
    let (trouble, version) = match written {
        Ok(()) => match context.secrets.of(&key) {
            Some(version) => (None, Some(version)),
            // It is gone again already, or the watch of its namespace has yet to tell.
            None => return Recorded::Stale,
        },
        Err(NotWritten::Stale) => return Recorded::Stale,
        // Tried again by itself, and not worth a word.
        Err(NotWritten::Failed(error)) if !error.is_refusal() => return Recorded::Failed(error),
        Err(NotWritten::Failed(error)) => {
            let words = match error.category() {
                "forbidden" => super::refused(&error),
                _ => error.to_string(),
            };
            (Some(kept(words)), seen.connection_version.clone())
        }
        Err(NotWritten::Unsafe(words)) => (Some(kept(words)), seen.connection_version.clone()),
    };
    open(memory).connection = Some(Connected {
        wanted,
        version,
        trouble,
    });
    Recorded::Written
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_account_is_the_one_that_the_service_tells_or_the_one_of_the_image() {
        for (detail, name, port) in [
            (json!({"sysAccount": "ubuntu"}), "ubuntu", "22"),
            (
                json!({"sysAccount": "Administrator"}),
                "Administrator",
                "3389",
            ),
            (
                json!({"osDistroVersion": "Windows Server 2022"}),
                "Administrator",
                "3389",
            ),
            (
                json!({"imageName": "windows-11", "sysAccount": ""}),
                "Administrator",
                "3389",
            ),
            (
                json!({"sysAccount": "admin", "imageName": "Windows"}),
                "admin",
                "3389",
            ),
            (json!({"imageName": "Debian 12"}), "root", "22"),
            (json!({"sysAccount": 7}), "root", "22"),
        ] {
            let fields = detail.as_object().unwrap();
            assert_eq!(account(fields), (name.to_owned(), port), "{detail}");
        }
    }
}
