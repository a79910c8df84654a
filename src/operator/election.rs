//! The right to act: by the Lease of the shard, or without one for the life of the process.

use crate::api::Instance;
use crate::runtime::chain;
use crate::runtime::lease::{Candidate, Lease, Lost, Settings, Won};
use crate::runtime::{Heartbeats, Term, kubernetes};
use crate::wiring::feed::Feed;
use kube::Api;
use kube::api::ListParams;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long the task that renews may take to give the reason why the term is over.
const REASON: Duration = Duration::from_millis(50);
const BROKEN: &str = "the task that renews the Lease broke";
/// Between two attempts to read the cluster's state at the beginning of the term.
const CLUSTER_STATE_RETRY: Duration = Duration::from_secs(2);

/// The right to act, while its term lasts.
pub(super) struct Election {
    term: Term,
    done: CancellationToken,
    keeper: Option<Keeper>,
    own: Option<Handle>,
}

type Keeper = JoinHandle<Result<Lease, Lost>>;

impl Election {
    /// The right of a process that needs no Lease: for its whole life.
    pub(super) fn for_life(term: Term) -> Self {
        Self {
            term,
            done: CancellationToken::new(),
            keeper: None,
            own: None,
        }
    }

    /// Begins the term and keeps renewing the Lease; none where the term would be over before it began.
    fn begin(won: Won, term: Term) -> Option<Self> {
        let Won { lease, until } = won;
        if !term.lasts_until(until) {
            return None;
        }
        let done = CancellationToken::new();
        let keeper = {
            let (term, done) = (term.clone(), done.clone());
            tokio::spawn(async move { lease.keep(&term, &done).await })
        };
        Some(Self {
            term,
            done,
            keeper: Some(keeper),
            own: Some(Handle::current()),
        })
    }

    /// Whether another process may have been active before.
    pub(super) fn is_elected(&self) -> bool {
        self.keeper.is_some()
    }

    /// Waits until the right is lost, and returns the reason. Never returns without a Lease.
    pub(super) async fn lost(&mut self) -> String {
        let Some(keeper) = &mut self.keeper else {
            return std::future::pending().await;
        };
        let kept = tokio::select! {
            kept = &mut *keeper => Some(kept),
            () = self.term.ended() => tokio::time::timeout(REASON, keeper).await.ok(),
        };
        self.term.end();
        let lost = match kept {
            Some(Ok(Err(lost))) => lost.to_string(),
            Some(Err(_)) => BROKEN.to_owned(),
            Some(Ok(Ok(_))) | None => Lost::NotRenewed.to_string(),
        };
        format!("{lost}: another process may be active by now")
    }

    /// Ends the term and releases the Lease. No call may be in flight any more.
    pub(super) async fn leave(self) {
        self.done.cancel();
        self.term.end();
        if let (Some(keeper), Some(own)) = (self.keeper, self.own)
            && let Ok(Ok(lease)) = keeper.await
        {
            // The release logs its own failures.
            let _ = own.spawn(lease.release()).await;
        }
    }
}

/// Waits for the Lease; none once `stop` comes first. `term` is the term that the Lease begins.
///
/// All of it runs on a runtime of its own, `own`: a thousand reconciles that begin at once must not delay a renewal.
pub(super) async fn stand_by(
    settings: Settings,
    term: Term,
    heartbeats: &Heartbeats,
    stop: CancellationToken,
    own: &Handle,
) -> Result<Option<Election>, String> {
    let heartbeat = heartbeats.expect("Lease", settings.silence());
    let task = own.spawn(async move {
        // A client of its own as well: it shares no connection, and its writes do not depend on the term.
        let client = kubernetes::inferred_client().await;
        let client = client.map_err(|error| chain(&error))?;
        let (holder, lease) = (settings.identity.clone(), settings.lease());
        let mut candidate = Candidate::new(client, settings, heartbeat);
        let won = tokio::select! {
            biased;
            () = stop.cancelled() => {
                candidate.leave().await; // a write may have been under way
                return Ok(None);
            }
            won = candidate.win() => won,
        };
        let election = Election::begin(won, term);
        let election = election.ok_or_else(|| format!("{lease} was won too late to be of use"))?;
        tracing::info!(lease, holder, "active");
        Ok(Some(election))
    });
    let ended = task.await;
    ended.map_err(|_| "the task that waits for the Lease broke".to_owned())?
}

/// Finds out which objects are newer than the term: an object counts as created in it only if its first version is newer than a
/// list that was begun in it. Until that is known none counts, and buying for one costs a look at the service's listing.
pub(super) async fn find_births(api: Api<Instance>, feed: Feed) {
    let one = ListParams::default().limit(1);
    loop {
        let listed = kubernetes::call("list Instances", api.list_metadata(&one)).await;
        match listed {
            Ok(list) => {
                let version = list.metadata.resource_version.and_then(|v| v.parse().ok());
                return feed.born_after(version.unwrap_or(u64::MAX));
            }
            Err(error) => tracing::warn!(
                error = chain(&error),
                "the state at the beginning of the term is not known"
            ),
        }
        tokio::time::sleep(CLUSTER_STATE_RETRY).await;
    }
}
