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
//! has taken one lists all of them before it acts, and releases its own if one of another number is held: of two processes that
//! do so, at least the one that looked last sees the other. See [`Candidate`].

mod candidate;
mod observed;
mod record;
mod settings;

pub use candidate::{Candidate, Won};
pub use settings::Settings;

use super::kubernetes::{KubeError, call_within};
use super::{Heartbeat, Term, chain};
use crate::api::names::MANAGER;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease as Object;
use kube::Api;
use kube::api::{ListParams, PostParams};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// One process's hold on a Lease.
#[derive(Debug)]
pub struct Lease {
    leases: Leases,
    name: String,
    settings: Settings,
    heartbeat: Heartbeat,
    /// When the write that acquired it began.
    begun: Instant,
    /// The Lease as our own last write left it.
    own: Option<Object>,
}

/// Why a term ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// No renewal succeeded in time.
    #[error("the Lease could not be renewed in time")]
    NotRenewed,
    /// Another process wrote it.
    #[error("the Lease was taken by {by:?}")]
    Taken {
        /// The new holder.
        by: String,
    },
    /// It was deleted.
    #[error("the Lease was deleted")]
    Deleted,
}

impl Lease {
    /// Renews until `done`, then returns the Lease so that it can be released; or returns why the term is over.
    ///
    /// # Errors
    /// The term is over. It ends by the clock even while this future hangs or is not polled.
    pub async fn keep(mut self, term: &Term, done: &CancellationToken) -> Result<Self, Lost> {
        let mut next = self.begun + self.settings.retry_period;
        loop {
            tokio::select! {
                // First: the caller that cancels `done` also ends the term.
                biased;
                () = done.cancelled() => return Ok(self),
                () = term.ended() => return Err(Lost::NotRenewed),
                () = sleep_until(next) => {}
            }
            let began = Instant::now();
            let renewed = tokio::select! {
                biased;
                () = done.cancelled() => return Ok(self),
                () = term.ended() => return Err(Lost::NotRenewed),
                renewed = self.renew() => renewed,
            };
            self.heartbeat.beat();
            match renewed {
                Ok(()) if term.lasts_until(began + self.settings.renew_deadline) => {}
                Ok(()) => return Err(Lost::NotRenewed),
                Err(NoRenewal::Lost(lost)) => {
                    term.end();
                    return Err(lost);
                }
                Err(NoRenewal::Failed(error)) => {
                    tracing::warn!(
                        lease = self.name,
                        error = chain(&error),
                        "the Lease was not renewed, trying again"
                    );
                }
            }
            let earliest = Instant::now() + self.settings.retry_period / 4;
            next = earliest.max(began + self.settings.retry_period);
        }
    }

    /// Releases the Lease if it is ours, so that another process need not wait until it is stale. Best effort, within the deadline of
    /// one request.
    pub async fn release(mut self) {
        let (deadline, name) = (self.settings.request_deadline(), self.name.clone());
        let released = timeout(deadline, async {
            loop {
                match self.give_up().await {
                    Ok(true) => return,
                    // Another program changed it in the meantime, or a renewal of ours took effect without an answer.
                    Ok(false) => {}
                    Err(error) => {
                        tracing::warn!(
                            lease = self.name,
                            error = chain(&error),
                            "the Lease was not released"
                        );
                        sleep(self.settings.retry_period / 4).await;
                    }
                }
            }
        });
        if released.await.is_err() {
            tracing::warn!(
                lease = name,
                "the Lease was not released: others wait until it is stale"
            );
        }
    }

    /// One renewal: a single request unless another program writes the Lease, for example a label.
    async fn renew(&mut self) -> Result<(), NoRenewal> {
        let known = match self.own.take() {
            Some(known) => known,
            None => self.own_as_it_stands().await?,
        };
        let renewed = match self.write(known).await {
            Err(error) if error.is_conflict() || error.is_not_found() => {
                let known = self.own_as_it_stands().await?;
                self.write(known).await
            }
            renewed => renewed,
        };
        // The effect of a failed write is unknown: the Lease is read before the next write.
        self.own = Some(renewed.map_err(NoRenewal::Failed)?);
        Ok(())
    }

    async fn write(&self, known: Object) -> Result<Object, KubeError> {
        let renewed = record::taken(known, &self.settings, Timestamp::now());
        let written = self.leases.replace("renew the Lease", &self.name, &renewed);
        written.await
    }

    /// The current Lease, if it is still ours.
    async fn own_as_it_stands(&self) -> Result<Object, NoRenewal> {
        let found = self.leases.read(&self.name);
        let found = found.await.map_err(NoRenewal::Failed)?;
        let found = found.ok_or(NoRenewal::Lost(Lost::Deleted))?;
        match record::holder(&found) {
            by if by == self.settings.identity => Ok(found),
            by => Err(NoRenewal::Lost(Lost::Taken { by: by.to_owned() })),
        }
    }

    /// Gives up the Lease; returns whether it is certain that it is no longer ours.
    async fn give_up(&mut self) -> Result<bool, KubeError> {
        let known = match self.own.take() {
            Some(known) => known,
            None => match self.own_as_it_stands().await {
                Ok(known) => known,
                Err(NoRenewal::Lost(_)) => return Ok(true),
                Err(NoRenewal::Failed(error)) => return Err(error),
            },
        };
        let released = record::released(known, Timestamp::now());
        let write = self
            .leases
            .replace("release the Lease", &self.name, &released);
        match write.await {
            Ok(_) => Ok(true),
            Err(error) if error.is_conflict() || error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The Leases of one namespace; each request has the deadline of an election.
#[derive(Clone, Debug)]
struct Leases {
    api: Api<Object>,
    deadline: Duration,
}

impl Leases {
    async fn list(&self) -> Result<Vec<Object>, KubeError> {
        let all = ListParams::default();
        let list = self.call("list the Leases", self.api.list(&all)).await?;
        Ok(list.items)
    }

    async fn read(&self, name: &str) -> Result<Option<Object>, KubeError> {
        self.call("read the Lease", self.api.get_opt(name)).await
    }

    async fn create(&self, fresh: &Object) -> Result<Object, KubeError> {
        let params = params();
        let created = self.api.create(&params, fresh);
        self.call("create the Lease", created).await
    }

    async fn replace(
        &self,
        what: &'static str,
        name: &str,
        object: &Object,
    ) -> Result<Object, KubeError> {
        let params = params();
        self.call(what, self.api.replace(name, &params, object))
            .await
    }

    async fn call<T>(
        &self,
        what: &'static str,
        future: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, KubeError> {
        call_within(self.deadline, what, future).await
    }
}

fn params() -> PostParams {
    PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    }
}

enum NoRenewal {
    Lost(Lost),
    Failed(KubeError),
}

#[cfg(test)]
mod tests;
