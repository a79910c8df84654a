//! The shards that this process acts on.

use super::election::{self, Election};
use super::fleet::{self, Fleet};
use super::keeping;
use super::survey;
use super::wiring::Parts;
use crate::api::Instance;
use crate::runtime::Shard;
use crate::runtime::health::Signs;
use crate::runtime::lease::Holdings;
use crate::runtime::metrics::Fleet as Counts;
use crate::runtime::rights::{self, Trial};
use crate::runtime::watch::Synced;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all, select_all};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

/// What the process says when it ends because a watch did.
pub(super) const BROKEN: &str = "a watch ended";

/// How the queues of a shard run, and how they end.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    /// Reconciles of Instances at the same time.
    pub(super) concurrency: u16,
    /// What running reconciles get to end when the process is told to.
    pub(super) grace: Duration,
}

/// One shard, watched by this process. It shares nothing with others that it changes, but the room for answers of services.
pub(super) struct Share {
    parts: Parts,
    fleets: Vec<Fleet>,
    /// Ends when a watch does.
    watches: BoxFuture<'static, ()>,
    synced: Vec<Synced>,
    ends: Ends,
    /// When it is dropped, probes and metrics see nothing of it any more.
    hidden: Hidden,
}

/// The two ends of a shard: its reconciles end first, and see all that happens until then.
pub(super) struct Ends {
    /// To be given up, or ended with the process: no reconcile begins any more.
    pub(super) told: CancellationToken,
    /// Nothing is under way: watches and listings end.
    pub(super) over: CancellationToken,
    /// However it ends.
    _over: DropGuard,
}

impl Ends {
    /// Those of a shard of a process that ends by `stop`.
    pub(super) fn new(stop: &CancellationToken) -> Self {
        let over = CancellationToken::new();
        Self {
            told: stop.child_token(),
            _over: over.clone().drop_guard(),
            over,
        }
    }
}

/// What there is to be seen of each shard; cheap to clone.
#[derive(Clone)]
pub(super) struct Shown {
    shards: Arc<Mutex<BTreeMap<Shard, OneShown>>>,
    /// Where there are several, who acts on none is ready once the Leases could be looked at.
    holdings: Option<Holdings>,
}

struct OneShown {
    parts: Parts,
    synced: Vec<(String, Synced)>,
}

