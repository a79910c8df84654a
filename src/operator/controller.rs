//! The controller of one process: watches from the start, and reconciles while it holds its Lease.

use super::election::{self, Election};
use super::fleet;
use super::parts::{Parts, QueueRequests};
use super::{keeping, survey};
use crate::api::Instance;
use crate::runtime::chance;
use crate::runtime::rights::{self, Trial};
use crate::runtime::watch::Synced;
use futures::FutureExt;
use futures::future::{BoxFuture, select_all};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

/// The error when the process ends because a watch did.
pub(super) const BROKEN: &str = "a watch ended";

/// The watches of a process, and the queues that run once it is active.
pub(super) struct Controller {
    parts: Parts,
    requests: QueueRequests,
    /// Ends when one of the watches does. No watch should end while the process lives: that is a defect, and a new process helps.
    pub(super) watches: BoxFuture<'static, ()>,
    /// The watches by name, and whether each has its initial list.
    pub(super) synced: Vec<(String, Synced)>,
    /// Dropping it ends the listings. Reconciles end first, and need the listings until then.
    _over: DropGuard,
}

impl Controller {
    /// Begins to watch. Nothing is changed yet. `over` ends the listings of `parts`.
    pub(super) fn watch(parts: Parts, requests: QueueRequests, over: CancellationToken) -> Self {
        let watches = fleet::watch(&parts).into_iter();
        let (synced, watches): (Vec<_>, Vec<_>) = watches
            .map(|(name, watch)| ((name, watch.synced), watch.task))
            .unzip();
        Self {
            parts,
            requests,
            watches: select_all(watches).map(drop).boxed(),
            synced,
            _over: over.drop_guard(),
        }
    }

    /// Runs at most `concurrency` reconciles of Instances at a time until `stop`, or until the right to act is lost. After `stop`,
    /// running reconciles get `grace` to end.
    ///
    /// # Errors
    /// The right was lost, or a watch ended: the process has to end.
    pub(super) async fn act(
        self,
        election: Election,
        concurrency: u16,
        grace: Duration,
        stop: CancellationToken,
    ) -> Result<(), String> {
        let Self {
            parts,
            requests,
            mut watches,
            synced,
            _over: _acting,
        } = self;
        let metrics = &parts.contexts.accounts.metrics;
        let shard = parts.contexts.feed.shard().to_string();
        metrics.active.set([&shard], true);
        metrics.survey({
            let (parts, shard) = (parts.clone(), shard.clone());
            move |metrics| {
                let (instances, accounts) = (&parts.stores.instances, &parts.stores.accounts);
                let listings = parts.contexts.accounts.sessions.listings();
                let now = chance::time_of_day();
                survey::survey(metrics, &shard, instances, accounts, listings, now);
            }
        });
        let trial = Trial {
            client: parts.contexts.accounts.client.clone(),
            namespaces: rights::namespaces(parts.own_namespace.clone(), &parts.scopes),
            rights: parts.contexts.accounts.rights.clone(),
            metrics: metrics.clone(),
        };
        let is_tried = trial.begin().await;
        let _trial = AbortOnDropHandle::new(tokio::spawn(trial.go_on(is_tried, stop.clone())));
        let _begun = election.is_elected().then(|| begin_term(&parts));
        // Before the first reconcile: a deletion may need a token that only a copy has, and an account session knows the
        // credentials of an earlier version only if it is made after their key was read.
        let is_restored = tokio::select! {
            restored = async {
                keeping::find_former_key(&parts).await;
                keeping::restore(&parts).await
            } => restored.is_ok(),
            lost = election.lost() => return Err(lost),
            () = stop.cancelled() => false,
        };
        let synced: Vec<Synced> = synced.into_iter().map(|(_, synced)| synced).collect();
        let keep = keeping::keep(parts.clone(), synced.clone(), is_restored, stop.clone());
        let keeper = AbortOnDropHandle::new(tokio::spawn(keep));
        let queues = fleet::run(parts.clone(), requests, synced, concurrency, stop.clone());
        // The copies of tokens are written and deleted under the Lease, too.
        let mut queues = Box::pin(futures::future::join(queues, keeper));
        let is_drained = tokio::select! {
            biased;
            () = stop.cancelled() => {
                tracing::info!("shutting down, waiting for running reconciles");
                tokio::select! {
                    lost = election.lost() => return Err(lost),
                    _ = &mut queues => true,
                    () = tokio::time::sleep(grace) => false,
                }
            }
            lost = election.lost() => return Err(lost),
            _ = &mut queues => true,
            () = &mut watches => return Err(BROKEN.to_owned()),
        };
        metrics.active.set([&shard], false);
        if is_drained {
            election.leave().await;
        } else {
            // A call may still be under way, so the next process waits until the Lease is stale.
            tracing::warn!(
                "some reconciles did not end in time; what they did is on record, and the Lease is not released"
            );
        }
        Ok(())
    }
}

/// Objects that this process saw as a standby do not count as created in its term: see [`election::find_births`].
fn begin_term(parts: &Parts) -> AbortOnDropHandle<()> {
    parts.contexts.feed.begin_term();
    let namespace = parts.scopes.first().and_then(Option::as_deref);
    let api = fleet::api::<Instance>(&parts.contexts.accounts.client, namespace);
    let feed = parts.contexts.feed.clone();
    AbortOnDropHandle::new(tokio::spawn(election::find_births(api, feed)))
}

/// The namespaces to watch; a single `None` for all of them.
pub(super) fn scopes(namespaces: &[String]) -> Vec<Option<String>> {
    let named = namespaces.iter().filter(|name| !name.is_empty());
    let named: BTreeSet<String> = named.cloned().collect();
    if named.is_empty() {
        vec![None]
    } else {
        named.into_iter().map(Some).collect()
    }
}
