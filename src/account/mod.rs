//! The reconcile of an Account: its token, its session, its readiness, and the release of late servers, which are those
//! of deleted Instances.

mod context;
mod events;
mod late;
mod limits;
mod observe;
mod probe;
mod problem;
mod report;
mod times;
mod zones;

pub use context::{AccountContext, AccountMemories};

use crate::api::Account;
use crate::api::conditions::{READY, Readiness, Reason};
use crate::cloud::AccountHealth;
use crate::runtime::queue::{Flow, Priority, RECONCILE_LIMIT};
use crate::runtime::watch::ObjectKey;
use crate::session::{AccountSession, tls_secrets};
use context::AccountMemory;
use kube::ResourceExt;
use observe::token_secret;
use problem::Usability;
use std::time::Duration;
use tokio::time::Instant;

/// Reconciles an Account. Returns the time until the next reconcile.
pub async fn reconcile(context: &AccountContext, account: &Account) -> Duration {
    let reconcile_ends = Instant::now() + RECONCILE_LIMIT;
    let key = ObjectKey::of(account);
    let observed = observe::observe(context, account, &key).await; // reads
    if observe::is_outdated(context, account, &key, &observed).await {
        return times::OUTDATED_RECHECK;
    }
    let (readiness, again) = plan(context, account, &key, &observed); // decides, and updates this process's memory of the Account
    act(context, account, &key, &observed, reconcile_ends).await; // installs or withdraws the session; releases late servers
    match report::report(context, account, &key, &observed, &readiness).await {
        Ok(wait) => wait.map_or(again, |wait| again.min(wait)),
        Err(error) => {
            tracing::warn!(namespace = key.namespace, name = key.name, %error, "status not written");
            if error.is_overtaken() {
                return again.min(times::RETRY_MIN);
            }
            again
        }
    }
}

/// Derives the readiness from the observation, and the time until the next reconcile.
fn plan(
    context: &AccountContext,
    account: &Account,
    key: &ObjectKey,
    observed: &Usability,
) -> (Readiness, Duration) {
    match observed {
        Usability::Usable(session) => {
            let usable_since = context.memories.update(key, AccountMemory::mark_usable);
            let trouble = session.shared.client.health().trouble();
            let again = trouble.map_or(times::RESYNC_INTERVAL, |_| times::FAILED_CALL_RECHECK);
            (readiness_of_usable(account, session, usable_since), again)
        }
        Usability::Unusable(problem, _) => {
            let (reason, message) = (problem.reason, problem.message.clone());
            let memories = &context.memories;
            memories.update(key, |memory| memory.mark_unusable(reason));
            let readiness = match reason {
                Reason::EndpointInvalid | Reason::EndpointNotAllowed | Reason::AddressRefused => {
                    Readiness::stalled(reason, message)
                }
                _ => Readiness::reconciling(reason, message),
            };
            (readiness, retry_after_problem(context, key, reason))
        }
    }
}

/// The readiness of a usable Account. It is not Ready if the service refuses some calls because of the account's status there.
fn readiness_of_usable(
    account: &Account,
    session: &AccountSession,
    usable_since: Instant,
) -> Readiness {
    let message = match session.shared.client.health().account() {
        AccountHealth::Abnormal(refused)
            if refused.at.elapsed() < times::ACCOUNT_STATUS_REFUSAL_VALID_FOR =>
        {
            let (what, message) = (refused.operation, refused.message);
            Some(format!(
                "the service refuses {what} for this account ({message}): settle the account's status at the service. The operator \
                 retries. Other calls continue"
            ))
        }
        // No create was accepted and no operation was refused yet, as after a restart: keep the message that status shows.
        AccountHealth::Unknown
            if usable_since.elapsed() < times::ACCOUNT_STATUS_REFUSAL_VALID_FOR =>
        {
            let reason = Reason::AccountNotNormal.as_str();
            let mut conditions = account.status.iter().flat_map(|status| &status.conditions);
            let former = conditions.find(|it| it.type_ == READY && it.reason == reason);
            former.map(|former| former.message.clone())
        }
        AccountHealth::Abnormal(_) | AccountHealth::Unknown | AccountHealth::Normal => None,
    };
    match message {
        Some(message) => Readiness::reconciling(Reason::AccountNotNormal, message),
        None => Readiness::ready(
            Reason::Available,
            "the service answers and accepts the token",
        ),
    }
}

/// Returns the wait before an unusable Account is reconciled again, and advances the backoff. The wait counts from the last probe,
/// so that neither wake-ups in between nor a probe that waits long for an answer delay the next probe.
fn retry_after_problem(context: &AccountContext, key: &ObjectKey, reason: Reason) -> Duration {
    let pause = || {
        let pause = context.memories.update(key, |memory| memory.backoff.fail());
        pause.min(times::UNREACHABLE_RETRY_MAX)
    };
    let wait = match reason {
        Reason::TokenRefused => times::TOKEN_REFUSED_RETRY,
        Reason::ServiceUnreachable | Reason::RateLimited | Reason::AccountNotNormal => pause(),
        // No probe comes before these reads, so the whole pause counts from now.
        Reason::SecretReadFailed | Reason::ConfigMapReadFailed => return pause(),
        // Most other problems end with a change that the operator watches. ConfigMaps and the addresses of host names are not
        // watched, so each reconcile reads them again.
        _ => return times::RESYNC_INTERVAL,
    };
    let probed = context.memories.get(key).probed;
    let since = probed.map_or(Duration::ZERO, |(at, _)| at.elapsed());
    wait.saturating_sub(since).max(times::RETRY_MIN)
}

/// Installs or withdraws the account session, and wakes the Instances if that changed anything. With a usable Account, also copies
/// its token if a release may need it, and releases late servers.
async fn act(
    context: &AccountContext,
    account: &Account,
    key: &ObjectKey,
    observed: &Usability,
    reconcile_ends: Instant,
) {
    let changed = match observed {
        Usability::Usable(session) => context.sessions.install(key, session.clone()),
        Usability::Unusable(problem, session) => {
            if let Some(session) = session {
                context.sessions.keep_for_deletion(key, session.clone());
            }
            context.sessions.mark_unusable(key, problem.clone())
        }
    };
    if changed {
        (context.wake_instances)(key);
    }
    if let Usability::Usable(session) = observed {
        if context.sessions.owners().is_needed_for_release(key) {
            context.sessions.copy_token(key, session).await; // follows a new token, and retries a copy that failed
        }
        late::release_all(context, account, key, session, reconcile_ends).await;
    }
}

/// The names of an Account's Secrets, for its token and for TLS.
pub fn secret_names(account: &Account) -> impl Iterator<Item = String> {
    let for_tls = tls_secrets(&account.spec).map(ToOwned::to_owned);
    std::iter::once(token_secret(account).name.clone()).chain(for_tls)
}

/// The queue's flow to which a reconcile belongs, and its priority as far as the object shows it. Each Account has its own flow.
pub fn flow(account: &Account) -> (Flow, Priority) {
    let flow = Flow {
        namespace: account.namespace().unwrap_or_default().into(),
        account: account.name_any().into(),
    };
    let observed = account.status.as_ref();
    let observed = observed.map(|status| status.observed_generation);
    let priority = match observed.is_some() && observed == account.metadata.generation {
        true => Priority::Resync,
        false => Priority::Change,
    };
    (flow, priority)
}