impl Shown {
    /// Nothing is watched yet.
    pub(super) fn new(count: u16, holdings: Holdings) -> Self {
        Self {
            shards: Arc::default(),
            holdings: (count > 1).then_some(holdings),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Shard, OneShown>> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets probes and metrics see a shard, until what this gives is dropped.
    fn show(&self, parts: &Parts, synced: Vec<(String, Synced)>) -> Hidden {
        let parts = parts.clone();
        let shard = parts.shard;
        self.lock().insert(shard, OneShown { parts, synced });
        Hidden(self.clone(), shard)
    }

    /// How all objects stand, shard by shard.
    pub(super) fn survey(&self) -> Vec<(Shard, Counts)> {
        let shown: Vec<Parts> = self.lock().values().map(|one| one.parts.clone()).collect();
        let counted = shown
            .iter()
            .map(|parts| (parts.shard, survey::survey(parts)));
        counted.collect()
    }
}

impl Signs for Shown {
    fn unlisted(&self) -> Vec<String> {
        let shown = self.lock();
        let all = shown.values().flat_map(|one| &one.synced);
        let unlisted = all.filter(|(_, synced)| !*synced.borrow());
        let unlisted = unlisted.map(|(name, _)| name.clone());
        let leases = self.holdings.as_ref();
        let leases = leases.filter(|holdings| !holdings.has_looked());
        let leases = leases.map(|_| "Leases".to_owned());
        leases.into_iter().chain(unlisted).collect()
    }

    fn silent(&self) -> Vec<String> {
        let shown = self.lock();
        let all = shown
            .values()
            .flat_map(|one| one.parts.heartbeats.missing());
        all.collect()
    }
}

impl Share {
    /// Begins to watch the shard. Nothing is changed yet.
    pub(super) fn watch(parts: Parts, namespaces: &[String], ends: Ends, shown: &Shown) -> Self {
        let mut fleets: Vec<Fleet> = scopes(namespaces)
            .iter()
            .map(|scope| Fleet::watch(&parts, scope.as_deref(), &ends.over))
            .collect();
        let stores = fleets.iter().map(|fleet| fleet.stores.clone()).collect();
        // Nobody reads it before the watches run; set once.
        let _ = parts.stores.set(stores);
        let synced: Vec<_> = fleets
            .iter()
            .flat_map(|fleet| fleet.synced.clone())
            .collect();
        let watches = first_to_end(&mut fleets, ends.over.clone()).boxed();
        let hidden = shown.show(&parts, synced.clone());
        Self {
            parts,
            fleets,
            watches,
            synced: synced.into_iter().map(|(_, synced)| synced).collect(),
            ends,
            hidden,
        }
    }

    /// By which it is told to end.
    pub(super) fn token(&self) -> CancellationToken {
        self.ends.told.clone()
    }

    /// Waits for a watch to end: it never does while the process lives, so it is broken, and a new process is the remedy.
    pub(super) async fn broken(&mut self) {
        (&mut self.watches).await;
    }

    /// Runs the queues until told to give the shard up, until `stop`, or until the right to act is lost.
    ///
    /// # Errors
    /// The right was lost, or a watch ended: the process has to end.
    pub(super) async fn act(
        self,
        mut election: Election,
        pace: Pace,
        stop: CancellationToken,
    ) -> Result<(), String> {
        let Self {
            parts,
            fleets,
            watches,
            synced,
            ends,
            hidden: _hidden,
        } = self;
        let told = &ends.told;
        let active = parts.metrics.acts(parts.shard);
        let trial = trial(&parts, &fleets);
        let is_tried = trial.begin().await;
        let tried = AbortOnDropHandle::new(tokio::spawn(trial.go_on(is_tried, told.clone())));
        let _begun = election.is_elected().then(|| begin_term(&parts, &fleets));
        // Before any reconcile: what is being deleted may need a token that only a copy has, and all account sessions are made
        // under one key.
        let is_restored = tokio::select! {
            restored = async {
                keeping::find_key(&parts).await;
                keeping::restore(&parts).await
            } => restored.is_ok(),
            lost = election.lost() => return Err(lost),
            () = told.cancelled() => false,
        };
        let keep = keeping::keep(parts.clone(), synced, is_restored, told.clone());
        let keeper = AbortOnDropHandle::new(tokio::spawn(keep));
        let queues = fleets
            .into_iter()
            .map(|fleet| fleet.run(parts.clone(), pace.concurrency, told.clone()));
        // The copies of tokens are written and deleted under the Lease, too.
        let mut queues = Box::pin(futures::future::join(join_all(queues), keeper));
        let is_drained = tokio::select! {
            biased;
            () = told.cancelled() => {
                tracing::info!(shard = %parts.shard, "stopping: letting running reconciles end");
                let stop = &stop;
                tokio::select! {
                    lost = election.lost() => return Err(lost),
                    _ = &mut queues => true,
                    // As long as the process goes on, they have all the time that a reconcile may take.
                    () = after(stop, pace.grace) => false,
                }
            }
            lost = election.lost() => return Err(lost),
            _ = &mut queues => true,
            () = watches => return Err(BROKEN.to_owned()),
        };
        // What it would say of our rights now, nobody would take back.
        tried.abort();
        let _ = tried.await;
        drop(active);
        if is_drained {
            election.leave().await;
        } else {
            // A call may still be on its way: whoever comes next waits until the Lease is stale.
            tracing::warn!(
                "some reconciles did not end in time; what they did is on record, and the Lease is not released"
            );
        }
        Ok(())
    }
}

struct Hidden(Shown, Shard);

impl Drop for Hidden {
    fn drop(&mut self) {
        let gone = self.0.lock().remove(&self.1);
        drop(gone);
    }
}

async fn after(stop: &CancellationToken, grace: Duration) {
    stop.cancelled().await;
    tokio::time::sleep(grace).await;
}

/// Ends when a watch does. They end with the shard as well: that is nothing to tell of.
fn first_to_end(fleets: &mut [Fleet], over: CancellationToken) -> impl Future<Output = ()> + use<> {
    let watches: Vec<_> = fleets.iter_mut().flat_map(Fleet::take_watches).collect();
    async move {
        let _ = select_all(watches).await;
        if over.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }
}

/// The trial of the operator's rights, where it watches and where its own Secrets stand.
fn trial(parts: &Parts, fleets: &[Fleet]) -> Trial {
    let scopes: Vec<_> = fleets
        .iter()
        .map(|fleet| fleet.stores.namespace.clone())
        .collect();
    Trial {
        client: parts.client.clone(),
        namespaces: rights::namespaces(parts.own_namespace.clone(), &scopes),
        rights: parts.accounts.rights.clone(),
        metrics: parts.metrics.clone(),
    }
}

/// What this process saw while it stood by is not its own: see [`election::find_births`].
fn begin_term(parts: &Parts, fleets: &[Fleet]) -> AbortOnDropHandle<()> {
    parts.feed.begin_term();
    let namespace = fleets
        .first()
        .and_then(|fleet| fleet.stores.namespace.clone());
    let api = fleet::api::<Instance>(&parts.client, namespace.as_deref());
    let feed = parts.feed.clone();
    AbortOnDropHandle::new(tokio::spawn(election::find_births(api, feed)))
}

/// The namespaces to watch; a single "all" when none is named.
fn scopes(namespaces: &[String]) -> Vec<Option<String>> {
    let named: BTreeSet<String> = namespaces
        .iter()
        .map(|namespace| namespace.trim().to_owned())
        .filter(|namespace| !namespace.is_empty())
        .collect();
    if named.is_empty() {
        vec![None]
    } else {
        named.into_iter().map(Some).collect()
    }
}
