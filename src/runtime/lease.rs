//! Which of several processes is the active one: a Lease of coordination.k8s.io, written only by compare-and-swap.
//!
//! No clock of another machine counts. A Lease is stale when *we* have seen it unchanged for as long as it is valid, by our
//! own monotonic clock; and a holder counts from the *beginning* of its last successful renewal and stops well before the others
//! may think so. What stands in the Lease's times is for people.
//!
//! ```text
//! holder   renewal begins ──── renew deadline (10 s): the term is over, by the clock alone
//! others        sees the renewal ──────── lease duration (15 s) ────────► takes it
//! ```

mod record;
mod settings;
#[cfg(test)]
mod tests;

pub use settings::{Problem, Settings};

use super::kubernetes::{KubeError, call_within};
use super::{Heartbeat, Term, chain};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease as Object, LeaseSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// One process's hold on the Lease, or its wish for it.
#[derive(Debug)]
pub struct Lease {
    api: Api<Object>,
    settings: Settings,
    heartbeat: Heartbeat,
    /// The record of another holder, and since when it has not changed before our eyes.
    seen: Option<(LeaseSpec, Instant)>,
    /// The Lease as our own last write left it.
    own: Option<Object>,
}

/// Why a term is over before anybody ended it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// No renewal went through in time.
    #[error("the Lease could not be renewed in time")]
    NotRenewed,
    /// Somebody else wrote it.
    #[error("the Lease was taken by {by:?}")]
    Taken {
        /// The new holder.
        by: String,
    },
    /// It was deleted.
    #[error("the Lease was deleted")]
    Deleted,
}

/// What an attempt brought.
enum Attempt {
    /// It is ours; the write began then.
    Ours(Instant),
    /// It is another's, at least until then.
    Others { holder: String, until: Instant },
    /// Somebody else wrote at the same time.
    Raced,
}

impl Lease {
    /// Nothing is asked for yet. The client should be one that nobody else uses: neither its connections nor its term.
    pub fn new(client: Client, settings: Settings, heartbeat: Heartbeat) -> Self {
        Self {
            api: Api::namespaced(client, &settings.namespace),
            settings,
            heartbeat,
            seen: None,
            own: None,
        }
    }

    /// Stands by until the Lease is ours; gives the end of the term, counted from the beginning of the write.
    pub async fn acquire(&mut self) -> Instant {
        let mut told = String::new();
        loop {
            let pause = match self.contend().await {
                Ok(Attempt::Ours(begun)) => return begun + self.settings.renew_deadline,
                Ok(Attempt::Others { holder, until }) => {
                    if told != holder {
                        tracing::info!(holder, "standing by");
                        told = holder;
                    }
                    until.duration_since(Instant::now())
                }
                Ok(Attempt::Raced) => Duration::ZERO,
                Err(error) => {
                    tracing::warn!(error = chain(&error), "the Lease could not be asked for");
                    told.clear();
                    self.settings.retry_period
                }
            };
            self.heartbeat.beat();
            // Twice in a period of renewal: what is seen late is taken late.
            let often = self.settings.retry_period / 2;
            sleep(pause.clamp(often / 10, often)).await;
        }
    }

