//! The connection Secret: the server's address, and the login in force.

use super::login::{LoginSecret, USERNAME};
use super::ownership::{ManagedSecret, Ownership, SecretOwner};
use super::writing::{SecretChange, SecretClient, SecretNotWritten};
use crate::api::{ConnectionSecretRef, InstanceStatus, PASSWORD};
use crate::session::{Content, SecretProblem, read};
use secrecy::ExposeSecret;
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::time::Instant;

const HOST: &str = "host";
const PORT: &str = "port";
const KEY: &str = "sshKeyId";

/// Pause before a refused write is repeated: a change of permissions triggers no event.
const RETRY: Duration = Duration::from_secs(60);

/// The content that a connection Secret should have, with the version of the login Secret in place of the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The name of the Secret, and its labels and annotations.
    pub reference: ConnectionSecretRef,
    /// The server's address.
    pub host: String,
    pub port: &'static str,
    /// The user to log in as.
    pub username: String,
    pub login: ConnectionLogin,
}

/// The login in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionLogin {
    /// A key pair.
    Key(String),
    /// The password in this version of the login Secret.
    Password(String),
}

/// A connection Secret that was read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownConnection {
    pub wanted: Connection,
    /// UID and resourceVersion of the Secret, with a trouble as the watch showed them; None if there were none.
    pub version: Option<String>,
    /// Why its content differs.
    pub trouble: Option<ConnectionTrouble>,
}

/// Why a connection Secret does not have the wanted content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionTrouble {
    /// The message for users, with the remedy.
    pub words: String,
    /// When to retry; None if only a change of the Secret or of the spec can help.
    pub until: Option<Instant>,
}

impl Connection {
    /// The content for a server with this status; None while status shows no address, or while `login` is not in force.
    pub fn wanted(
        reference: &ConnectionSecretRef,
        status: &InstanceStatus,
        login: ConnectionLogin,
    ) -> Option<Self> {
        let (addresses, applied) = (status.addresses.as_ref()?, status.applied.as_ref()?);
        let host = addresses.public.clone().or(addresses.internal.clone())?;
        let is_in_force = match &login {
            ConnectionLogin::Key(key) => applied.key.as_ref() == Some(key),
            ConnectionLogin::Password(version) => applied.password_secret.as_ref() == Some(version),
        };
        let (username, port) = account(&status.detail);
        is_in_force.then(|| Self {
            reference: reference.clone(),
            host,
            port,
            username,
            login,
        })
    }
}

/// The user for logins that the service reports.
pub fn reported_account(detail: &Map<String, Value>) -> Option<&str> {
    let name = detail.get("sysAccount").and_then(Value::as_str)?.trim();
    (!name.is_empty()).then_some(name)
}

/// The user and the port for logins: the user as the service reports it, or else by the image's convention; the port by the system.
fn account(detail: &Map<String, Value>) -> (String, &'static str) {
    let image = ["osDistroVersion", "imageName"].map(|field| detail.get(field));
    let mut image = image.iter().flatten().filter_map(|word| word.as_str());
    let is_windows = image.any(|word| word.to_ascii_lowercase().contains("windows"));
    let by_image = if is_windows { "Administrator" } else { "root" };
    let name = reported_account(detail).unwrap_or(by_image);
    let is_windows = is_windows || name.eq_ignore_ascii_case("Administrator");
    (name.to_owned(), if is_windows { "3389" } else { "22" })
}

/// Reads the Secret, and creates or changes it if its content differs. Returns what is known about it now, and whether a write was
/// tried. An obstacle does not affect the server, so it is no error.
///
/// # Errors
/// The login is not in force any more, or a read or a write failed.
pub async fn connect(
    secrets: SecretClient<'_>,
    owner: SecretOwner<'_>,
    login: Option<&LoginSecret<'_>>,
    wanted: &Connection,
    now: Instant,
) -> Result<(KnownConnection, bool), SecretNotWritten> {
    let change = change(secrets, login, wanted).await?;
    let managed = ManagedSecret::connection(owner, &wanted.reference);
    let known = |version, words: Option<String>, until| KnownConnection {
        wanted: wanted.clone(),
        version,
        trouble: words.map(|words| ConnectionTrouble { words, until }),
    };
    let namespace = &managed.owner.key.namespace;
    let content = match read(secrets.client, namespace, &managed.name).await {
        Ok(content) => Some(content),
        Err(SecretProblem::NoSecret(_)) => None,
        // No Secret can have this name, so none of ours has it.
        Err(SecretProblem::InvalidName(no_name)) => {
            let words = format!("{no_name}: fix spec.connectionSecret.name");
            return Ok((known(None, Some(words), None), false));
        }
        Err(problem) => return Err(SecretNotWritten::unread(problem)),
    };
    if let Some(content) = &content {
        let ownership = managed.ownership(content);
        let conflict = managed.conflict(ownership).map(|conflict| conflict.message);
        let is_whole = has(content, &change) && managed.is_labelled(content);
        if conflict.is_some() || (is_whole && ownership == Ownership::Ours) {
            return Ok((known(Some(content.version()), conflict, None), false));
        }
    }
    match secrets.write(&managed, content.as_ref(), &change).await {
        Ok(version) => Ok((known(Some(version), None, None), true)),
        Err(SecretNotWritten::Refused(why)) => {
            let version = content.as_ref().map(Content::version);
            Ok((known(version, Some(why.message), Some(now + RETRY)), true))
        }
        Err(other) => Err(other),
    }
}

/// All keys that the operator manages, each with a value or to be removed.
async fn change(
    secrets: SecretClient<'_>,
    login: Option<&LoginSecret<'_>>,
    wanted: &Connection,
) -> Result<SecretChange, SecretNotWritten> {
    let mut change = SecretChange::default();
    change.put(HOST, &wanted.host);
    change.put(PORT, wanted.port);
    change.put(USERNAME, &wanted.username);
    match &wanted.login {
        ConnectionLogin::Key(key) => {
            change.put(KEY, key);
            change.remove(PASSWORD);
        }
        ConnectionLogin::Password(version) => {
            let login = login.ok_or(SecretNotWritten::Stale)?;
            let password = login.password(secrets.client, version).await;
            let password = password.map_err(SecretNotWritten::unread)?;
            change.put(
                PASSWORD,
                password.ok_or(SecretNotWritten::Stale)?.expose_secret(),
            );
            change.remove(KEY);
        }
    }
    Ok(change)
}

/// Whether the managed keys of a Secret have exactly these values.
fn has(content: &Content, change: &SecretChange) -> bool {
    let mut values = change.values.iter();
    values.all(|(key, value)| content.text(key) == value.as_ref().map(ExposeSecret::expose_secret))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_user_name_is_reported_by_the_service_or_derived_from_the_image() {
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
