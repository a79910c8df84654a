//! The reconcile of an Account: its token, its session, its readiness, and the release of late servers.

mod context;
mod limits;
mod observe;
mod probe;
mod report;
mod standing;
mod tell;
mod times;
mod usable;
mod zones;

pub use context::{Context, Memories};

use crate::api::conditions::{Readiness, Reason};
use crate::api::{Account, Marker};
use crate::cloud::{CallPriority, Error, Place, ServerId};
use crate::runtime::events::EventNote;
use crate::runtime::queue::{ADMISSION, Flow, Priority, RECONCILE_LIMIT};
use crate::runtime::watch::ObjectKey;
use crate::session::{AccountSession, tls_secrets};

use kube::{Resource, ResourceExt};
use observe::Observation;
use std::time::Duration;
use tokio::time::Instant;
use usable::{Usable, token_secret};

/// Reconciles an Account. Returns the time until the next reconcile.
pub async fn reconcile(context: &Context, account: &Account) -> Duration {
    let reconcile_ends = Instant::now() + RECONCILE_LIMIT;
    let key = ObjectKey::of(account);
    let observed = observe::observe(context, account, &key).await; // reads
    if observe::is_outdated(context, account, &key, &observed).await {
        return times::OUTDATED_RECHECK;
    }
    let (readiness, again) = plan(context, account, &key, &observed); // decides, and updates the memory
    act(context, account, &key, &observed, reconcile_ends).await; // installs the account session; releases late servers
    match report::report(context, account, &key, &observed, &readiness).await {
        Ok(held) => held.map_or(again, |held| again.min(held)),
        Err(error) => {
            tracing::warn!(namespace = key.namespace, name = key.name, %error, "status not written");
            if error.is_overtaken() {
                return again.min(times::RETRY_MIN);
            }
            again
        }
    }
}

/// Derives the readiness from the observation, and when to reconcile again.
fn plan(
    context: &Context,
    account: &Account,
    key: &ObjectKey,
    observed: &Observation,
) -> (Readiness, Duration) {
    match &observed.usable {
        Usable::Yes(session) => {
            context.memories.update(key, |memory| {
                memory.backoff.reset();
                (memory.outage, memory.problem) = (None, None);
                memory.began.get_or_insert_with(Instant::now);
                memory.usable_since.get_or_insert_with(Instant::now);
            });
            let trouble = session.shared.client.health().trouble();
            let again = trouble.map_or(times::LOOKED_AT_AGAIN, |_| times::DOUBTFUL_RECHECK);
            let began = context.memories.get(key).began;
            let began = began.unwrap_or_else(Instant::now);
            let ready =
                Readiness::ready(Reason::Available, "the service answers and takes the token");
            (
                standing::judge(account, session, began).unwrap_or(ready),
                again,
            )
        }
        Usable::No(problem, _) => {
            context
                .memories
                .update(key, |memory| memory.is_unusable(problem.reason));
            let readiness = match problem.reason {
                Reason::EndpointInvalid | Reason::EndpointNotAllowed | Reason::AddressRefused => {
                    Readiness::stalled(problem.reason, problem.message.clone())
                }
                _ => Readiness::reconciling(problem.reason, problem.message.clone()),
            };
            (readiness, unusable_again(context, key, problem.reason))
        }
    }
}

/// The wait before an unusable Account is probed again. It counts from the last probe, so that neither wake-ups in between nor a
/// probe that waits long for an answer delay the next one.
fn unusable_again(context: &Context, key: &ObjectKey, reason: Reason) -> Duration {
    let probed = context.memories.get(key).probed;
    let since = probed.map_or(Duration::ZERO, |(at, _)| at.elapsed());
    let wait = match reason {
        Reason::TokenRefused => times::TOKEN_REFUSED_RETRY,
        // Only an event can fix these, and events are watched.
        Reason::TokenNotFound
        | Reason::TokenInvalid
        | Reason::SecretUseNotAllowed
        | Reason::SecretEndpointMismatch
        | Reason::EndpointInvalid
        | Reason::EndpointNotAllowed => return times::LOOKED_AT_AGAIN,
        // The same, but a ConfigMap or a host name may change without an event; each reconcile reads or resolves it again.
        Reason::AddressRefused
        | Reason::CaBundleNotFound
        | Reason::CaBundleInvalid
        | Reason::ClientCertificateNotFound
        | Reason::ClientCertificateInvalid => return times::LOOKED_AT_AGAIN,
        _ => {
            let mut wait = times::UNREACHABLE_RETRY_MAX;
            context
                .memories
                .update(key, |memory| wait = wait.min(memory.backoff.fail()));
            wait
        }
    };
    wait.saturating_sub(since).max(times::RETRY_MIN)
}

/// Installs or withdraws the account session, and wakes the Instances if that changed anything.
async fn act(
    context: &Context,
    account: &Account,
    key: &ObjectKey,
    observed: &Observation,
    reconcile_ends: Instant,
) {
    let changed = match &observed.usable {
        Usable::Yes(session) => context.sessions.install(key, session.clone()),
        Usable::No(problem, session) => {
            if let Some(session) = session {
                context.sessions.keep(key, session.clone());
            }
            context.sessions.refuse(key, problem.clone())
        }
    };
    if changed {
        (context.wake_instances)(key);
    }
    if let Usable::Yes(session) = &observed.usable {
        if context.sessions.owners().needs(key) {
            context.sessions.copy(key, session).await; // follows a new token, and retries a copy that failed
        }
        release_late_servers(context, account, key, session, reconcile_ends).await;
    }
}

