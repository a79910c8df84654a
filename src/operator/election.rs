//! Being the process that acts on a shard: by its Lease, or for life where there is none.

use crate::api::Instance;
use crate::program::connection::ConnectionArgs;
use crate::runtime::chain;
use crate::runtime::lease::{Contest, Event, Holdings, Lease, Lost, Settings, Won};
use crate::runtime::{Heartbeats, Shard, Term, kubernetes};
use crate::wiring::feed::Feed;
use kube::Api;
use kube::api::ListParams;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long the task that renews gets to say why the term is over.
const REASON: Duration = Duration::from_millis(50);
const BROKEN: &str = "the task that renews the Lease broke";
/// Between two tries to learn the cluster's state at the beginning of the term.
const CLUSTER_STATE_RETRY: Duration = Duration::from_secs(2);

/// The right to act on a shard.
pub(super) struct Election {
    pub(super) shard: Shard,
    term: Term,
    done: CancellationToken,
    keeper: Option<Keeper>,
    own: Option<Handle>,
}

type Keeper = JoinHandle<Result<Lease, Lost>>;

/// What a process that stands by is told.
pub(super) enum Call {
    /// To act, as long as this lasts.
    Act(Election),
    /// To give up a shard.
    Leave(Shard),
}

impl Election {
    /// That of a process which is alone, as long as it lives.
    pub(super) fn for_life(term: Term) -> Self {
        Self {
            shard: Shard::WHOLE,
            term,
            done: CancellationToken::new(),
            keeper: None,
            own: None,
        }
    }

    /// Begins the term of a Lease that was won, and goes on renewing it; none where the term would be over before it began.
    fn begin(won: Won, term: Term) -> Option<Self> {
        let Won {
            shard,
            lease,
            until,
        } = won;
        if !term.lasts_until(until) {
            return None;
        }
        let done = CancellationToken::new();
        let keeper = {
            let (term, done) = (term.clone(), done.clone());
            tokio::spawn(async move { lease.keep(&term, &done).await })
        };
        Some(Self {
            shard,
            term,
            done,
            keeper: Some(keeper),
            own: Some(Handle::current()),
        })
    }

    /// Whether it was won, and somebody else may have had it before.
    pub(super) fn is_elected(&self) -> bool {
        self.keeper.is_some()
    }

    /// The time for which it acts.
    pub(super) fn term(&self) -> &Term {
        &self.term
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
        let whose = match self.shard.is_whole() {
            true => String::new(),
            false => format!("shard {}: ", self.shard),
        };
        let lost = match kept {
            Some(Ok(Err(lost))) => lost.to_string(),
            Some(Err(_)) => BROKEN.to_owned(),
            Some(Ok(Ok(_))) | None => Lost::NotRenewed.to_string(),
        };
        format!("{whose}{lost}: another process may be active by now")
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

/// Stands by for the Leases until `stop`. Where there is one shard, `term` is the term that its Lease begins.
///
/// All of it is on a runtime of its own, `own`: a thousand reconciles that begin at once must not stand before a renewal.
pub(super) fn stand_by(
    settings: Settings,
    holdings: Holdings,
    term: Term,
    heartbeats: &Heartbeats,
    stop: CancellationToken,
    own: &Handle,
) -> mpsc::Receiver<Result<Call, String>> {
    let heartbeat = heartbeats.expect("Lease", settings.silence());
    let (tell, told) = mpsc::channel(1);
    own.spawn(async move {
        // A client of its own as well: no connection is shared, and no term gags it.
        let client = match ConnectionArgs::default().connect() {
            Ok((client, _)) => client,
            Err(error) => {
                let _ = tell.send(Err(chain(&error))).await;
                return;
            }
        };
        let (holder, name) = (settings.identity.clone(), settings.name.clone());
        let is_alone = settings.shards == 1;
        let mut contest = Contest::new(client, settings, heartbeat, holdings);
        loop {
            let event = tokio::select! {
                biased;
                () = stop.cancelled() => return contest.leave().await, // a write may have been under way
                event = contest.next() => event,
            };
            let call = match event {
                Event::Wanted(shard) => Ok(Call::Leave(shard)),
                Event::Won(won) => {
                    let (lease, shard) = (won.shard.lease(&name), won.shard);
                    let term = if is_alone {
                        term.clone()
                    } else {
                        Term::awaited()
                    };
                    match Election::begin(*won, term) {
                        Some(election) => {
                            tracing::info!(lease, holder, "active");
                            Ok(Call::Act(election))
                        }
                        None => Err(format!(
                            "{lease} was won too late to be of use: shard {shard}"
                        )),
                    }
                }
            };
            // Who does not listen any more is ending.
            if tell.send(call).await.is_err() || is_alone {
                return;
            }
        }
    });
    told
}

/// Finds out what is newer than our term: an object counts as born in it only if its first version is newer than a listing
/// that was begun in it. Until that is known, none counts, and buying for it costs a look at the service's listing.
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
