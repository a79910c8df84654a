//! Releases late servers. A late server bears the marker of a tombstone: either its create took effect after the Instance was
//! gone, or the operator bought it, found the Instance gone, and could not release it. No other code releases such a server.

use super::context::AccountContext;
use super::times::{LATE_RELEASE_BUSY_RETRY, LATE_RELEASE_RETRY, RELEASE_CALL};
use crate::api::{Account, Marker};
use crate::cloud::{CallPriority, Error, Place, ServerId};
use crate::runtime::events::EventNote;
use crate::runtime::queue::ADMISSION;
use crate::runtime::watch::ObjectKey;
use crate::session::AccountSession;
use kube::Resource;
use tokio::time::{Instant, timeout};

/// Releases every late server whose release is due.
pub(super) async fn release_all(
    context: &AccountContext,
    account: &Account,
    key: &ObjectKey,
    session: &AccountSession,
    reconcile_ends: Instant,
) {
    // A restored Instance keeps its old marker and perhaps does not reconcile yet. Never release a server that an Instance owns.
    let (owners, client) = (context.sessions.owners(), &session.shared.client);
    let is_owned = |id: &ServerId, marker: &Marker| owners.owns(id, Some(marker));
    for (marker, id, place) in session.shared.inventory.late_servers() {
        let not_before = context.memories.get(key).late.get(&id).copied();
        if not_before.is_some_and(|at| Instant::now() < at) || is_owned(&id, &marker) {
            continue;
        }
        // The listing may be old: by now the server may have another name, or this identifier may belong to another server.
        let read = timeout(ADMISSION, client.detail(CallPriority::Urgent, &id)).await;
        let is_other = |name: &str| Marker::in_name(name).as_ref() != Some(&marker);
        // If the detail cannot be read, the listing counts, so that an endpoint that fails does not keep a server billed.
        if matches!(&read, Ok(Ok(detail)) if detail.name().is_some_and(is_other)) {
            continue;
        }
        let permit = client.permit(CallPriority::Urgent);
        let Ok(permit) = timeout(ADMISSION, permit).await else {
            return; // the next reconcile tries again
        };
        if !context.term.allows(reconcile_ends, RELEASE_CALL) {
            return;
        }
        // An Instance may have been restored while this reconcile waited.
        if is_owned(&id, &marker) {
            continue;
        }
        let failure = client.release(permit, &id).await.err();
        let retry = match failure.as_ref().is_some_and(Error::is_conflict) {
            true => LATE_RELEASE_BUSY_RETRY,
            false => LATE_RELEASE_RETRY,
        };
        let now = Instant::now();
        context.memories.update(key, |memory| {
            memory.late.retain(|_, at| now < *at);
            memory.late.insert(id.clone(), now + retry);
        });
        if let Some(event) = note_result(context, key, (&id, &place), failure.as_ref()) {
            let about = account.object_ref(&());
            context.events.publish(&about, &event).await;
        }
    }
}

/// Counts and logs the result of a release. Returns the Event to publish, or None if the server was already gone.
fn note_result(
    context: &AccountContext,
    key: &ObjectKey,
    (id, place): (&ServerId, &Place),
    failure: Option<&Error>,
) -> Option<EventNote> {
    let (namespace, name) = (&key.namespace, &key.name);
    let server = format!("server {id} in {place} was created for an Instance that is deleted");
    match failure {
        None => {
            context.metrics.surplus_released.inc();
            tracing::info!(namespace, name, %id, %place, "the service accepted the release of a late server");
            let note = format!("{server}; the service accepted its release");
            Some(EventNote::warning("LateServerReleased", note))
        }
        // The server was released after the listing that showed it.
        Some(error) if error.is_no_such_instance() => None,
        Some(error) => {
            // Only the Event quotes the service: a log may reach more readers.
            let why = error.category();
            tracing::warn!(namespace, name, %id, %place, why, "the release of a late server failed, or its outcome is unknown");
            let note = format!(
                "{server}; the operator repeats its release for some hours, or until the operator restarts: {error}"
            );
            Some(EventNote::warning("LateServerNotReleased", note))
        }
    }
}
