//! The login of a server that is about to be bought, reinstalled, or given another password.

use crate::api::SecretKeyRef;
use crate::api::conditions::Readiness;
use crate::cloud::Login;

/// What is known of the login.
#[derive(Clone, Debug)]
pub enum LoginFact {
    /// Nobody asked.
    NotAsked,
    /// It can be used.
    Ready(Credentials),
    /// The Secret that the operator is to make does not exist.
    Missing,
    /// The Secret of this version was made for this Instance and is owned by no living one: a backup brought it back.
    Unowned(String),
    /// It cannot be used.
    Problem(Readiness),
    /// Its Secret could not be read.
    Unread(String),
}

/// A login as the service takes it.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// Key or password.
    pub login: Login,
    /// The Secret and its version (see [`named_version`]), with a password.
    pub secret: Option<String>,
    /// A digest of the password that means something in this process only.
    pub digest: Option<[u8; 16]>,
    /// How a Secret stands that the operator makes.
    pub generated: Option<Generated>,
}

impl Credentials {
    /// Whether this is a password of the operator that nobody is to log in with yet.
    pub fn is_waiting(&self) -> bool {
        let generated = self.generated.as_ref();
        generated.is_some_and(|generated| !generated.is_settled)
    }
}

/// How a Secret stands that the operator makes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generated {
    /// The password of the login is the one that stands under `password`, and beside it as the one in force; none waits.
    pub is_settled: bool,
    /// The version that it was settled from: what was in force then is in force now, if it is settled.
    pub settled_from: Option<String>,
}

/// A version of a Secret, with its name and the key in it: another key of the same Secret is another password.
pub(super) fn named_version(reference: &SecretKeyRef, version: &str) -> String {
    format!("{}/{}/{version}", reference.name, reference.key)
}
