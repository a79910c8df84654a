//! Observes whether an Account can be used: reads its Secrets and its ConfigMap if they may have changed, and probes the service
//! if necessary.

use super::context::AccountContext;
use super::problem::Usability;
use super::{probe, problem, times};
use crate::api::Account;
use crate::api::conditions::Reason;
use crate::cloud::Tls;
use crate::runtime::kubernetes::call;
use crate::runtime::watch::ObjectKey;
use crate::session::{
    AccountSession, Destination, MadeFrom, Problem, ServiceCredentials, bundle_version,
    names_config_map, read, read_tls, read_token, tls_version,
};
use kube::{Api, ResourceExt};
use std::sync::Arc;
use tokio::time::Instant;

pub(super) async fn observe(
    context: &AccountContext,
    account: &Account,
    key: &ObjectKey,
) -> Usability {
    match session(context, account, key).await {
        Ok(session) => probe::probe_session(context, account, key, session).await,
        Err(problem) => Usability::Unusable(problem, None),
    }
}

/// Whether the Account was edited or deleted since the version that was observed: the watches may show that a Secret is gone
/// before they show the edit that made it unnecessary. Reads from the apiserver only if no session could be made.
pub(super) async fn is_outdated(
    context: &AccountContext,
    account: &Account,
    key: &ObjectKey,
    observed: &Usability,
) -> bool {
    if !matches!(observed, Usability::Unusable(_, None)) {
        return false;
    }
    let api: Api<Account> = Api::namespaced(context.client.clone(), &key.namespace);
    match call("read the Account", api.get_metadata(&key.name)).await {
        Ok(now) => {
            let (now, shown) = (now.metadata, &account.metadata);
            (now.uid, now.generation) != (shown.uid.clone(), shown.generation)
        }
        Err(error) => error.is_not_found(),
    }
}

/// The current account session, or a new one if the Account or an object that it names changed.
async fn session(
    context: &AccountContext,
    account: &Account,
    key: &ObjectKey,
) -> Result<Arc<AccountSession>, Problem> {
    let secret = match context.secrets.of(&token_secret(account)) {
        Some(version) => version,
        // The watches may show an edited Account before the new Secret that it names.
        None => read(&context.client, &key.namespace, &token_secret(account).name)
            .await
            .map(|content| content.version())
            .map_err(|problem| problem::no_token(&problem.into(), account))?,
    };
    let known = |tls: &str| {
        let from = made_from(account, &secret, tls);
        context.sessions.made_from(key, &account.spec, &from)
    };
    let bundle = context.memories.get(key).bundle;
    let read_last = bundle.as_ref().map(|(_, version)| version.as_str());
    let is_fresh = bundle
        .as_ref()
        .is_some_and(|(at, _)| at.elapsed() < times::BUNDLE_REREAD);
    let (secrets, spec) = (&context.secrets, &account.spec);
    let watched = tls_version(secrets, &key.namespace, spec, read_last);
    let former = watched.as_deref().and_then(known);
    if let Some(session) = former
        .clone()
        .filter(|_| is_fresh || !names_config_map(spec))
    {
        return Ok(session);
    }
    // Read the objects of `spec.tls` now: the check for consent needs the exact version that is used, not one that a watch showed.
    let destination = context.sessions.destination(spec);
    let destination = destination.map_err(|error| problem::no_client(&error, account))?;
    let read = read_tls(&context.client, &key.namespace, spec, &destination).await;
    let (tls, version) = match (read, former) {
        (Ok(read), _) => read,
        // A failing apiserver shows nothing about the bundle.
        (Err(problem), Some(former)) if problem.reason == Reason::ConfigMapReadFailed => {
            tracing::warn!(why = problem.message, "the former CA bundle stays in use");
            return Ok(former);
        }
        (Err(problem), _) => return Err(problem),
    };
    context.memories.update(key, |memory| {
        memory.bundle = Some((Instant::now(), bundle_version(&version).to_owned()));
    });
    if let Some(session) = known(&version) {
        return Ok(session);
    }
    let credentials = (tls, version.as_str());
    new_session(context, account, key, &destination, credentials).await
}

/// Reads the token, and makes an account session from it and from these TLS settings. Does not call the service.
async fn new_session(
    context: &AccountContext,
    account: &Account,
    key: &ObjectKey,
    destination: &Destination,
    (tls, tls_version): (Tls, &str),
) -> Result<Arc<AccountSession>, Problem> {
    let (reference, spec) = (&account.spec.token_secret_ref, &account.spec);
    let (token, secret) = read_token(&context.client, &key.namespace, reference, destination)
        .await
        .map_err(|error| problem::no_token(&error, account))?;
    let session = context
        .sessions
        .account_session(
            key,
            spec,
            &ServiceCredentials { token, tls },
            made_from(account, &secret, tls_version),
        )
        .map_err(|error| problem::no_client(&error, account))?;
    context.memories.update(key, |memory| {
        memory.probed = None;
        memory.problem = None;
    });
    Ok(session)
}

/// The origin of a session: the versions of token Secret and TLS objects, and this Account.
fn made_from(account: &Account, secret: &str, tls: &str) -> MadeFrom {
    MadeFrom {
        secret: secret.to_owned(),
        tls: tls.to_owned(),
        account: account.metadata.uid.clone().unwrap_or_default(),
    }
}

/// Name and namespace of an Account's token Secret.
pub(super) fn token_secret(account: &Account) -> ObjectKey {
    ObjectKey::new(
        &account.namespace().unwrap_or_default(),
        &account.spec.token_secret_ref.name,
    )
}
