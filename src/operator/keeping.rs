//! Keeping what deletions need, and dropping it when nobody needs it any more: account sessions in memory, and copies of tokens
//! in the operator's own namespace.

use super::wiring::Parts;
use crate::runtime::watch::{ObjectKey, Synced};
use crate::runtime::{Backoff, KubeError};
use crate::session::{Copies, CredentialKey};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often account sessions and copies that nobody needs any more are dropped.
const SWEEP: Duration = Duration::from_secs(60);
/// Instances that go together are one reason to look.
const TOGETHER: Duration = Duration::from_secs(1);

/// A right that was given a moment ago may not be known everywhere yet, and an apiserver that has just started refuses everybody:
/// longer than that takes. Who goes on without the key does so to the end of the term.
const REFUSED: Duration = Duration::from_secs(30);

/// Turns the keeping of copies on, where it is wanted and there is a place for them.
pub(super) fn begin(parts: &Parts, is_wanted: bool) {
    if !is_wanted {
        return;
    }
    let Some(namespace) = &parts.own_namespace else {
        tracing::warn!(
            "no namespace for copies of tokens, so none are kept: set --keep-tokens-namespace or POD_NAMESPACE, or \
             --keep-tokens=false"
        );
        return;
    };
    let copies = Copies::new(parts.client.clone(), namespace, parts.metrics.clone());
    parts.accounts.sessions.keep_copies(copies);
}

/// Finds the key of the credentials in records, before any reconcile. Without it the process has one of its own, and the next one
/// looks as if every token had been replaced: nothing is bought or released by that, and some deletions wait for a human.
pub(super) async fn find_key(parts: &Parts) {
    const REMEDY: &str = "after a restart every token will look replaced";
    let sessions = &parts.accounts.sessions;
    let Some(namespace) = &parts.own_namespace else {
        tracing::warn!(
            "no namespace for the key of credentials, so {REMEDY}: set --keep-tokens-namespace or POD_NAMESPACE"
        );
        return;
    };
    let gives_up = Instant::now() + REFUSED;
    let mut backoff = Backoff::default();
    loop {
        match CredentialKey::find(&parts.client, namespace).await {
            Ok(Some(key)) => return sessions.key_credentials(key),
            Ok(None) => {
                tracing::warn!(
                    namespace,
                    "the Secret of the key of credentials holds none, so {REMEDY}: delete it, and another one is made"
                );
                return;
            }
            // A namespace that is not there is refused in its own way.
            Err(error)
                if (error.is_refusal() || error.is_not_found()) && Instant::now() > gives_up =>
            {
                let right = "allow get and create of Secrets there (deploy/ has the Role)";
                let remedy = error
                    .obstacle()
                    .map_or(right, |obstacle| obstacle.remedy(right));
                tracing::warn!(namespace, %error, "no key of credentials, so {REMEDY}: {remedy}");
                return;
            }
            Err(error) => {
                tracing::warn!(namespace, %error, "the key of credentials was not found yet; trying again");
                tokio::time::sleep(backoff.fail().min(TOGETHER)).await;
            }
        }
    }
}

/// Reads the copies of all scopes, and wakes the Instances that may go on with them.
pub(super) async fn restore(parts: &Parts) -> Result<(), KubeError> {
    let sessions = &parts.accounts.sessions;
    for scope in parts.stores.get().into_iter().flatten() {
        let restored = sessions.restore(scope.namespace.as_deref()).await;
        let restored = restored.inspect_err(|error| {
            tracing::warn!(%error, "the copies of tokens were not read; trying again");
        })?;
        for account in restored {
            (parts.accounts.wake_instances)(&account);
        }
    }
    Ok(())
}

/// Drops what nobody needs any more, once it is known which Instances there are.
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
    let sessions = &parts.accounts.sessions;
    sessions.reservations().is_whole();
    let mut ticks = tokio::time::interval(SWEEP);
    loop {
        // First the stop: whoever waits for this to end waits for one deletion at most.
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            _ = ticks.tick() => sweep(&parts),
            () = sessions.reservations().left() => {}
        }
        let before = async {
            tokio::time::sleep(TOGETHER).await;
            is_restored || restore(&parts).await.is_ok()
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            restored = before => is_restored = restored,
        }
        sessions.drop_copies(&stop).await;
    }
}

/// Drops account sessions of Accounts that are gone and that no Instance refers to any more.
fn sweep(parts: &Parts) {
    let sessions = &parts.accounts.sessions;
    let is_needed = |account: &ObjectKey| {
        parts.feed.is_referred(account) || sessions.reservations().needs(account)
    };
    sessions.sweep(is_needed);
}