    /// Renews until `done`, then gives the Lease back to release it; or tells why the term is over.
    ///
    /// # Errors
    /// The term is over. It ends by the clock also while this future hangs or is not polled.
    pub async fn keep(mut self, term: &Term, done: &CancellationToken) -> Result<Self, Lost> {
        let mut next = Instant::now() + self.settings.retry_period;
        loop {
            tokio::select! {
                // First: whoever is done ends the term as well.
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
                        error = chain(&error),
                        "the Lease was not renewed, trying again"
                    );
                }
            }
            let earliest = Instant::now() + self.settings.retry_period / 4;
            next = earliest.max(began + self.settings.retry_period);
        }
    }

    /// Gives the Lease up, if it is ours, so that another need not wait until it is stale. Best effort, within the deadline
    /// of one request.
    pub async fn release(mut self) {
        let deadline = self.settings.request_deadline();
        let released = timeout(deadline, async {
            loop {
                match self.give_up().await {
                    Ok(true) => return,
                    // Written by somebody else meanwhile, or a renewal of ours of which we had no answer.
                    Ok(false) => {}
                    Err(error) => {
                        tracing::warn!(error = chain(&error), "the Lease was not released");
                        sleep(self.settings.retry_period / 4).await;
                    }
                }
            }
        });
        if released.await.is_err() {
            tracing::warn!("the Lease was not released: others wait until it is stale");
        }
    }

    /// One attempt to get it.
    async fn contend(&mut self) -> Result<Attempt, KubeError> {
        let begun = Instant::now();
        let found = self.call("read the Lease", self.api.get_opt(&self.settings.name));
        let Some(found) = found.await? else {
            let fresh = record::fresh(&self.settings, Timestamp::now());
            let params = PostParams::default();
            let created = self.call("create the Lease", self.api.create(&params, &fresh));
            return match created.await {
                Ok(own) => Ok(self.took(own, begun)),
                Err(error) if error.is_conflict() => Ok(Attempt::Raced),
                Err(error) => Err(error),
            };
        };
        let spec = found.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        if !holder.is_empty() && holder != self.settings.identity {
            let until = self.stale_at(spec);
            if Instant::now() < until {
                return Ok(Attempt::Others { holder, until });
            }
        }
        // Counted from here: the wait for the answer above was no part of the write.
        let begun = Instant::now();
        let taken = record::taken(found, &self.settings, Timestamp::now());
        match self.replace("take the Lease", &taken).await {
            Ok(own) => Ok(self.took(own, begun)),
            Err(error) if error.is_conflict() => Ok(Attempt::Raced),
            Err(error) => Err(error),
        }
    }

    fn took(&mut self, own: Object, begun: Instant) -> Attempt {
        self.own = Some(own);
        self.seen = None;
        Attempt::Ours(begun)
    }

    /// When a record that another holds is stale: as long after we first saw it as the longer of what it says and what we
    /// are set to.
    fn stale_at(&mut self, spec: LeaseSpec) -> Instant {
        let valid = record::duration(&spec).max(self.settings.lease_duration);
        let since = match &self.seen {
            Some((same, since)) if *same == spec => *since,
            _ => Instant::now(),
        };
        self.seen = Some((spec, since));
        since + valid
    }

    /// One renewal: a single request as long as nobody else writes.
    async fn renew(&mut self) -> Result<(), NoRenewal> {
        let known = match self.own.take() {
            Some(known) => known,
            None => self.own_as_it_stands().await?,
        };
        let renewed = record::taken(known, &self.settings, Timestamp::now());
        // What a failed write left behind is not known: it is read before the next.
        let own = self.replace("renew the Lease", &renewed).await;
        match own {
            Ok(own) => {
                self.own = Some(own);
                Ok(())
            }
            Err(error) if error.is_conflict() || error.is_not_found() => {
                let known = self.own_as_it_stands().await?;
                self.own = Some(known);
                Err(NoRenewal::Failed(error))
            }
            Err(error) => Err(NoRenewal::Failed(error)),
        }
    }

    /// The Lease as it stands, if it is still ours.
    async fn own_as_it_stands(&self) -> Result<Object, NoRenewal> {
        let found = self.call("read the Lease", self.api.get_opt(&self.settings.name));
        let found = found.await.map_err(NoRenewal::Failed)?;
        let found = found.ok_or(NoRenewal::Lost(Lost::Deleted))?;
        match record::holder(&found) {
            by if by == self.settings.identity => Ok(found),
            by => Err(NoRenewal::Lost(Lost::Taken { by: by.to_owned() })),
        }
    }

    /// Whether it is settled that it is not ours any more.
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
        match self.replace("release the Lease", &released).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_conflict() || error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn replace(&self, what: &'static str, object: &Object) -> Result<Object, KubeError> {
        let params = PostParams {
            field_manager: Some(crate::api::names::MANAGER.to_owned()),
            ..PostParams::default()
        };
        self.call(what, self.api.replace(&self.settings.name, &params, object))
            .await
    }

    async fn call<T>(
        &self,
        what: &'static str,
        future: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, KubeError> {
        call_within(self.settings.request_deadline(), what, future).await
    }
}

enum NoRenewal {
    Lost(Lost),
    Failed(KubeError),
}
