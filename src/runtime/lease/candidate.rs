//! A process that waits for the Lease of its shard.
//!
//! It lists the Leases of the operator's namespace about twice per retry period. It takes the Lease of its shard once that is
//! free, unless a process holds a Lease of another number of shards: such a process may act on the same namespaces.

use super::observed::Observed;
use super::{Lease, LeaseSettings, Leases, Object, record};
use crate::runtime::{Heartbeat, KubeError, chain};
use jiff::Timestamp;
use kube::{Api, Client, ResourceExt};
use rand::RngExt;
use std::ops::ControlFlow::{self, Break, Continue};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// One process that waits for the Lease of its shard.
#[derive(Debug)]
pub struct Candidate {
    leases: Leases,
    observed: Observed,
    /// The holder that the last log line named.
    logged: String,
}

/// The result of one observation of the Leases: the Lease that was taken, or the pause before the next observation.
type Round = ControlFlow<Lease, Duration>;

impl Candidate {
    /// A candidate that has not read the Leases yet. Use a client of its own: other calls must not delay its requests,
    /// and it must write before a term begins.
    pub fn new(client: Client, settings: LeaseSettings, heartbeat: Heartbeat) -> Self {
        let leases = Leases {
            api: Api::namespaced(client, &settings.namespace),
            settings,
            heartbeat,
        };
        Self {
            leases,
            observed: Observed::default(),
            logged: String::new(),
        }
    }

    /// Waits until this process holds the Lease.
    pub async fn win(&mut self) -> Lease {
        loop {
            let pause = match self.round().await {
                Ok(Break(lease)) => return lease,
                Ok(Continue(pause)) => pause,
                Err(error) => {
                    tracing::warn!(
                        error = chain(&error),
                        "the Leases could not be read or written; deploy/operator/leader-election.yaml shows the necessary rights"
                    );
                    self.logged.clear();
                    self.interval()
                }
            };
            self.leases.heartbeat.beat();
            let interval = self.interval();
            sleep(pause.clamp(interval / 10, interval)).await;
        }
    }

    /// The longest pause between two observations: half a retry period, since a Lease is taken only after one has found it free.
    fn interval(&self) -> Duration {
        self.leases.settings.retry_period / 2
    }

    async fn round(&mut self) -> Result<Round, KubeError> {
        let found = self.observe().await?;
        let Some((holder, until)) = self.observed.other_holder(&self.leases.settings) else {
            return self.take(found).await;
        };
        if self.logged != holder {
            tracing::info!(holder, "standing by");
            self.logged = holder;
        }
        Ok(Continue(until.duration_since(Instant::now())))
    }

    /// Observes all Leases. Returns the one of our shard.
    async fn observe(&mut self) -> Result<Option<Object>, KubeError> {
        let leases = self.leases.list().await?;
        self.leases.heartbeat.beat();
        self.observed.record(&leases);
        let name = self.leases.settings.lease();
        let mut leases = leases.into_iter();
        Ok(leases.find(|lease| lease.name_any() == name))
    }

    async fn take(&mut self, found: Option<Object>) -> Result<Round, KubeError> {
        let (begun, settings) = (Instant::now(), &self.leases.settings);
        let lease = found.unwrap_or_else(|| record::fresh(settings.lease()));
        let taken = record::taken(lease, settings, Timestamp::now());
        let own = match self.leases.write("take the Lease", &taken).await {
            Ok(own) => Some(own),
            // Another process wrote at the same time.
            Err(error) if error.is_swap_lost() => return Ok(Continue(Duration::ZERO)),
            Err(error) => return Err(error),
        };
        let leases = self.leases.clone();
        let lease = Lease { leases, begun, own };
        let observed = self.observe().await;
        let is_contested = self.observed.other_holder(&self.leases.settings).is_some();
        if is_contested || observed.is_err() {
            lease.release().await;
            // Random, so that two candidates that gave way to each other do not try again at the same time.
            let part = rand::rng().random_range(0.1..1.0);
            return observed.map(|_| Continue(self.interval().mul_f64(part)));
        }
        Ok(Break(lease))
    }
}
