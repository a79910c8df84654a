//! The login Secret that the operator makes, with the keys that make sure that no crash loses the password that the server has:
//!
//! | key | |
//! |---|---|
//! | `password` | the password to log in with. If a user puts another one there, the operator sets it on the server. |
//! | `current` | the password that the server is known to have: the same, except while an edit is being carried out |
//! | `pending` | the password being set on the server. It becomes `password` and `current` once the service reports it as set |
//! | `previous` | the former value of `current` |
//! | `username` | the login's account, once the server has reported it |
//!
//! No write overwrites a pending password, since the server may have it. It goes once the service reports a password as set.

use super::login::{
    CURRENT, LoginMetadata, LoginSecret, PENDING, is_settled, rotated_at, wanted_key,
};
use super::ownership::ManagedSecret;
use super::plan::Chore;
use super::writing::{SecretChange, SecretClient, SecretNotWritten};
use crate::api::PASSWORD;
use crate::api::names::{ROTATED_AT, SETTLED_FROM};
use crate::cloud::password;
use crate::session::{Content, SecretProblem};
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};

pub(super) const USERNAME: &str = "username";
const PREVIOUS: &str = "previous";

/// A login Secret that the operator makes, and the values that it is written with.
pub struct GeneratedSecret<'a> {
    pub secrets: SecretClient<'a>,
    pub login: &'a LoginSecret<'a>,
    pub has_server: bool,
    /// The account for logins that the service reports.
    pub username: Option<&'a str>,
    pub now: Timestamp,
}

/// A first password. A new server is bought with it. An existing server keeps another password until this one is set, which
/// [`Chore::Settle`] records.
pub(super) fn first(fresh: &SecretString, has_server: bool) -> SecretChange {
    let mut change = SecretChange::default();
    let keys: &[_] = match has_server {
        true => &[PENDING],
        false => &[PASSWORD, CURRENT],
    };
    for &key in keys {
        change.put(key, fresh.expose_secret());
    }
    change
}

/// Another password next to the one in force, or none if one is pending, since the server may have it already. Either way the
/// Secret gets a new version, which triggers setting the password.
fn renewed(content: &Content) -> SecretChange {
    let mut change = SecretChange::default();
    if is_settled(content) {
        change.put(PENDING, password::generate().expose_secret());
    }
    change
}

/// The password of this version is in force: from now on it is the one to log in with.
fn settled(content: &Content) -> Option<SecretChange> {
    let mut change = SecretChange::default();
    let in_force = content.text(wanted_key(content))?;
    change.put(PASSWORD, in_force);
    change.put(CURRENT, in_force);
    if let Some(former) = content.text(CURRENT).filter(|former| *former != in_force) {
        change.put(PREVIOUS, former);
    }
    change.removed.push(PENDING);
    Some(settled_from(content, change))
}

/// The values stay, so a password that was in force in the former version is in force in the new one.
fn kept(content: &Content) -> SecretChange {
    let change = SecretChange::default();
    match is_settled(content) {
        true => settled_from(content, change),
        false => change,
    }
}

fn settled_from(content: &Content, mut change: SecretChange) -> SecretChange {
    let from = content.resource_version.clone();
    change.annotations.push((SETTLED_FROM, from));
    change
}

impl GeneratedSecret<'_> {
    /// Writes the Secret, with its owner, labels and annotations. Returns its metadata.
    ///
    /// # Errors
    /// See [`SecretNotWritten`].
    pub async fn write(&self, chore: &Chore) -> Result<LoginMetadata, SecretNotWritten> {
        let managed = self.login.managed.as_ref().ok_or(SecretNotWritten::Stale)?;
        match chore {
            Chore::Connect(_) => Err(SecretNotWritten::Stale),
            Chore::Generate => {
                let change = self.with_account(first(&password::generate(), self.has_server));
                let version = self.secrets.create(managed, &self.dated(change)).await?;
                Ok(self.login.metadata(managed, &version, Some(self.now)))
            }
            Chore::Renew { version } => {
                self.change(managed, version, |content| {
                    Some(self.dated(renewed(content)))
                })
                .await
            }
            Chore::Settle { version } => {
                let settled = |content: &_| Some(self.dated(self.with_account(settled(content)?)));
                self.change(managed, version, settled).await
            }
            Chore::Keep { version } => {
                self.change(managed, version, |content| Some(kept(content)))
                    .await
            }
        }
    }

    /// Changes the Secret if it belongs to the Instance and has the version that the plan is based on.
    async fn change(
        &self,
        managed: &ManagedSecret<'_>,
        version: &str,
        change: impl FnOnce(&Content) -> Option<SecretChange>,
    ) -> Result<LoginMetadata, SecretNotWritten> {
        let content = match self.login.read(self.secrets.client).await {
            Ok(content) if self.login.version(&content) == version => content,
            Err(SecretProblem::Unread { source, .. }) => {
                return Err(SecretNotWritten::of(&managed.name, &source));
            }
            Ok(_) | Err(_) => return Err(SecretNotWritten::Stale),
        };
        if managed.conflict(managed.ownership(&content)).is_some() {
            return Err(SecretNotWritten::Stale);
        }
        let change = change(&content).ok_or(SecretNotWritten::Stale)?;
        let is_dated = change
            .annotations
            .iter()
            .any(|(name, _)| *name == ROTATED_AT);
        let rotated_at = match is_dated {
            true => Some(self.now),
            false => rotated_at(&content),
        };
        let version = self.secrets.patch(managed, &content, &change).await?;
        Ok(self.login.metadata(managed, &version, rotated_at))
    }

    fn dated(&self, mut change: SecretChange) -> SecretChange {
        change.annotations.push((ROTATED_AT, self.now.to_string()));
        change
    }

    fn with_account(&self, mut change: SecretChange) -> SecretChange {
        if let Some(name) = self.username {
            change.put(USERNAME, name);
        }
        change
    }
}
