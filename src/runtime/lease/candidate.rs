//! A process that waits for the Lease of its shard.
//!
//! It lists all Leases of the operator twice per renewal period. It takes the Lease of its shard once that is free, unless a process
//! holds a Lease of another number of shards: such a process may act on the same namespaces.

use super::observed::Observed;
use super::{Lease, Leases, Object, Settings, record};
use crate::runtime::kubernetes::KubeError;
use crate::runtime::{Heartbeat, chain};
use jiff::Timestamp;
use kube::{Api, Client, ResourceExt};
use rand::RngExt;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// One process that waits for the Lease of its shard.
#[derive(Debug)]
pub struct Candidate {
    leases: Leases,
    settings: Settings,
    heartbeat: Heartbeat,
    observed: Observed,
    /// The holder that the last log line named.
    logged: String,
}

/// The Lease, held by this process.
#[derive(Debug)]
pub struct Won {
    /// The Lease to renew.
    pub lease: Lease,
    /// The end of the term, counted from the beginning of the write.
    pub until: Instant,
}

/// The result of one observation of the Leases.
enum Round {
    Won(Box<Won>),
    /// Nothing is expected to change for this time.
    Wait(Duration),
}

impl Candidate {
    /// A candidate that has not looked yet. Use a client of its own: neither its connections nor a term may be shared.
    pub fn new(client: Client, settings: Settings, heartbeat: Heartbeat) -> Self {
        Self {
            leases: Leases {
                api: Api::namespaced(client, &settings.namespace),
                deadline: settings.request_deadline(),
            },
            settings,
            heartbeat,
            observed: Observed::default(),
            logged: String::new(),
        }
    }

    /// Waits until this process holds the Lease.
    pub async fn win(&mut self) -> Won {
        loop {
            let pause = match self.round().await {
                Ok(Round::Won(won)) => return *won,
                Ok(Round::Wait(pause)) => pause,
                Err(error) => {
                    tracing::warn!(
                        error = chain(&error),
                        "the Leases could not be read or written: the Role in deploy/operator/leader-election.yaml grants the rights"
                    );
                    self.logged.clear();
                    self.settings.retry_period
                }
            };
            self.heartbeat.beat();
            let interval = self.interval();
            sleep(pause.clamp(interval / 10, interval)).await;
        }
    }

    /// Releases the Lease if a write without an answer took it. Best effort, within the deadline of one request.
    pub async fn leave(mut self) {
        let deadline = self.settings.request_deadline();
        let released = timeout(deadline, async {
            let begun = Instant::now();
            if let Ok(Some(lease)) = self.observe().await
                && record::holder(&lease) == self.settings.identity
            {
                self.held(lease, begun).release().await;
            }
        });
        if released.await.is_err() {
            tracing::warn!(
                "the Lease could not be read: other processes may wait until it is stale"
            );
        }
    }

    /// Twice per renewal period: a Lease is taken only after an observation has found it free.
    fn interval(&self) -> Duration {
        self.settings.retry_period / 2
    }

    async fn round(&mut self) -> Result<Round, KubeError> {
        let found = self.observe().await?;
        let Some((holder, until)) = self.observed.other_holder(&self.settings) else {
            return self.take(found).await;
        };
        if self.logged != holder {
            tracing::info!(holder, "standing by");
            self.logged = holder;
        }
        Ok(Round::Wait(until.duration_since(Instant::now())))
    }

    /// Observes all Leases. Returns the one of our shard.
    async fn observe(&mut self) -> Result<Option<Object>, KubeError> {
        let leases = self.leases.list().await?;
        self.heartbeat.beat();
        self.observed.record(&leases);
        let name = self.settings.lease();
        let mut leases = leases.into_iter();
        Ok(leases.find(|lease| lease.name_any() == name))
    }

    async fn take(&mut self, found: Option<Object>) -> Result<Round, KubeError> {
        let begun = Instant::now();
        let name = self.settings.lease();
        let taken = match found {
            None => {
                let fresh = record::fresh(name, &self.settings, Timestamp::now());
                self.leases.create(&fresh).await
            }
            Some(found) => {
                let taken = record::taken(found, &self.settings, Timestamp::now());
                let take = self.leases.replace("take the Lease", &name, &taken);
                take.await
            }
        };
        let lease = match taken {
            Ok(own) => self.held(own, begun),
            // Another process wrote at the same time.
            Err(error) if error.is_conflict() || error.is_not_found() => {
                return Ok(Round::Wait(Duration::ZERO));
            }
            Err(error) => return Err(error),
        };
        let until = begun + self.settings.renew_deadline;
        let observed = self.observe().await;
        // If two requests took this long, a third one must still fit, or the term ends before the first renewal.
        let is_late = begun.elapsed().mul_f64(1.5) > self.settings.renew_deadline;
        let is_contested = self.observed.other_holder(&self.settings).is_some();
        if is_late || is_contested || observed.is_err() {
            lease.release().await;
            return observed.map(|_| Round::Wait(self.random_pause()));
        }
        Ok(Round::Won(Box::new(Won { lease, until })))
    }

    /// A random pause, so that two candidates that gave way to each other do not try again at the same time.
    fn random_pause(&self) -> Duration {
        let part = rand::rng().random_range(0.1..1.0);
        self.interval().mul_f64(part)
    }

    fn held(&self, own: Object, begun: Instant) -> Lease {
        Lease {
            leases: self.leases.clone(),
            name: self.settings.lease(),
            settings: self.settings.clone(),
            heartbeat: self.heartbeat.clone(),
            begun,
            own: Some(own),
        }
    }
}
