//! Whether an Account can be used, and the problems if not: reason, message and remedy.

use crate::api::conditions::Reason;
use crate::api::{Account, AccountSpec};
use crate::cloud::{BuildError, EndpointPattern, Error, Target};
use crate::session::{AccountSession, Problem, SecretProblem, UseProblem};
use std::sync::Arc;

/// Whether the Account can be used.
pub(super) enum Usability {
    Usable(Arc<AccountSession>),
    /// With the account session, if there is one: deletions may continue with it.
    Unusable(Problem, Option<Arc<AccountSession>>),
}

/// The Secret yields no token.
pub(super) fn no_token(problem: &UseProblem, account: &Account) -> Problem {
    let key = &account.spec.token_secret_ref.key;
    let namespace = account.metadata.namespace.as_deref().unwrap_or_default();
    let problem = match problem {
        UseProblem::Secret(problem) => problem,
        UseProblem::Refused(refusal) => return refusal.problem(),
    };
    let (reason, remedy) = match problem {
        SecretProblem::NoSecret(_) => {
            let message = format!(
                "{problem} in namespace {namespace}: create it with the token under key {key}"
            );
            return Problem::new(Reason::TokenNotFound, message);
        }
        SecretProblem::InvalidName(_) => (Reason::TokenNotFound, ": fix spec.tokenSecretRef.name"),
        SecretProblem::NoKey { .. } | SecretProblem::Empty { .. } => {
            (Reason::TokenNotFound, ": put the token there")
        }
        SecretProblem::NotText { .. } => (Reason::TokenInvalid, ": put the token there"),
        SecretProblem::Unread { .. } => (Reason::SecretReadFailed, ""),
    };
    Problem::new(reason, format!("{problem}{remedy}"))
}

/// No client can be made from the Account.
pub(super) fn no_client(error: &BuildError, account: &Account) -> Problem {
    let spec = &account.spec;
    let (reason, remedy) = match error {
        BuildError::Endpoint(_) => {
            let remedy = format!("fix spec.endpoint ({})", spec.endpoint);
            (Reason::EndpointInvalid, remedy)
        }
        BuildError::NotAllowed => (Reason::EndpointNotAllowed, allow(spec, Target::Endpoint)),
        BuildError::ProxyNotAllowed => (Reason::EndpointNotAllowed, allow(spec, Target::Proxy)),
        BuildError::Address(target, _) => (Reason::AddressRefused, allow(spec, *target)),
        // The address itself may contain a password.
        BuildError::Proxy(_) => (Reason::EndpointInvalid, "fix spec.proxy.url".to_owned()),
        BuildError::Tls(_) => {
            let remedy = "fix the objects that spec.tls names";
            (Reason::CaBundleInvalid, remedy.to_owned())
        }
        BuildError::Path(_) => (Reason::EndpointInvalid, "fix spec.paths".to_owned()),
        BuildError::Token => (Reason::TokenInvalid, put_token(account)),
        BuildError::Http(_) => (
            Reason::ServiceUnreachable,
            "the operator retries".to_owned(),
        ),
    };
    Problem::new(reason, format!("{error}: {remedy}"))
}

/// The problem that the error of a probe shows; None if the error is inconclusive.
pub(super) fn answered(error: &Error, account: &Account) -> Option<Problem> {
    let (reason, remedy) = if error.is_unauthorized() {
        (Reason::TokenRefused, put_token(account))
    } else if error.is_account_not_normal() {
        let remedy = "settle the account's status at the service";
        (Reason::AccountNotNormal, remedy.to_owned())
    } else if error.refused_address().is_some() {
        // With a proxy, the proxy's name is the only one that this process resolves.
        let target = match account.spec.proxy {
            Some(_) => Target::Proxy,
            None => Target::Endpoint,
        };
        (Reason::AddressRefused, allow(&account.spec, target))
    } else if error.is_rate_limited() {
        let remedy = "requests wait for the time that it names, or for a second to a minute if it names none, and then continue";
        (Reason::RateLimited, remedy.to_owned())
    } else {
        return error.lacks_memory().then(not_sent);
    };
    Some(Problem::new(reason, format!("{error}: {remedy}")))
}

/// The probe was not sent.
pub(super) fn not_sent() -> Problem {
    let message = "the request limit, a pause that the service requested, or other answers in memory left no room for a request \
                   for a while; the operator continues automatically";
    Problem::new(Reason::RateLimited, message)
}

fn put_token(account: &Account) -> String {
    let reference = &account.spec.token_secret_ref;
    let (name, key) = (&reference.name, &reference.key);
    format!("put a valid token into Secret {name} under key {key}")
}

/// The remedy for an endpoint or proxy that is not allowed, or for an internal address, which only a pattern with exactly that
/// host allows. Users paste the flag into a shell or a manifest: single quotes protect it in both. An address gets no flag if it
/// would allow more than itself, or if a manifest expands it.
fn allow(spec: &AccountSpec, target: Target) -> String {
    let (field, address) = match (target, &spec.proxy) {
        (Target::Proxy, Some(proxy)) => ("spec.proxy.url", &proxy.url),
        (Target::Proxy, None) | (Target::Endpoint, _) => ("spec.endpoint", &spec.endpoint),
    };
    match address.trim().parse::<EndpointPattern>() {
        Ok(pattern) if !address.contains([',', '*', '$']) => format!(
            "fix {field}, or have the operator's administrator add '--allowed-endpoint={pattern}', and one for each other endpoint in use"
        ),
        _ => format!("fix {field}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_flag_in_a_remedy_allows_the_endpoint_and_nothing_else() {
        for (endpoint, remedy) in [
            (
                "https://cloud.example/a;b",
                "fix spec.endpoint, or have the operator's administrator add '--allowed-endpoint=https://cloud.example/a;b', and one for each other endpoint in use",
            ),
            ("https://cloud.example/$(id)", "fix spec.endpoint"),
            (
                "https://cloud.example/a,http://10.0.0.1",
                "fix spec.endpoint",
            ),
            ("https://*.example", "fix spec.endpoint"),
            ("https://cloud.example/'", "fix spec.endpoint"),
        ] {
            let spec = json!({"endpoint": endpoint, "tokenSecretRef": {"name": "t", "key": "t"}});
            let spec = serde_json::from_value(spec).unwrap();
            assert_eq!(allow(&spec, Target::Endpoint), remedy);
        }
    }
}
