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
    CURRENT, LoginMetadata, LoginSecret, PENDING, USERNAME, is_settled, rotated_at, wanted_key,
};
use super::ownership::ManagedSecret;
use super::plan::Chore;
use super::writing::{SecretChange, SecretClient, SecretNotWritten};
use crate::api::PASSWORD;
use crate::cloud::password;
use crate::session::{Content, SecretProblem};
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};

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
    change.settled_from = Some(content.resource_version.clone());
    Some(change)
}

/// The values stay, so a password that was in force in the former version is in force in the new one.
fn kept(content: &Content) -> SecretChange {
    SecretChange {
        settled_from: is_settled(content).then(|| content.resource_version.clone()),
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
        let version = match chore {
            Chore::Connect(_) => return Err(SecretNotWritten::Stale),
            Chore::Generate => {
                let change = self.in_force(first(&password::generate(), self.has_server));
                let version = self.secrets.create(managed, &change).await?;
                return Ok(self.login.metadata(managed, &version, change.rotated_at));
            }
            Chore::Renew { version } | Chore::Settle { version } | Chore::Keep { version } => {
                version
            }
        };
        let content = self.read(managed, version).await?;
        let change = match chore {
            Chore::Renew { .. } => SecretChange {
                rotated_at: Some(self.now),
                ..renewed(&content)
            },
            Chore::Settle { .. } => {
                self.in_force(settled(&content).ok_or(SecretNotWritten::Stale)?)
            }
            Chore::Keep { .. } | Chore::Generate | Chore::Connect(_) => kept(&content),
        };
        let rotated_at = change.rotated_at.or_else(|| rotated_at(&content));
        let version = self.secrets.patch(managed, &content, &change).await?;
        Ok(self.login.metadata(managed, &version, rotated_at))
    }

    /// The current Secret, if it belongs to the Instance and has the version that the plan is based on.
    async fn read(
        &self,
        managed: &ManagedSecret<'_>,
        version: &str,
    ) -> Result<Content, SecretNotWritten> {
        match self.login.read(self.secrets.client).await {
            Ok(content)
                if self.login.version(&content) == version
                    && managed.conflict(managed.ownership(&content)).is_none() =>
            {
                Ok(content)
            }
            Err(SecretProblem::Unread { source, .. }) => {
                Err(SecretNotWritten::of(&managed.name, &source))
            }
            Ok(_) | Err(_) => Err(SecretNotWritten::Stale),
        }
    }

    /// The change, with the account of the login and since when its password is in force.
    fn in_force(&self, mut change: SecretChange) -> SecretChange {
        change.rotated_at = Some(self.now);
        if let Some(name) = self.username {
            change.put(USERNAME, name);
        }
        change
    }
}
