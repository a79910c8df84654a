//! Being the active process: by the Lease, or for life where there is none.

use crate::api::Instance;
use crate::runtime::chain;
use crate::runtime::lease::{Lease, Lost, Settings};
use crate::runtime::{Heartbeat, Heartbeats, Term, kubernetes};
use kube::Api;
use kube::api::ListParams;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long the task that renews gets to say why the term is over.
const REASON: Duration = Duration::from_millis(50);
const BROKEN: &str = "the task that renews the Lease broke";
/// Between two tries to learn the cluster's state at the beginning of the term.
const CLUSTER_STATE_RETRY: Duration = Duration::from_secs(2);

/// The right to act.
pub(super) struct Election {
    term: Term,
    done: CancellationToken,
    keeper: Option<Keeper>,
    own: Option<Handle>,
}

type Keeper = JoinHandle<Result<Lease, Lost>>;

impl Election {
    /// That of a process which is alone, as long as it lives.
    pub(super) fn for_life(term: Term) -> Self {
        Self {
            term,
            done: CancellationToken::new(),
            keeper: None,
            own: None,
        }
    }

    /// Stands by until the Lease is won, which begins the term; none if `stop` came first. `own` is a runtime that does nothing
    /// else.
    ///
    /// # Errors
    /// No client, or a term that was over before it could begin.
    pub(super) async fn win(
        settings: Settings,
        term: Term,
        heartbeats: &Heartbeats,
        stop: &CancellationToken,
        own: Handle,
    ) -> Result<Option<Self>, String> {
        let heartbeat = heartbeats.expect("Lease", settings.silence());
        let done = CancellationToken::new();
        let won = own.spawn(win(
            settings,
            term.clone(),
            heartbeat,
            stop.clone(),
            done.clone(),
        ));
        let keeper = won.await.map_err(|_| BROKEN.to_owned())??;
        Ok(keeper.map(|keeper| Self {
            term,
            done,
            keeper: Some(keeper),
            own: Some(own),
        }))
    }

    /// Whether it was won, and somebody else may have had it before.
    pub(super) fn is_elected(&self) -> bool {
        self.keeper.is_some()
    }

    /// Waits until the right is lost, and says how. Never for life.
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

    /// Ends the term and releases the Lease. What is in flight has to be over.
    pub(super) async fn leave(self) {
        self.done.cancel();
        self.term.end();
        if let (Some(keeper), Some(own)) = (self.keeper, self.own)
            && let Ok(Ok(lease)) = keeper.await
        {
            // What becomes of it was logged.
            let _ = own.spawn(lease.release()).await;
        }
    }
}

/// Wins the Lease, begins the term and goes on renewing, all on the runtime of its own: a thousand reconciles that begin at once
/// must not stand before a renewal.
async fn win(
    settings: Settings,
    term: Term,
    heartbeat: Heartbeat,
    stop: CancellationToken,
    done: CancellationToken,
) -> Result<Option<Keeper>, String> {
    // A client of its own as well: no connection is shared, and the term that it keeps does not gag it.
    let client = kubernetes::client().await.map_err(|error| chain(&error))?;
    let (holder, name) = (settings.identity.clone(), settings.name.clone());
    let mut lease = Lease::new(client, settings, heartbeat);
    let until = tokio::select! {
        biased;
        () = stop.cancelled() => {
            lease.release().await; // a write may have been under way
            return Ok(None);
        }
        until = lease.acquire() => until,
    };
    if !term.lasts_until(until) {
        return Err("the Lease was won too late to be of use".to_owned());
    }
    tracing::info!(lease = name, holder, "active");
    let keep = async move { lease.keep(&term, &done).await };
    Ok(Some(tokio::spawn(keep)))
}

/// Finds out what is newer than our term: an object counts as born in it only if its first version is newer than a listing
/// that was begun in it. Until that is known, none counts, and buying for it costs a look at the service's listing.
pub(super) async fn find_births(api: Api<Instance>, born_after: &AtomicU64) {
    let one = ListParams::default().limit(1);
    loop {
        let listed = kubernetes::call("list Instances", api.list_metadata(&one)).await;
        match listed {
            Ok(list) => {
                let version = list.metadata.resource_version.and_then(|v| v.parse().ok());
                born_after.store(version.unwrap_or(u64::MAX), Ordering::SeqCst);
                return;
            }
            Err(error) => tracing::warn!(
                error = chain(&error),
                "the state at the beginning of the term is not known"
            ),
        }
        tokio::time::sleep(CLUSTER_STATE_RETRY).await;
    }
}
