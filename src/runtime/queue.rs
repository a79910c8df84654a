//! The queue of one kind: at most one reconcile per object at a time, a bounded number in total, fair scheduling, a deadline
//! for each reconcile, and isolation of panics to their object. [`schedule`] decides which object is next; this module runs it.

pub mod schedule;

use super::store::{Store, Stored};
use super::watch::ObjectKey;
use super::{Heartbeat, Metrics, times, traces};
use futures::StreamExt;
use futures::channel::mpsc;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use kube::core::DeserializeGuard;
use schedule::Schedule;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

pub use super::times::{ADMISSION, RECONCILE_LIMIT};
pub use schedule::{Flow, Priority};

/// Requests a reconcile of an object, with at least this priority; without one, the object's state determines the priority. Several
/// requests before the reconcile begins count as one.
pub type Trigger = mpsc::UnboundedSender<(ObjectKey, Option<Priority>)>;

/// The receiver of a [`Trigger`]. The schedule merges the requests for one object, so the channel holds only the requests since the
/// queue last read it.
pub type Requests = mpsc::UnboundedReceiver<(ObjectKey, Option<Priority>)>;

/// The queue of one kind.
pub struct ObjectQueue<K> {
    pub store: Store<K>,
    pub requests: Requests,
    /// Maximum number of concurrent reconciles.
    pub workers: usize,
    /// Maximum number of concurrent reconciles of one flow.
    pub bound: Box<dyn Fn(&Flow) -> usize + Send + Sync>,
    pub metrics: Metrics,
    pub heartbeat: Heartbeat,
}

impl<K: Stored> ObjectQueue<K> {
    /// Runs reconciles until cancelled, then waits for the running ones.
    ///
    /// Every reconcile returns the time until the next one of its object. An event can make the next one earlier, never later.
    pub async fn run<F>(mut self, cancel: CancellationToken, reconcile: F)
    where
        F: Fn(Arc<DeserializeGuard<K>>) -> BoxFuture<'static, Duration> + Send + Sync + 'static,
    {
        let mut schedule = Schedule::new(self.workers);
        let mut reconciles = FuturesUnordered::new();
        let kind = K::kind(&());
        let controller = kind.to_lowercase();
        while !cancel.is_cancelled() {
            self.heartbeat.beat();
            let now = Instant::now();
            while let Ok((key, priority)) = self.requests.try_recv() {
                schedule.wake(&key, now, priority);
            }
            schedule.advance(now, |key| self.store.flow(key));
            while let Some(begun) = schedule.begin(&self.bound) {
                let wait = now - begun.since;
                let labels = [&*controller, begun.priority.as_str()];
                self.metrics.queue_wait.observe(labels, wait);
                match self.store.get(&begun.key) {
                    Some(object) => {
                        let span = traces::reconcile(&kind, &begun.key.namespace, &begun.key.name);
                        let reconcile = reconcile(object).instrument(span);
                        reconciles.push(guarded(begun.key, reconcile));
                    }
                    // Deleted before its reconcile began; a re-created object triggers its own request.
                    None => schedule.end(&begun.key, now, Duration::ZERO),
                }
            }
            self.metrics.running.set([&controller], schedule.running());
            for priority in Priority::ALL {
                let labels = [&*controller, priority.as_str()];
                self.metrics.waiting.set(labels, schedule.waiting(priority));
            }
            let round_ends = now + times::QUEUE_ROUND;
            let next = schedule.next_due().unwrap_or(round_ends).min(round_ends);
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                Some((key, result, took)) = reconciles.next() => {
                    let after = count(&self.metrics, &controller, result, took);
                    schedule.end(&key, Instant::now(), after);
                }
                Some((key, priority)) = self.requests.next() => {
                    schedule.wake(&key, Instant::now(), priority);
                }
                () = sleep_until(next) => {}
            }
        }
        while let Some((_, result, took)) = reconciles.next().await {
            self.heartbeat.beat();
            count(&self.metrics, &controller, result, took);
        }
    }
}

/// Counts the result of a reconcile; returns the time until the next one.
fn count(
    metrics: &Metrics,
    controller: &str,
    result: Result<Duration, &str>,
    took: Duration,
) -> Duration {
    metrics.reconcile_duration.observe([controller], took);
    // The counter of errors exists from the first reconcile on, so that the first error shows as an increase.
    let errors = metrics.reconciles.with([controller, "error"]);
    match result {
        Ok(after) => {
            metrics.reconciles.count([controller, "success"]);
            after
        }
        Err(error) => {
            errors.inc();
            tracing::error!(controller, error, "reconcile failed");
            times::RECHECK_AFTER_DEFECT
        }
    }
}

/// Runs a reconcile in its own task, so that a panic or an overrun ends only this reconcile. Also returns its duration.
async fn guarded(
    key: ObjectKey,
    reconcile: impl Future<Output = Duration> + Send + 'static,
) -> (ObjectKey, Result<Duration, &'static str>, Duration) {
    let began = Instant::now();
    let task = AbortOnDropHandle::new(tokio::spawn(tokio::time::timeout(
        RECONCILE_LIMIT,
        reconcile,
    )));
    let result = match task.await {
        Ok(Ok(after)) => Ok(after),
        Ok(Err(_)) => Err("it took too long"),
        Err(_) => Err("it panicked"),
    };
    (key, result, began.elapsed())
}

#[cfg(test)]
mod tests;