/// Releases late servers. A late server has a tombstone's marker: a create request of a finalized Instance took effect after
/// everything else. No other code path will ever release it.
async fn release_late_servers(
    context: &Context,
    account: &Account,
    key: &ObjectKey,
    session: &AccountSession,
    reconcile_ends: Instant,
) {
    let inventory = &session.shared.inventory;
    // A restored Instance keeps its old marker and may not reconcile for now. Never release a server that an Instance owns.
    let owners = context.sessions.owners();
    let is_owned = |id: &ServerId, marker: &Marker| owners.owns(id, Some(marker));
    for (marker, id, place) in inventory.late_servers() {
        let now = Instant::now();
        let rests = context
            .memories
            .get(key)
            .late
            .get(&id)
            .is_some_and(|due| now < *due);
        if rests || is_owned(&id, &marker) {
            continue;
        }
        let permit = session.shared.client.permit(CallPriority::Urgent);
        let Ok(permit) = tokio::time::timeout(ADMISSION, permit).await else {
            return; // the next reconcile tries again
        };
        if !context.term.allows(reconcile_ends, times::RELEASE_CALL) {
            return;
        }
        if is_owned(&id, &marker) {
            continue;
        }
        let answer = session.shared.client.release(permit, &id).await;
        let failure = answer.err();
        let retry = if failure.as_ref().is_some_and(Error::is_conflict) {
            times::LATE_RELEASE_BUSY_RETRY
        } else {
            times::LATE_RELEASE_RETRY
        };
        context.memories.update(key, |memory| {
            memory.late.retain(|_, due| now < *due);
            memory.late.insert(id.clone(), now + retry);
        });
        if let Some(event) = late_release_event(context, key, (&id, &place), failure.as_ref()) {
            context
                .events
                .publish(&account.object_ref(&()), &event)
                .await;
        }
    }
}

/// Counts and logs the result of releasing a late server. Returns the Event to publish, or None if the server was already gone.
fn late_release_event(
    context: &Context,
    key: &ObjectKey,
    (id, place): (&ServerId, &Place),
    failure: Option<&Error>,
) -> Option<EventNote> {
    let (namespace, name) = (&key.namespace, &key.name);
    match failure {
        None => {
            context.metrics.surplus_released();
            let note = format!(
                "the service took the release of server {id} in {place}: it turned up after its Instance had been deleted"
            );
            tracing::info!(namespace, name, %id, %place, "the service took the release of a late server");
            Some(EventNote::warning("LateServerReleased", note))
        }
        // The server was released after the listing that showed it.
        Some(error) if error.is_no_such_instance() => {
            tracing::info!(namespace, name, %id, %place, "a late server is gone");
            None
        }
        Some(error) => {
            let note = format!(
                "server {id} in {place} turned up after its Instance had been deleted, and its release is called again as long as \
                 it is listed: {error}"
            );
            // Only the Event quotes the service: a log may reach more readers.
            let why = error.category();
            tracing::warn!(namespace, name, %id, %place, why, "the release of a late server is not known to be taken");
            Some(EventNote::warning("LateServerNotReleased", note))
        }
    }
}

/// The Secrets that an Account names, for its token and for TLS.
pub fn secrets(account: &Account) -> impl Iterator<Item = String> {
    let for_tls = tls_secrets(&account.spec).map(ToOwned::to_owned);
    std::iter::once(token_secret(account).name.clone()).chain(for_tls)
}

/// The flow that a reconcile belongs to, and its priority as far as the object shows it. Each Account is a flow of its own.
pub fn flow(account: &Account) -> (Flow, Priority) {
    let flow = Flow {
        namespace: account.namespace().unwrap_or_default().into(),
        account: account.name_any().into(),
    };
    let told = account.status.as_ref();
    let told = told.map(|status| status.observed_generation);
    let is_told = told.is_some() && told == account.metadata.generation;
    let priority = if is_told {
        Priority::Resync
    } else {
        Priority::Change
    };
    (flow, priority)
}

#[cfg(test)]
mod tests {
    use super::context::Memory;
    use super::*;
    use crate::session::Problem;

    #[test]
    fn what_is_wrong_is_told_in_the_words_of_the_first_try_that_showed_it() {
        let mut memory = Memory::default();
        let problem = |reason, message: &str| Problem {
            reason,
            message: message.to_owned(),
        };
        let first = problem(Reason::RateLimited, "429, request 1");
        assert_eq!(memory.first_words(first.clone()), first);
        // Each refusal may carry its own number: reporting it would mean a write and a wake-up of every Instance each time.
        let again = problem(Reason::RateLimited, "429, request 2");
        assert_eq!(memory.first_words(again.clone()), first);
        let other = problem(Reason::TokenRefused, "401, request 3");
        assert_eq!(memory.first_words(other.clone()), other);
        assert_eq!(memory.first_words(again.clone()), again);
        // A problem that was not found by a probe comes in between.
        memory.is_unusable(Reason::TokenNotFound);
        assert_eq!(memory.first_words(first.clone()), first);
    }
}
