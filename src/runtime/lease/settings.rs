//! The name, shard and identity for an election, and its times.

use crate::runtime::Shard;
use std::time::Duration;

/// The renew deadline must be longer than this number of retry periods, so that there is time for a renewal. client-go has the
/// same factor.
const RETRY_PERIODS_MIN: f64 = 1.2;

/// The name, shard and identity for an election, and its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Name of the Lease; with several shards, the beginning of the names of their Leases.
    pub name: String,
    /// The shard on which this process acts.
    pub shard: Shard,
    /// Namespace of the Leases.
    pub namespace: String,
    /// Identifies this process uniquely, even among containers of the same name.
    pub identity: String,
    /// How long other processes wait after the last change that they saw, before they take the Lease.
    pub lease_duration: Duration,
    /// The time after the beginning of the last successful renewal at which the holder stops.
    pub renew_deadline: Duration,
    /// The time from the beginning of a renewal to the beginning of the next one.
    pub retry_period: Duration,
}

impl LeaseSettings {
    /// The name of the Lease of this process.
    pub fn lease(&self) -> String {
        self.shard.lease(&self.name)
    }

    /// Checks that the times do not contradict each other.
    ///
    /// # Errors
    /// The first contradiction, with the names of the flags.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.retry_period.is_zero() {
            Err("--leader-elect-retry-period must be longer than zero")
        } else if self.renew_deadline <= self.retry_period.mul_f64(RETRY_PERIODS_MIN) {
            Err(
                "--leader-elect-renew-deadline must be longer than 1.2 times --leader-elect-retry-period: there must be time for \
                 a renewal",
            )
        } else if self.lease_duration <= self.renew_deadline {
            Err(
                "--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline: the active process stops before \
                 another may begin",
            )
        } else {
            Ok(())
        }
    }

    /// Deadline of one request: with the default times, another one can begin after one that hangs, before the term is over.
    pub fn request_deadline(&self) -> Duration {
        self.renew_deadline / 2
    }

    /// The longest silence of a task that waits for the Lease or renews it: one try of three requests (take, list, release) and
    /// the pause before it, plus a large margin.
    pub fn silence(&self) -> Duration {
        self.request_deadline() * 3 + self.retry_period + Duration::from_secs(60)
    }
}
