//! Keeping what deletions need, and dropping it when no Instance needs it any more: account sessions in memory, and copies of
//! tokens in the operator's own namespace.

use super::parts::Parts;
use crate::runtime::watch::{ObjectKey, Synced};
use crate::runtime::{Backoff, KubeError};
use crate::session::{Copies, FormerKey};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often account sessions and copies that no Instance needs any more are dropped. Finding them costs no call.
const SWEEP: Duration = Duration::from_secs(10);
/// Longest pause before the key of records of an earlier version is read again.
const KEY_RETRY_MAX: Duration = Duration::from_secs(1);

/// How long a refused read is retried: an apiserver that has just started refuses every request for a moment.
const REFUSALS_IGNORED: Duration = Duration::from_secs(10);

/// Enables copies of tokens, if they are requested and have a namespace.
pub(super) fn begin(parts: &Parts, is_requested: bool) {
    if !is_requested {
        return;
    }
    let Some(namespace) = &parts.own_namespace else {
        tracing::warn!(
            "no namespace for copies of tokens, so none are kept: set --keep-tokens-namespace or POD_NAMESPACE, or \
             --keep-tokens=false"
        );
        return;
    };
    let copies = Copies::new(
        parts.contexts.accounts.client.clone(),
        namespace,
        parts.contexts.accounts.metrics.clone(),
    );
    parts.contexts.accounts.sessions.keep_copies(copies);
}

/// Reads the key of records of an earlier version, before any reconcile. Without it a token that such a record names looks
/// replaced: nothing is bought or released because of that, but some deletions wait for a human.
pub(super) async fn find_former_key(parts: &Parts) {
    let Some(namespace) = &parts.own_namespace else {
        return;
    };
    let accounts = &parts.contexts.accounts;
    // A process that keeps no copies may have no right to Secrets there, and then the apiserver refuses every request.
    let patience = match accounts.sessions.keeps_copies() {
        true => REFUSALS_IGNORED,
        false => Duration::ZERO,
    };
    let gives_up = Instant::now() + patience;
    let mut backoff = Backoff::default();
    loop {
        match FormerKey::read(&accounts.client, namespace).await {
            Ok(None) => return,
            Ok(Some(key)) => return accounts.sessions.compare_former(key),
            Err(error) if error.is_refusal() && Instant::now() >= gives_up => {
                tracing::warn!(
                    namespace, %error,
                    "the key of version 0.1 records was not read: if any exist, allow get of Secrets in this namespace and restart"
                );
                return;
            }
            Err(error) => {
                tracing::warn!(namespace, %error, "the key of records of version 0.1 was not read yet; trying again");
                tokio::time::sleep(backoff.fail().min(KEY_RETRY_MAX)).await;
            }
        }
    }
}

/// Reads the copies of all scopes, and wakes the Instances that may go on with them. Stops at the first failure; a retry reads all
/// of them again.
pub(super) async fn restore(parts: &Parts) -> Result<(), KubeError> {
    let sessions = &parts.contexts.accounts.sessions;
    for namespace in &*parts.scopes {
        let restored = sessions.restore(namespace.as_deref()).await;
        let restored = restored.inspect_err(|error| {
            tracing::warn!(%error, "the copies of tokens were not read; trying again");
        })?;
        for account in restored {
            (parts.contexts.accounts.wake_instances)(&account);
        }
    }
    Ok(())
}

/// Drops what no Instance needs any more, and repeats a failed [`restore`]. Begins once all Instances are known.
pub(super) async fn keep(
    parts: Parts,
    synced: Vec<Synced>,
    mut is_restored: bool,
    stop: CancellationToken,
) {
    for mut synced in synced {
        tokio::select! {
            _ = synced.wait_for(|done| *done) => {}
            () = stop.cancelled() => return,
        }
    }
    let sessions = &parts.contexts.accounts.sessions;
    sessions.owners().set_listed_all();
    // The account session of an Account that is gone stays while an Instance refers to the Account, or needs it for a release.
    let is_needed = |account: &ObjectKey| {
        parts.contexts.feed.is_referred(account) || sessions.owners().is_needed_for_release(account)
    };
    let mut ticks = tokio::time::interval(SWEEP);
    loop {
        tokio::select! {
            // Checked first: no sweep begins after `stop`.
            biased;
            () = stop.cancelled() => return,
            _ = ticks.tick() => sessions.sweep(is_needed),
        }
        if !is_restored {
            let restored = stop.run_until_cancelled(restore(&parts)).await;
            is_restored = restored.is_some_and(|restored| restored.is_ok());
        }
        sessions.drop_copies(&stop).await;
    }
}
