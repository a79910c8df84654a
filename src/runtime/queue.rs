//! The queue of one kind: at most one turn of an object at a time, a bounded number of turns in all, a deadline for
//! each, and a panic that stays the matter of its object.

use super::{Metrics, Pulse};
use futures::channel::mpsc;
use futures::{StreamExt, future::BoxFuture};
use kube::Resource;
use kube::runtime::controller::{Action, ReconcileReason, ReconcileRequest};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{Config, applier};
use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::watch::ObjectKey;

/// Longest turn (design section 9): longer than the longest mutating call (60 s) and what stands around it.
pub const TURN: Duration = Duration::from_secs(120);

/// How soon an object is looked at again whose turn panicked or overran: its error is a defect of ours, so not often.
const AFTER_DEFECT: Duration = Duration::from_secs(60);

/// How often a request goes round of which nothing comes, to show that the queue runs.
const ROUND: Duration = Duration::from_secs(10);
/// How long no request may come round before the queue counts as stuck: longer than all its turns at once may take.
pub const SILENCE: Duration = Duration::from_secs(150);

/// Asks for turns.
pub struct Trigger<K: Resource> {
    queue: mpsc::UnboundedSender<ReconcileRequest<K>>,
    open: Arc<AtomicBool>,
}

impl<K: Resource> Clone for Trigger<K> {
    fn clone(&self) -> Self {
        Self {
            queue: self.queue.clone(),
            open: self.open.clone(),
        }
    }
}

impl<K: Resource<DynamicType = ()>> Trigger<K> {
    /// Lets requests through. Before, nobody takes them: whoever opens asks for a turn of every object after that.
    pub fn open(&self) {
        self.open.store(true, Ordering::SeqCst);
    }

    /// Asks for a turn of this object; several requests before it runs are one.
    pub fn wake(&self, key: &ObjectKey) {
        if !self.open.load(Ordering::SeqCst) {
            return; // a standby of weeks must not collect them
        }
        let obj_ref = ObjectRef::new(&key.name).within(&key.namespace);
        let reason = ReconcileReason::Custom {
            reason: String::new(),
        };
        // A closed queue means that the process is ending.
        let _ = self
            .queue
            .unbounded_send(ReconcileRequest { obj_ref, reason });
    }
}

impl<K: Resource> Debug for Trigger<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Trigger")
    }
}

/// The far end of a [`Trigger`].
pub type Requests<K> = mpsc::UnboundedReceiver<ReconcileRequest<K>>;

/// A queue that is not open yet, and its end. Requests for one object collapse in the scheduler behind it, so its length is bounded by the
/// number of changes between two of its polls.
pub fn channel<K: Resource>() -> (Trigger<K>, Requests<K>) {
    let (queue, requests) = mpsc::unbounded();
    let open = Arc::default();
    (Trigger { queue, open }, requests)
}

#[derive(Debug, Error)]
enum Defect {
    #[error("the turn panicked")]
    Panic,
    #[error("the turn took longer than {} s", TURN.as_secs())]
    Overrun,
}

/// Runs turns until cancelled, then lets the running ones end.
///
/// Every turn gives the time of the next: a later event replaces it by an earlier one, never by none.
pub async fn run<K, F>(
    store: Store<K>,
    requests: Requests<K>,
    concurrency: u16,
    metrics: Metrics,
    pulse: Pulse,
    cancel: CancellationToken,
    turn: F,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
    F: Fn(Arc<K>) -> BoxFuture<'static, Duration> + Send + Sync + 'static,
{
    let kind = K::kind(&()).into_owned();
    let requests = futures::stream::select(requests, rounds())
        .map(Ok::<_, Infallible>)
        .take_until(cancel.cancelled_owned());
    let turns = applier(
        move |object, _| guarded(turn(object)),
        |_, _, _: Arc<()>| Action::requeue(AFTER_DEFECT),
        Arc::new(()),
        store,
        requests,
        Config::default().concurrency(concurrency),
    );
    turns
        .for_each(|result| {
            pulse.beat();
            match result {
                Ok(_) => metrics.turn(&kind, "ok"),
                // Asked for, and gone before its turn came: nothing to do.
                Err(kube::runtime::controller::Error::ObjectNotFound(_)) => {}
                Err(error) => {
                    metrics.turn(&kind, "defect");
                    tracing::error!(kind, %error, "turn failed");
                }
            }
            futures::future::ready(())
        })
        .await;
}

/// Requests for an object that no apiserver takes, since it has no name. That it is not found comes back through channel,
/// scheduler and runner.
fn rounds<K: Resource<DynamicType = ()>>() -> impl futures::Stream<Item = ReconcileRequest<K>> {
    let ticks = tokio::time::interval(ROUND);
    futures::stream::unfold(ticks, |mut ticks| async {
        ticks.tick().await;
        let reason = ReconcileReason::Custom {
            reason: String::new(),
        };
        let obj_ref = ObjectRef::new("");
        Some((ReconcileRequest { obj_ref, reason }, ticks))
    })
}

/// A turn in a task of its own, so that a panic or an overrun ends that turn and nothing else.
fn guarded(turn: BoxFuture<'static, Duration>) -> BoxFuture<'static, Result<Action, Defect>> {
    let task = AbortOnDropHandle::new(tokio::spawn(tokio::time::timeout(TURN, turn)));
    Box::pin(async move {
        match task.await {
            Ok(Ok(again)) => Ok(Action::requeue(again)),
            Ok(Err(_)) => Err(Defect::Overrun),
            Err(_) => Err(Defect::Panic),
        }
    })
}

#[cfg(test)]
mod tests;
