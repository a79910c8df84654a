//! The login for a create, a reinstall or a password change.

use crate::api::SecretKeyRef;
use crate::api::conditions::Readiness;
use crate::cloud::ServerLogin;

/// The result of reading the login.
#[derive(Clone, Debug)]
pub enum LoginFact {
    NotAsked,
    Ready(Credentials),
    /// The Secret that the operator should create does not exist.
    Missing,
    /// The Secret of this version was made for this Instance and has no living owner: it was restored from a backup.
    Unowned(String),
    /// It cannot be used.
    Problem(Readiness),
    Unread(String),
}

/// A login in the form that the service accepts.
#[derive(Clone, Debug)]
pub struct Credentials {
    pub login: ServerLogin,
    /// The Secret and its version (see [`named_version`]), with a password.
    pub secret: Option<String>,
    /// A digest of the password that is meaningful in this process only.
    pub digest: Option<[u8; 16]>,
    /// The state of a Secret that the operator makes.
    pub generated: Option<Generated>,
}

impl Credentials {
    /// Whether this is a generated password that users should not log in with yet.
    pub fn is_waiting(&self) -> bool {
        let generated = self.generated.as_ref();
        generated.is_some_and(|generated| !generated.is_settled)
    }
}

/// The state of a Secret that the operator makes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generated {
    /// The login's password is under `password` and is in force; none is pending.
    pub is_settled: bool,
    /// The version that it was settled from. If the Secret is settled, the password in that version is still in force.
    pub settled_from: Option<String>,
}

/// A version of a Secret with the Secret's name and the key in it: another key of the same Secret is another password.
pub(super) fn named_version(reference: &SecretKeyRef, version: &str) -> String {
    format!("{}/{}/{version}", reference.name, reference.key)
}
