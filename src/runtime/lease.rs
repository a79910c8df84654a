//! The election of the process that acts on a shard: one Lease of coordination.k8s.io per shard, written only by
//! compare-and-swap.
//!
//! Clocks of other machines are irrelevant. A Lease is stale once *this process* has seen it unchanged for its duration, by its
//! own monotonic clock. A holder counts from the *beginning* of its last successful renewal, and stops well before other
//! processes may consider the Lease stale. The times in the Lease are only informative.
//!
//! ```text
//! holder   renewal begins ──── renew deadline (10 s): the term is over, by the clock alone
//! others        see the renewal ──────── lease duration (15 s) ────────► take it
//! ```
//!
//! Processes with different numbers of shards, as during a rollout that changes the number, share no Lease. So a process that
//! has taken one lists all of them before it acts, and releases its own if another process holds one of another number of shards.
//! If two processes do so, at least the one that lists last sees the other. See [`Candidate`].

mod candidate;
mod observed;
mod record;
mod settings;

pub use candidate::Candidate;
pub use settings::LeaseSettings;

use super::kubernetes::call_within;
use super::{Heartbeat, KubeError, Term, chain};
use crate::api::names::MANAGER;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease as Object;
use kube::Api;
use kube::api::{ListParams, PostParams};
use thiserror::Error;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// One process's hold on a Lease.
#[derive(Debug)]
pub struct Lease {
    leases: Leases,
    /// When the write that acquired it began.
    begun: Instant,
    /// The Lease as our own last write left it. None if that write failed or its effect is unknown: the Lease is read again.
    own: Option<Object>,
}

/// Why a write of our Lease did not succeed.
#[derive(Debug, Error)]
enum LeaseError {
    #[error("{0}")]
    Lost(&'static str),
    #[error(transparent)]
    Failed(#[from] KubeError),
}

impl Lease {
    /// The end of the term that begins with this Lease, counted from the beginning of the write.
    pub fn until(&self) -> Instant {
        self.begun + self.leases.settings.renew_deadline
    }

    /// Renews the Lease until `done`, and then releases it. If the term is over before, ends without a release. The term ends by
    /// the clock even while this future hangs or is not polled.
    pub async fn keep(mut self, term: Term, done: CancellationToken) {
        let settings = self.leases.settings.clone();
        let mut next = self.begun + settings.retry_period;
        loop {
            let renewal = async {
                sleep_until(next).await;
                let began = Instant::now();
                (began, self.renew().await)
            };
            let (began, renewed) = tokio::select! {
                // First: the caller that cancels `done` also ends the term.
                biased;
                () = done.cancelled() => return self.release().await,
                _ = term.ended() => return,
                renewal = renewal => renewal,
            };
            self.leases.heartbeat.beat();
            let earliest = Instant::now() + settings.retry_period / 4;
            next = earliest.max(began + settings.retry_period);
            match renewed {
                Ok(()) if term.extend_until(began + settings.renew_deadline) => {}
                Ok(()) => return,
                Err(LeaseError::Lost(reason)) => return term.end(reason),
                // Another program changed the Lease, or an earlier renewal took effect late.
                Err(LeaseError::Failed(error)) if error.is_swap_lost() => next = earliest,
                Err(LeaseError::Failed(error)) => {
                    tracing::warn!(
                        error = chain(&error),
                        "the Lease was not renewed, trying again"
                    );
                }
            }
        }
    }

    /// Releases the Lease if it is ours, so that another process need not wait until it is stale. Best effort, within the deadline
    /// of one request.
    async fn release(mut self) {
        let (deadline, pause) = (
            self.leases.settings.request_deadline(),
            self.leases.settings.retry_period / 4,
        );
        let released = timeout(deadline, async {
            // Another program may change the Lease meanwhile, and a renewal may take effect without an answer.
            while let Err(LeaseError::Failed(error)) = self.give_up().await {
                tracing::warn!(
                    error = chain(&error),
                    "the Lease was not released, trying again"
                );
                sleep(pause).await;
            }
        });
        if released.await.is_err() {
            tracing::warn!("the Lease was not released: others wait until it is stale");
        }
    }

    async fn renew(&mut self) -> Result<(), LeaseError> {
        let known = self.take_own().await?;
        let renewed = record::taken(known, &self.leases.settings, Timestamp::now());
        self.own = Some(self.leases.write("renew the Lease", &renewed).await?);
        Ok(())
    }

    async fn give_up(&mut self) -> Result<(), LeaseError> {
        let known = self.take_own().await?;
        let released = record::released(known, Timestamp::now());
        self.leases.write("release the Lease", &released).await?;
        Ok(())
    }

    /// The Lease for the next write: as our last write left it, or else as it is now, if it is still ours.
    async fn take_own(&mut self) -> Result<Object, LeaseError> {
        if let Some(own) = self.own.take() {
            return Ok(own);
        }
        let found = self.leases.read().await?;
        let found = found.ok_or(LeaseError::Lost("the Lease was deleted"))?;
        let holder = record::holder(&found);
        if holder == self.leases.settings.identity {
            return Ok(found);
        }
        tracing::warn!(holder, "this process does not hold the Lease any more");
        Err(LeaseError::Lost("the Lease was taken"))
    }
}

/// The Leases of the operator, as one process uses them. The settings give the deadline of each request.
#[derive(Clone, Debug)]
struct Leases {
    api: Api<Object>,
    settings: LeaseSettings,
    heartbeat: Heartbeat,
}

impl Leases {
    async fn list(&self) -> Result<Vec<Object>, KubeError> {
        let all = ListParams::default();
        let list = self.call("list the Leases", self.api.list(&all)).await?;
        Ok(list.items)
    }

    /// The Lease of our shard.
    async fn read(&self) -> Result<Option<Object>, KubeError> {
        let name = self.settings.lease();
        self.call("read the Lease", self.api.get_opt(&name)).await
    }

    /// Writes the Lease of our shard by compare-and-swap: creates it if it was not read before.
    async fn write(&self, operation: &'static str, lease: &Object) -> Result<Object, KubeError> {
        let params = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        let name = self.settings.lease();
        match &lease.metadata.resource_version {
            None => self.call(operation, self.api.create(&params, lease)).await,
            Some(_) => {
                let replaced = self.api.replace(&name, &params, lease);
                self.call(operation, replaced).await
            }
        }
    }

    async fn call<T>(
        &self,
        operation: &'static str,
        future: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, KubeError> {
        call_within(self.settings.request_deadline(), operation, future).await
    }
}

#[cfg(test)]
mod tests;
