//! The queue of one kind: at most one reconcile of an object at a time, a bounded number in all, handed out fairly, a deadline
//! for each, and a panic that stays the matter of its object. [`schedule`] decides who is next; this is what runs it.

pub mod schedule;

use super::guarded::Guarded;
use super::store::{Kept, Store};
use super::watch::ObjectKey;
use super::{Heartbeat, Metrics, times};
use futures::StreamExt;
use futures::channel::mpsc;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use schedule::Schedule;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub use super::times::{ADMISSION, RECONCILE_LIMIT};
pub use schedule::{Flow, Priority};

/// Asks for reconciles.
#[derive(Clone)]
pub struct Trigger {
    queue: mpsc::UnboundedSender<Request>,
    open: Arc<AtomicBool>,
}

/// An object that is to have a reconcile, and how urgently, if its state does not tell.
type Request = (ObjectKey, Option<Priority>);

impl Trigger {
    /// Lets requests through. Before, nobody takes them: whoever opens asks for a reconcile of every object after that.
    pub fn open(&self) {
        self.open.store(true, Ordering::SeqCst);
    }

    /// Asks for a reconcile of this object, as urgent as its state is; several requests before it runs are one.
    pub fn wake(&self, key: &ObjectKey) {
        self.wake_as(key, None);
    }

    /// The same, at least as urgent as this.
    pub fn wake_as(&self, key: &ObjectKey, priority: Option<Priority>) {
        if !self.open.load(Ordering::SeqCst) {
            return; // a standby of weeks must not collect them
        }
        // A closed queue means that the shard is ending, or the process.
        let _ = self.queue.unbounded_send((key.clone(), priority));
    }
}

impl Debug for Trigger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Trigger")
    }
}

/// The far end of a [`Trigger`].
pub type Requests = mpsc::UnboundedReceiver<Request>;

/// A queue that is not open yet, and its end. Requests for one object collapse in the schedule behind it, so its length is
/// bounded by the number of changes between two of its polls.
pub fn channel() -> (Trigger, Requests) {
    let (queue, requests) = mpsc::unbounded();
    let open = Arc::default();
    (Trigger { queue, open }, requests)
}

/// How the reconciles of one kind are handed out.
pub struct Rules<B> {
    /// So many at the same time.
    pub places: usize,
    /// So many of one flow.
    pub bound: Box<dyn Fn(&Flow) -> usize + Send + Sync>,
    /// Whose an object is, and how urgent it is by its state, as its brief tells.
    pub describe: fn(&B) -> (Flow, Priority),
}

impl<B> Debug for Rules<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rules")
    }
}

#[derive(Debug, Error)]
enum Defect {
    #[error("the reconcile panicked")]
    Panic,
    #[error("the reconcile took longer than {} s", RECONCILE_LIMIT.as_secs())]
    Overrun,
}

/// Runs reconciles until cancelled, then lets the running ones end.
///
/// Every reconcile gives the time of the next: a later event replaces it by an earlier one, never by none.
pub async fn run<K, F>(
    store: Store<K>,
    mut requests: Requests,
    rules: Rules<K::Brief>,
    metrics: Metrics,
    heartbeat: Heartbeat,
    cancel: CancellationToken,
    reconcile: F,
) where
    K: Kept,
    F: Fn(Arc<Guarded<K>>) -> BoxFuture<'static, Duration> + Send + Sync + 'static,
{
    let kind = K::kind(&()).into_owned();
    let mut schedule = Schedule::new(rules.places);
    let mut reconciles = FuturesUnordered::new();
    let mut shown = metrics.queue(&kind);
    let mut rounds = interval(times::QUEUE_ROUND);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !cancel.is_cancelled() {
        heartbeat.beat();
        let now = Instant::now();
        while let Ok((key, priority)) = requests.try_recv() {
            schedule.wake(&key, now, priority);
        }
        schedule.advance(now, |key| store.brief(key, rules.describe));
        while let Some(begun) = schedule.begin(&rules.bound) {
            metrics.waited(&kind, begun.priority, now - begun.since);
            match store.get(&begun.key) {
                Some(object) => reconciles.push(guarded(begun.key, reconcile(object))),
                // Asked for, and gone before its turn came: nothing to do, and whoever comes again asks again.
                None => schedule.end(&begun.key, now, Duration::ZERO),
            }
        }
        let workers = (schedule.under_way(), rules.places);
        shown.show(workers, |priority| schedule.waiting(priority));
        let next_due = schedule.next_due();
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            Some((key, result, took)) = reconciles.next() => {
                let after = told(&metrics, &kind, result, took);
                schedule.end(&key, Instant::now(), after);
            }
            Some((key, priority)) = requests.next() => {
                schedule.wake(&key, Instant::now(), priority);
            }
            () = until(next_due) => {}
            _ = rounds.tick() => {}
        }
    }
    while let Some((_, result, took)) = reconciles.next().await {
        heartbeat.beat();
        told(&metrics, &kind, result, took);
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Counts what became of a reconcile; gives the time until the next.
fn told(
    metrics: &Metrics,
    kind: &str,
    result: Result<Duration, Defect>,
    took: Duration,
) -> Duration {
    metrics.reconcile(kind, result.is_ok(), took);
    match result {
        Ok(after) => after,
        Err(error) => {
            tracing::error!(kind, %error, "reconcile failed");
            times::RECHECK_AFTER_DEFECT
        }
    }
}

/// A reconcile in a task of its own, so that a panic or an overrun ends that reconcile and nothing else. With how long it took.
async fn guarded(
    key: ObjectKey,
    reconcile: BoxFuture<'static, Duration>,
) -> (ObjectKey, Result<Duration, Defect>, Duration) {
    let began = Instant::now();
    let task = AbortOnDropHandle::new(tokio::spawn(tokio::time::timeout(
        RECONCILE_LIMIT,
        reconcile,
    )));
    let result = match task.await {
        Ok(Ok(after)) => Ok(after),
        Ok(Err(_)) => Err(Defect::Overrun),
        Err(_) => Err(Defect::Panic),
    };
    (key, result, began.elapsed())
}

#[cfg(test)]
mod tests;
