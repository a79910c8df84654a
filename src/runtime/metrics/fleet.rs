//! Counts of all objects that are computed for each scrape instead of at each change.

use super::register::Register;
use crate::runtime::Shard;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// The state of all objects, according to watches and listings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fleet {
    /// Instances by the state and the reason of their condition Ready.
    pub instances: BTreeMap<Standing, u32>,
    /// Accounts, likewise.
    pub accounts: BTreeMap<Standing, u32>,
    /// Instances whose server differs from the spec in a way that only a user may resolve.
    pub drifted: u32,
    /// Operations in flight, by verb; a verb without any has an entry as well.
    pub operations: BTreeMap<&'static str, Open>,
    /// The state of the service's listings.
    pub listings: Listings,
}

/// The state of an object: words of a fixed set, so that they can be labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Standing {
    /// `ready`, `reconciling`, `stalled` or `unknown`.
    pub state: &'static str,
    /// A reason of the conditions, or `Unknown`.
    pub reason: &'static str,
}

/// Operations in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Open {
    pub count: u32,
    /// The time since the oldest one was announced.
    pub oldest: Duration,
}

/// The state of the listings of all services.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Listings {
    pub servers: u32,
    /// The number of servers that no Instance owns.
    pub unowned: u32,
    /// The number of places whose listing fails.
    pub failing: u32,
    /// The age of the newest complete listing, in the place where that is oldest.
    pub oldest: Duration,
}

impl Listings {
    /// The sum of two services.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            servers: self.servers.saturating_add(other.servers),
            unowned: self.unowned.saturating_add(other.unowned),
            failing: self.failing.saturating_add(other.failing),
            oldest: self.oldest.max(other.oldest),
        }
    }
}

// All counts are per shard. While a shard moves, two processes may report it: a query that adds up shards takes the maximum of
// each shard first.

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct ShardLabel {
    pub(super) shard: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StandingLabel {
    shard: String,
    state: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct VerbLabel {
    shard: String,
    verb: &'static str,
}

type OfShard<M> = Family<ShardLabel, M>;

type Seconds = Gauge<f64, AtomicU64>;

/// The gauges for a [`Fleet`].
#[derive(Clone)]
pub(super) struct FleetGauges {
    instances: Family<StandingLabel, Gauge>,
    accounts: Family<StandingLabel, Gauge>,
    drifted: OfShard<Gauge>,
    open: Family<VerbLabel, Gauge>,
    open_age: Family<VerbLabel, Seconds>,
    servers: OfShard<Gauge>,
    unowned: OfShard<Gauge>,
    failing: OfShard<Gauge>,
    inventory_age: OfShard<Seconds>,
}

impl FleetGauges {
    pub(super) fn of(all: &mut Register) -> Self {
        Self {
            instances: all.own(
                "instances",
                &["shard", "state", "reason"],
                "Instances by the state and the reason of their condition Ready",
                Family::default(),
            ),
            accounts: all.own(
                "accounts",
                &["shard", "state", "reason"],
                "Accounts by the state and the reason of their condition Ready",
                Family::default(),
            ),
            drifted: all.own(
                "instances_drifted",
                &["shard"],
                "Instances whose server differs from the spec in a way that only a user may resolve",
                Family::default(),
            ),
            open: all.own(
                "operations_in_progress",
                &["shard", "verb"],
                "Operations in progress at the service",
                Family::default(),
            ),
            open_age: all.own(
                "operations_in_progress_oldest_age_seconds",
                &["shard", "verb"],
                "Age of the oldest operation in progress",
                Family::default(),
            ),
            servers: all.own(
                "servers_listed",
                &["shard"],
                "Servers in the newest listings of all watched zones",
                Family::default(),
            ),
            unowned: all.own(
                "servers_unowned",
                &["shard"],
                "Servers in these listings that no Instance owns",
                Family::default(),
            ),
            failing: all.own(
                "inventory_failed_zones",
                &["shard"],
                "Watched zones whose newest listing failed",
                Family::default(),
            ),
            inventory_age: all.own(
                "inventory_age_seconds",
                &["shard"],
                "Age of the last complete listing of a watched zone; the highest of all zones",
                Family::default(),
            ),
        }
    }

    /// Shows the fleet of a shard, and removes the former values.
    pub(super) fn show(&self, shard: Shard, fleet: &Fleet) {
        for family in [&self.instances, &self.accounts] {
            family.clear();
        }
        let shard = &shard.to_string();
        for (family, counted) in [
            (&self.instances, &fleet.instances),
            (&self.accounts, &fleet.accounts),
        ] {
            for (Standing { state, reason }, count) in counted {
                let shard = shard.clone();
                let label = StandingLabel {
                    shard,
                    state,
                    reason,
                };
                family.get_or_create(&label).set(i64::from(*count));
            }
        }
        for (verb, open) in &fleet.operations {
            let label = VerbLabel {
                shard: shard.clone(),
                verb,
            };
            self.open.get_or_create(&label).set(open.count.into());
            let age = self.open_age.get_or_create(&label);
            age.set(open.oldest.as_secs_f64());
        }
        let Listings {
            servers,
            unowned,
            failing,
            oldest,
        } = fleet.listings;
        let label = ShardLabel {
            shard: shard.clone(),
        };
        for (family, count) in [
            (&self.drifted, fleet.drifted),
            (&self.servers, servers),
            (&self.unowned, unowned),
            (&self.failing, failing),
        ] {
            family.get_or_create(&label).set(count.into());
        }
        let age = self.inventory_age.get_or_create(&label);
        age.set(oldest.as_secs_f64());
    }
}
