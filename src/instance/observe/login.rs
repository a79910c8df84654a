//! Reads the login for a create, a reinstall or a password change.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{KeyLoginPassword, PasswordSpecialCharacters, SecretKeyRef};
use crate::cloud::{KeyId, ServerLogin, password};
use crate::instance::context::Context;
use crate::instance::facts::Facts;
use crate::instance::login::{Credentials, Generated, LoginFact, named_version};
use crate::instance::managed_secrets;
use crate::instance::managed_secrets::ownership::{Managed, Ownership};
use crate::session;
use crate::session::{AccountSession, Content, SecretProblem, read_key};
use rand::RngExt;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

/// Reads the login that the spec names. `key`: the key pair, if the spec's reference to one has been resolved.
pub(super) async fn read(
    context: &Context,
    facts: &Facts,
    key: Option<String>,
    session: &AccountSession,
) -> LoginFact {
    if facts.spec.login.ssh_key.is_some() {
        let Some(key) = key else {
            // The plan has the key pair resolved first.
            return LoginFact::Unread("spec.login.sshKey is not looked up yet".to_owned());
        };
        let password = match session.key_login_password {
            KeyLoginPassword::Omit => None,
            KeyLoginPassword::Empty => Some(SecretString::from("")),
            KeyLoginPassword::Random => Some(password::generate()),
        };
        let login = ServerLogin::Key {
            key: KeyId::from(key),
            password,
        };
        return LoginFact::Ready(Credentials {
            login,
            secret: None,
            digest: None,
            generated: None,
        });
    }
    if let Some((managed, reference)) = Managed::login(facts) {
        return generated(context, facts, &managed, &reference, session).await;
    }
    let Some(reference) = &facts.spec.login.password_secret_ref else {
        let message = "spec.login names neither passwordSecretRef nor sshKey nor generate: set exactly one of them";
        return LoginFact::Problem(Readiness::stalled(Reason::LoginSecretNotFound, message));
    };
    match read_key(&context.client, &facts.key.namespace, reference).await {
        Ok((password, version)) => {
            let specials = session.password_special_characters();
            judged(
                reference,
                &reference.key,
                password,
                specials,
                &version,
                None,
            )
        }
        Err(problem) => of_secret(&problem, &reference.key),
    }
}

/// The login with a password that was read under this key, if it follows the password rules.
fn judged(
    reference: &SecretKeyRef,
    key: &str,
    password: SecretString,
    specials: PasswordSpecialCharacters,
    version: &str,
    generated: Option<Generated>,
) -> LoginFact {
    match password::broken_rule(password.expose_secret(), specials) {
        None => LoginFact::Ready(Credentials {
            digest: Some(digest(password.expose_secret())),
            login: ServerLogin::Password(password),
            secret: Some(named_version(reference, version)),
            generated,
        }),
        Some(rule) => LoginFact::Problem(Readiness::stalled(
            Reason::LoginPasswordInvalid,
            format!(
                "the password under key {key} of Secret {} {rule}",
                reference.name
            ),
        )),
    }
}

/// Reads the Secret that the operator makes, unless it belongs to another owner.
async fn generated(
    context: &Context,
    facts: &Facts,
    managed: &Managed<'_>,
    reference: &SecretKeyRef,
    session: &AccountSession,
) -> LoginFact {
    let specials = session.password_special_characters();
    match session::read(&context.client, &facts.key.namespace, &managed.name).await {
        Ok(content) => of_generated(content, facts, managed, reference, specials),
        Err(SecretProblem::NoSecret(_)) => LoginFact::Missing,
        Err(problem) => of_secret(&problem, &reference.key),
    }
}

/// The password that the server should have: the pending one, unless a user has put another one under `password` since.
fn of_generated(
    mut content: Content,
    facts: &Facts,
    managed: &Managed<'_>,
    reference: &SecretKeyRef,
    specials: PasswordSpecialCharacters,
) -> LoginFact {
    let remedy = "name another one in spec.login.generate.secretName, or use this one by spec.login.passwordSecretRef";
    let whose = managed.ownership(&content, facts);
    let message = managed.not_ours(whose, facts, remedy);
    match whose {
        Ownership::Ours => {}
        Ownership::Unowned => {
            return LoginFact::Unowned(named_version(reference, &content.version()));
        }
        Ownership::Former => {
            let readiness = Readiness::reconciling(Reason::SecretNameConflict, message);
            return LoginFact::Problem(readiness);
        }
        Ownership::Free | Ownership::Foreign => {
            return LoginFact::Problem(Readiness::stalled(Reason::SecretNameConflict, message));
        }
    }
    let version = content.version();
    let key = managed_secrets::wanted_key(&content);
    let generated = Generated {
        is_settled: managed_secrets::is_settled(&content),
        settled_from: managed_secrets::settled_from(&content)
            .map(|version| named_version(reference, &version)),
    };
    match content.take(&managed.name, key) {
        Ok(password) => judged(
            reference,
            key,
            password,
            specials,
            &version,
            Some(generated),
        ),
        Err(problem) => of_secret(&problem, key),
    }
}

/// The meaning of a Secret that yields no password, with the remedy.
fn of_secret(problem: &SecretProblem, key: &str) -> LoginFact {
    let missing = |remedy: &str| {
        let message = format!("{problem}: {remedy}");
        LoginFact::Problem(Readiness::reconciling(Reason::LoginSecretNotFound, message))
    };
    match problem {
        SecretProblem::NoSecret(_) => missing(&format!(
            "create it with the login password under key {key}"
        )),
        SecretProblem::NoKey { .. } | SecretProblem::Empty { .. } => {
            missing("put the login password there")
        }
        SecretProblem::NoName(_) => LoginFact::Problem(Readiness::stalled(
            Reason::LoginSecretNotFound,
            format!("{problem}: mend the name of the Secret in spec.login"),
        )),
        SecretProblem::NotText { .. } => LoginFact::Problem(Readiness::stalled(
            Reason::LoginPasswordInvalid,
            format!("{problem}: put the login password there as plain text"),
        )),
        SecretProblem::Unread { .. } => LoginFact::Unread(problem.to_string()),
    }
}

/// Half of a digest is enough to show whether two passwords are the same. Only this process can use it, since the digest is keyed
/// with a random value that is never written anywhere.
fn digest(password: &str) -> [u8; 16] {
    static KEY: LazyLock<[u8; 32]> = LazyLock::new(|| rand::rng().random());
    let mut hash = Sha256::new();
    hash.update(*KEY);
    hash.update(password.as_bytes());
    let whole: [u8; 32] = hash.finalize().into();
    std::array::from_fn(|n| whole[n])
}
