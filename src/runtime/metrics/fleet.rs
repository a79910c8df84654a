//! Counts of all objects that are computed for each scrape instead of at each change.

use super::Metrics;
use crate::runtime::Shard;
use std::collections::BTreeMap;
use std::time::Duration;

/// The state of all objects, according to watches and listings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fleet {
    /// Instances by the state and the reason of their condition Ready.
    pub instances: BTreeMap<ObjectState, u32>,
    /// Accounts, likewise.
    pub accounts: BTreeMap<ObjectState, u32>,
    /// Instances whose server differs from the spec in a way that only a user may resolve.
    pub drifted: u32,
    /// Operations in progress, by verb; a verb without any has an entry as well.
    pub operations: BTreeMap<&'static str, Open>,
    /// The state of the service's listings.
    pub listings: Listings,
}

/// The state of an object: words of a fixed set, so that they can be labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectState {
    /// `ready`, `reconciling`, `stalled` or `unknown`.
    pub state: &'static str,
    /// A reason of the conditions, or `Unknown`.
    pub reason: &'static str,
}

/// Operations in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Open {
    pub count: u32,
    /// The time since the oldest one was announced.
    pub oldest: Duration,
}

/// The state of the listings of all services.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Listings {
    /// The number of servers that no Instance owns.
    pub unowned: u32,
    /// The age of the newest complete listing, in the zone where that is oldest.
    pub oldest: Duration,
}

impl Listings {
    /// The sum of two services.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            unowned: self.unowned.saturating_add(other.unowned),
            oldest: self.oldest.max(other.oldest),
        }
    }
}

impl Metrics {
    /// Shows the state of the fleet of a shard. During a handover two processes may show it: a query that adds up shards takes the
    /// maximum of each shard first.
    pub(super) fn show(&self, shard: Shard, fleet: &Fleet) {
        let inner = &*self.0;
        let shard = &*shard.to_string();
        for (gauges, counts) in [
            (&inner.instances, &fleet.instances),
            (&inner.accounts, &fleet.accounts),
        ] {
            gauges.clear();
            for (ObjectState { state, reason }, count) in counts {
                gauges.set([shard, state, reason], *count);
            }
        }
        for (verb, open) in &fleet.operations {
            inner.open.set([shard, verb], open.count);
            let age = inner.open_age.with([shard, verb]);
            age.set(open.oldest.as_secs_f64());
        }
        let Listings { unowned, oldest } = fleet.listings;
        inner.drifted.set([shard], fleet.drifted);
        inner.unowned.set([shard], unowned);
        inner.inventory_age.with([shard]).set(oldest.as_secs_f64());
    }
}
