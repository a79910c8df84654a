//! The right to act: by the Lease of the shard, or without one for the life of the process.

use crate::api::Instance;
use crate::runtime::lease::{Candidate, LeaseSettings};
use crate::runtime::{Heartbeats, Term, chain, kubernetes};
use crate::wiring::feed::Feed;
use kube::Api;
use kube::api::ListParams;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Pause before Instances are listed again, if listing them at the beginning of the term failed.
const CLUSTER_STATE_RETRY: Duration = Duration::from_secs(2);

/// The right to act, while its term lasts.
pub(super) struct Election {
    term: Term,
    done: CancellationToken,
    /// Renews the Lease, and releases it once `done`. None without a Lease.
    keeper: Option<JoinHandle<()>>,
}

impl Election {
    /// The right of a process that needs no Lease: for its whole life.
    pub(super) fn for_life(term: Term) -> Self {
        Self {
            term,
            done: CancellationToken::new(),
            keeper: None,
        }
    }

    /// Whether a Lease gave the right, so that another process may have been active before.
    pub(super) fn is_elected(&self) -> bool {
        self.keeper.is_some()
    }

    /// Waits until the right is lost, and returns the reason. Never returns without a Lease.
    pub(super) async fn lost(&self) -> String {
        let reason = self.term.ended().await;
        format!("{reason}: another process may be active by now")
    }

    /// Ends the term and releases the Lease. No call may be in flight any more.
    pub(super) async fn leave(self) {
        self.done.cancel();
        self.term.end("the process is shutting down");
        if let Some(keeper) = self.keeper {
            // The keeper logs its own failures.
            let _ = keeper.await;
        }
    }
}

/// Waits for the Lease, and begins `term` with it.
///
/// All work for the Lease runs on `lease_runtime`: a thousand reconciles that begin at once must not delay a renewal.
pub(super) async fn stand_by(
    settings: LeaseSettings,
    term: Term,
    heartbeats: &Heartbeats,
    lease_runtime: &Handle,
) -> Result<Election, String> {
    let heartbeat = heartbeats.expect("Lease", settings.silence());
    let task = AbortOnDropHandle::new(lease_runtime.spawn(async move {
        // The Lease has a client of its own as well: it shares no connection, and its writes do not depend on the term.
        let client = kubernetes::inferred_client().await?;
        let (holder, name) = (settings.identity.clone(), settings.lease());
        let lease = Candidate::new(client, settings, heartbeat).win().await;
        if !term.extend_until(lease.until()) {
            return Err(format!("{name} was won too late to be of use"));
        }
        tracing::info!(lease = name, holder, "active");
        let done = CancellationToken::new();
        let keeper = tokio::spawn(lease.keep(term.clone(), done.clone()));
        Ok(Election {
            term,
            done,
            keeper: Some(keeper),
        })
    }));
    let ended = task.await;
    ended.map_err(|_| "the task that waits for the Lease broke".to_owned())?
}

/// Finds out which objects are newer than the term: an object counts as created in the term only if its first version is newer than
/// a list that was requested in the term. Until that list is read, no object counts as created in the term, so each purchase needs
/// a listing of the service first.
pub(super) async fn find_births(api: Api<Instance>, feed: Feed) {
    let one = ListParams::default().limit(1);
    loop {
        let listed = kubernetes::call("list Instances", api.list_metadata(&one)).await;
        match listed {
            Ok(list) => {
                let version = list.metadata.resource_version.and_then(|v| v.parse().ok());
                return feed.set_born_after(version.unwrap_or(u64::MAX));
            }
            Err(error) => tracing::warn!(
                error = chain(&error),
                "listing Instances at the beginning of the term failed, retrying: until then, each purchase waits for a listing of the service"
            ),
        }
        tokio::time::sleep(CLUSTER_STATE_RETRY).await;
    }
}
