//! Whether an Account can be used, and the remedies to report if not.

use crate::api::{Account, AccountSpec};
use crate::cloud::{EndpointPattern, Target};
use crate::runtime::watch::ObjectKey;
use crate::session::{AccountSession, Problem};
use kube::ResourceExt;
use std::sync::Arc;

/// Whether the account can be used.
#[derive(Debug)]
pub(super) enum Usable {
    Yes(Arc<AccountSession>),
    /// With the account session, if there is one: deletions may continue with it.
    No(Problem, Option<Arc<AccountSession>>),
}

/// The remedy for a proxy that is not allowed, or an internal address, which only a pattern with exactly that host allows.
pub(super) fn name_it(spec: &AccountSpec, target: Target) -> String {
    match (target, &spec.proxy) {
        (Target::Proxy, Some(proxy)) => match proxy.url.trim().parse::<EndpointPattern>() {
            Ok(proxy) => format!(
                "mend spec.proxy.url, or have whoever runs the operator add --allowed-endpoint={proxy}"
            ),
            Err(_) => "mend spec.proxy.url".to_owned(),
        },
        (Target::Proxy, None) | (Target::Endpoint, _) => allow(&spec.endpoint),
    }
}

pub(super) fn token_place(account: &Account) -> String {
    let reference = &account.spec.token_secret_ref;
    format!("Secret {} under key {}", reference.name, reference.key)
}

/// The remedy for an endpoint that is not allowed. Users paste the flag into a shell or a manifest, so an endpoint with special
/// characters gets no flag.
pub(super) fn allow(endpoint: &str) -> String {
    match endpoint.trim().parse::<EndpointPattern>() {
        Ok(endpoint) => format!(
            "mend spec.endpoint, or have whoever runs the operator add --allowed-endpoint={endpoint}"
        ),
        Err(_) => "mend spec.endpoint".to_owned(),
    }
}

/// Name and namespace of an Account's token Secret.
pub(super) fn token_secret(account: &Account) -> ObjectKey {
    ObjectKey::new(
        &account.namespace().unwrap_or_default(),
        &account.spec.token_secret_ref.name,
    )
}
