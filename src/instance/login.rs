//! The login of a server that is about to be bought.

use super::Context;
use super::facts::Facts;
use crate::api::KeyLoginPassword;
use crate::api::conditions::{Reason, Verdict};
use crate::cloud::{KeyId, Login};
use crate::session::{Seat, SecretProblem, read_key};
use secrecy::{ExposeSecret, SecretString};

/// Special characters of which a password has exactly one (specification section 8).
const SPECIAL: &str = "()~!@#$*-+={}[]:;,.?/";

/// What is known of the login.
#[derive(Clone, Debug)]
pub enum LoginFact {
    /// Nobody asked.
    NotAsked,
    /// It can be used.
    Ready(Login),
    /// It cannot be used.
    Problem(Verdict),
    /// Its Secret could not be read.
    Unread(String),
}

/// Reads the login that the spec names.
pub(super) async fn read(context: &Context, facts: &Facts, seat: &Seat) -> LoginFact {
    if let Some(key) = &facts.spec.login.ssh_key {
        let password = match seat.key_login_password {
            KeyLoginPassword::Omit => None,
            KeyLoginPassword::Empty => Some(SecretString::from("")),
        };
        return LoginFact::Ready(Login::Key {
            key: KeyId::from(key.id.as_str()),
            password,
        });
    }
    let Some(reference) = &facts.spec.login.password_secret_ref else {
        let message =
            "spec.login names neither passwordSecretRef nor sshKey: set exactly one of them";
        return LoginFact::Problem(Verdict::stalled(Reason::LoginSecretNotFound, message));
    };
    match read_key(&context.client, &facts.key.namespace, reference).await {
        Ok((password, _)) => match broken_rule(password.expose_secret()) {
            None => LoginFact::Ready(Login::Password(password)),
            Some(rule) => LoginFact::Problem(Verdict::stalled(
                Reason::LoginPasswordInvalid,
                format!(
                    "the password under key {} of Secret {} {rule}",
                    reference.key, reference.name
                ),
            )),
        },
        Err(problem @ SecretProblem::NotText { .. }) => LoginFact::Problem(Verdict::stalled(
            Reason::LoginPasswordInvalid,
            problem.to_string(),
        )),
        Err(problem @ SecretProblem::Unread { .. }) => LoginFact::Unread(problem.to_string()),
        Err(problem) => LoginFact::Problem(Verdict::reconciling(
            Reason::LoginSecretNotFound,
            format!(
                "{problem}; create it with the login password under key {}",
                reference.key
            ),
        )),
    }
}

/// The first rule of the specification's section 8 that a password breaks, in words that do not tell the password.
fn broken_rule(password: &str) -> Option<&'static str> {
    let count = |test: fn(char) -> bool| password.chars().filter(|&c| test(c)).count();
    let special = count(|c| SPECIAL.contains(c));
    let plain = count(|c| c.is_ascii_alphanumeric());
    let length = password.chars().count();
    if !(8..=30).contains(&length) {
        Some("must have 8 to 30 characters")
    } else if count(|c| c.is_ascii_uppercase()) == 0 {
        Some("needs at least one of A-Z")
    } else if count(|c| c.is_ascii_lowercase()) == 0 {
        Some("needs at least one of a-z")
    } else if count(|c| c.is_ascii_digit()) == 0 {
        Some("needs at least one digit")
    } else if special != 1 {
        Some("needs exactly one special character, of ( ) ~ ! @ # $ * - + = { } [ ] : ; , . ? /")
    } else if plain + special != length {
        Some(
            "has a character that is neither a letter A-Z a-z, a digit, nor one of ( ) ~ ! @ # $ * - + = { } [ ] : ; , . ? /",
        )
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_the_specification() {
        for (password, verdict) in [
            ("Abcdef1!", None),
            ("Abc1!", Some("must have 8 to 30 characters")),
            (
                "Abcdefghijklmnopqrstuvwxyz12345!",
                Some("must have 8 to 30 characters"),
            ),
            ("abcdef1!", Some("needs at least one of A-Z")),
            ("ABCDEF1!", Some("needs at least one of a-z")),
            ("Abcdefg!", Some("needs at least one digit")),
        ] {
            assert_eq!(broken_rule(password), verdict, "{password}");
        }
        assert!(
            broken_rule("Abcdef12")
                .unwrap()
                .starts_with("needs exactly one special")
        );
        assert!(
            broken_rule("Abcdef1!!")
                .unwrap()
                .starts_with("needs exactly one special")
        );
        assert!(
            broken_rule("Abcdef1! x")
                .unwrap()
                .starts_with("has a character")
        );
    }
}
