//! What is counted of all objects when somebody asks, and not with each change.

use super::register::Register;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// How all objects stand, as the watches and the listings show them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fleet {
    /// Instances by the state and the reason of their condition Ready.
    pub instances: BTreeMap<Standing, u32>,
    /// Accounts likewise.
    pub accounts: BTreeMap<Standing, u32>,
    /// Instances whose server differs from the spec in a way that only a person may resolve.
    pub drifted: u32,
    /// Operations that are under way, by verb; each verb is there, also with none.
    pub operations: BTreeMap<&'static str, Open>,
    /// What the service's listings show.
    pub listings: Listings,
}

/// How an object stands: words of a fixed set, so that they can be labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub struct Standing {
    /// `ready`, `reconciling`, `stalled` or `unknown`.
    pub state: &'static str,
    /// A reason of the conditions, or `Unknown`.
    pub reason: &'static str,
}

/// Operations that are under way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Open {
    /// How many.
    pub count: u32,
    /// How long ago the oldest one was announced.
    pub oldest: Duration,
}

/// What the listings of all services show.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Listings {
    /// Servers.
    pub servers: u32,
    /// Those among them that no Instance owns.
    pub unowned: u32,
    /// Places whose listing fails.
    pub failing: u32,
    /// How old the newest whole listing is in the place where it is oldest.
    pub oldest: Duration,
}

impl Listings {
    /// Those of two services together.
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

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct VerbLabel {
    verb: &'static str,
}

type Seconds = Gauge<f64, AtomicU64>;

/// The gauges that show a [`Fleet`].
#[derive(Clone)]
pub(super) struct FleetGauges {
    instances: Family<Standing, Gauge>,
    accounts: Family<Standing, Gauge>,
    drifted: Gauge,
    open: Family<VerbLabel, Gauge>,
    open_age: Family<VerbLabel, Seconds>,
    servers: Gauge,
    unowned: Gauge,
    failing: Gauge,
    inventory_age: Seconds,
}

impl FleetGauges {
    pub(super) fn of(all: &mut Register) -> Self {
        Self {
            instances: all.own(
                "instances",
                &["state", "reason"],
                "Instances by the state and the reason of their condition Ready",
                Family::default(),
            ),
            accounts: all.own(
                "accounts",
                &["state", "reason"],
                "Accounts by the state and the reason of their condition Ready",
                Family::default(),
            ),
            drifted: all.own(
                "instances_drifted",
                &[],
                "Instances whose server differs from the spec in a way that only a person may resolve",
                Gauge::default(),
            ),
            open: all.own(
                "operations_open",
                &["verb"],
                "Operations under way at the service",
                Family::default(),
            ),
            open_age: all.own(
                "operations_open_oldest_seconds",
                &["verb"],
                "How long ago the oldest operation under way was announced",
                Family::default(),
            ),
            servers: all.own(
                "servers_listed",
                &[],
                "Servers in the newest listings of all watched zones",
                Gauge::default(),
            ),
            unowned: all.own(
                "servers_unowned",
                &[],
                "Servers among them that no Instance owns",
                Gauge::default(),
            ),
            failing: all.own(
                "inventory_zones_failing",
                &[],
                "Watched zones whose newest listing failed",
                Gauge::default(),
            ),
            inventory_age: all.own(
                "inventory_age_seconds",
                &[],
                "Age of the newest whole listing, in the watched zone where it is oldest",
                Gauge::default(),
            ),
        }
    }

    /// Shows this, and nothing of what was shown before.
    pub(super) fn show(&self, fleet: &Fleet) {
        for (family, counted) in [
            (&self.instances, &fleet.instances),
            (&self.accounts, &fleet.accounts),
        ] {
            family.clear();
            for (standing, count) in counted {
                family.get_or_create(standing).set(i64::from(*count));
            }
        }
        for (verb, open) in &fleet.operations {
            let label = VerbLabel { verb };
            self.open.get_or_create(&label).set(open.count.into());
            let age = self.open_age.get_or_create(&label);
            age.set(open.oldest.as_secs_f64());
        }
        self.drifted.set(fleet.drifted.into());
        let Listings {
            servers,
            unowned,
            failing,
            oldest,
        } = fleet.listings;
        self.servers.set(servers.into());
        self.unowned.set(unowned.into());
        self.failing.set(failing.into());
        self.inventory_age.set(oldest.as_secs_f64());
    }
}
