//! The login Secret that the operator makes. With these keys, no crash loses the password of the server:
//!
//! | key | |
//! |---|---|
//! | `password` | the password to log in with. If a user puts another one there, the operator sets it on the server. |
//! | `current` | the password that the server is known to have: equal to `password`, except while an edit is being carried out |
//! | `pending` | the password being set on the server. It becomes `password` and `current` once the service reports it as set |
//! | `previous` | the former value of `current` |
//! | `username` | the user for logins, once the service has reported it |
//!
//! No write overwrites a pending password, since the server may have it. It is removed once the service reports a password as set.

use super::login::{
    CURRENT, LoginMetadata, LoginSecret, PENDING, USERNAME, is_settled, rotated_at, wanted_key,
};
use super::ownership::ManagedSecret;
use super::plan::Chore;
use super::writing::{SecretChange, SecretClient, SecretNotWritten};
use crate::api::PASSWORD;
use crate::cloud::password;
use crate::session::Content;
use jiff::Timestamp;
use secrecy::ExposeSecret;

const PREVIOUS: &str = "previous";

/// A login Secret that the operator makes, and the values that it is written with.
pub struct GeneratedSecret<'a> {
    pub secrets: SecretClient<'a>,
    pub login: &'a LoginSecret<'a>,
    pub has_server: bool,
    /// The user for logins that the service reports.
    pub username: Option<&'a str>,
    pub now: Timestamp,
}

/// A first password. A new server is bought with it. An existing server keeps another password until this one is set, which
/// [`Chore::Settle`] records.
pub(super) fn initial_change(has_server: bool) -> SecretChange {
    let (mut change, fresh) = (SecretChange::default(), password::generate());
    let keys: &[_] = match has_server {
        true => &[PENDING],
        false => &[PASSWORD, CURRENT],
    };
    for &key in keys {
        change.put(key, fresh.expose_secret());
    }
    change
}

/// Adds a pending password if the Secret is settled; otherwise the server may already have one that is pending. Either way the
/// Secret gets a new version, so that the operator sets the password.
fn rotation_change(content: &Content) -> SecretChange {
    let mut change = SecretChange::default();
    if is_settled(content) {
        change.put(PENDING, password::generate().expose_secret());
    }
    change
}

/// The password of this version is in force: from now on it is the one to log in with.
fn settling_change(content: &Content) -> Result<SecretChange, SecretNotWritten> {
    let mut change = SecretChange::default();
    let in_force = content.text(wanted_key(content));
    let in_force = in_force.ok_or(SecretNotWritten::Stale)?;
    change.put(PASSWORD, in_force);
    change.put(CURRENT, in_force);
    if let Some(former) = content.text(CURRENT).filter(|former| *former != in_force) {
        change.put(PREVIOUS, former);
    }
    change.remove(PENDING);
    change.settled_from = Some(content.resource_version.clone());
    Ok(change)
}

/// Changes no value: a password that was in force in the former version is in force in the new one.
fn keeping_change(content: &Content) -> SecretChange {
    SecretChange {
        settled_from: is_settled(content).then(|| content.resource_version.clone()),
        rotated_at: rotated_at(content),
        ..SecretChange::default()
    }
}

impl GeneratedSecret<'_> {
    /// Writes the Secret, with its owner, labels and annotations. Returns its metadata.
    ///
    /// # Errors
    /// See [`SecretNotWritten`].
    pub async fn write(&self, chore: &Chore) -> Result<LoginMetadata, SecretNotWritten> {
        let managed = self.login.managed.as_ref().ok_or(SecretNotWritten::Stale)?;
        let (found, mut change) = match chore {
            Chore::Generate => (None, initial_change(self.has_server)),
            Chore::Renew { version } => {
                self.change(managed, version, |it| Ok(rotation_change(it)))
                    .await?
            }
            Chore::Settle { version } => self.change(managed, version, settling_change).await?,
            Chore::Keep { version } => {
                self.change(managed, version, |it| Ok(keeping_change(it)))
                    .await?
            }
            Chore::Connect(_) => return Err(SecretNotWritten::Stale),
        };
        if !matches!(chore, Chore::Keep { .. }) {
            change.rotated_at = Some(self.now);
            if let Some(name) = self.username {
                change.put(USERNAME, name);
            }
        }
        let version = self.secrets.write(managed, found.as_ref(), &change).await?;
        Ok(self.login.metadata(managed, &version, change.rotated_at))
    }

    /// The current Secret, if it belongs to the Instance and has the version that the plan is based on, and its change.
    async fn change(
        &self,
        managed: &ManagedSecret<'_>,
        version: &str,
        change: impl FnOnce(&Content) -> Result<SecretChange, SecretNotWritten>,
    ) -> Result<(Option<Content>, SecretChange), SecretNotWritten> {
        let read = self.login.read_version(self.secrets.client, version).await;
        let content = read.map_err(SecretNotWritten::unread)?;
        let content = content.filter(|it| managed.conflict(managed.ownership(it)).is_none());
        let content = content.ok_or(SecretNotWritten::Stale)?;
        let change = change(&content)?;
        Ok((Some(content), change))
    }
}
