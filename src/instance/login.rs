//! The login of a server that is about to be bought, reinstalled, or given another password.

use super::Context;
use super::facts::Facts;
use crate::api::conditions::{Reason, Verdict};
use crate::api::{KeyLoginPassword, SecretKeyRef};
use crate::cloud::{KeyId, Login, password};
use crate::session::{Seat, SecretProblem, read_key};
use rand::RngExt;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

/// What is known of the login.
#[derive(Clone, Debug)]
pub enum LoginFact {
    /// Nobody asked.
    NotAsked,
    /// It can be used.
    Ready(Credentials),
    /// It cannot be used.
    Problem(Verdict),
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
    pub digest: Option<[u8; 32]>,
}

/// Reads the login that the spec names.
pub(super) async fn read(context: &Context, facts: &Facts, seat: &Seat) -> LoginFact {
    if let Some(key) = &facts.spec.login.ssh_key {
        let password = match seat.key_login_password {
            KeyLoginPassword::Omit => None,
            KeyLoginPassword::Empty => Some(SecretString::from("")),
        };
        let login = Login::Key {
            key: KeyId::from(key.id.as_str()),
            password,
        };
        return LoginFact::Ready(Credentials {
            login,
            secret: None,
            digest: None,
        });
    }
    let Some(reference) = &facts.spec.login.password_secret_ref else {
        let message =
            "spec.login names neither passwordSecretRef nor sshKey: set exactly one of them";
        return LoginFact::Problem(Verdict::stalled(Reason::LoginSecretNotFound, message));
    };
    match read_key(&context.client, &facts.key.namespace, reference).await {
        Ok((password, version)) => match password::broken_rule(password.expose_secret()) {
            None => LoginFact::Ready(Credentials {
                digest: Some(digest(password.expose_secret())),
                login: Login::Password(password),
                secret: Some(named_version(reference, &version)),
            }),
            Some(rule) => LoginFact::Problem(Verdict::stalled(
                Reason::LoginPasswordInvalid,
                format!(
                    "the password under key {} of Secret {} {rule}",
                    reference.key, reference.name
                ),
            )),
        },
        Err(problem) => of_secret(&problem, &reference.key),
    }
}

/// What a Secret that gives no password means, and what to do about it.
fn of_secret(problem: &SecretProblem, key: &str) -> LoginFact {
    let missing = |remedy: &str| {
        let message = format!("{problem}: {remedy}");
        LoginFact::Problem(Verdict::reconciling(Reason::LoginSecretNotFound, message))
    };
    match problem {
        SecretProblem::NoSecret(_) => missing(&format!(
            "create it with the login password under key {key}"
        )),
        SecretProblem::NoKey { .. } | SecretProblem::Empty { .. } => {
            missing("put the login password there")
        }
        SecretProblem::NotText { .. } => LoginFact::Problem(Verdict::stalled(
            Reason::LoginPasswordInvalid,
            format!("{problem}: put the login password there as plain text"),
        )),
        SecretProblem::Unread { .. } => LoginFact::Unread(problem.to_string()),
    }
}

/// A version of a Secret, with its name and the key in it: another key of the same Secret is another password.
pub(super) fn named_version(reference: &SecretKeyRef, version: &str) -> String {
    format!("{}/{}/{version}", reference.name, reference.key)
}

/// A digest that tells whether two passwords are the same, to this process and to nobody else: it is keyed by a random
/// word that is never written anywhere.
fn digest(password: &str) -> [u8; 32] {
    static KEY: LazyLock<[u8; 32]> = LazyLock::new(|| rand::rng().random());
    let mut hash = Sha256::new();
    hash.update(*KEY);
    hash.update(password.as_bytes());
    hash.finalize().into()
}
