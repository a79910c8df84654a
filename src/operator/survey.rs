//! Counts the states of all objects, from their briefs, when metrics are read.

use crate::api::{Account, Instance, Verb};
use crate::runtime::metrics::{By, Families, Listings, ObjectState};
use crate::runtime::store::Store;
use jiff::Timestamp;
use prometheus_client::metrics::gauge::Gauge;
use std::collections::BTreeMap;
use std::time::Duration;

/// Counts the objects of this shard that the watches show now. During a handover two processes may count them: a query that adds up
/// shards must take the maximum of each shard first.
pub(super) fn survey(
    metrics: &Families,
    shard: &str,
    instances: &Store<Instance>,
    accounts: &Store<Account>,
    listings: Listings,
    now: Timestamp,
) {
    let (mut drifted, mut states) = (0_u32, BTreeMap::<_, u32>::new());
    let mut operations =
        BTreeMap::from(Verb::ALL.map(|verb| (verb.as_str(), (0_u32, Duration::ZERO))));
    instances.for_each(|_, brief| {
        *states.entry(brief.state).or_default() += 1;
        drifted += u32::from(brief.is_drifted);
        if let Some((verb, started_at)) = brief.operation {
            let (count, oldest) = operations.entry(verb).or_default();
            // If the clock was set back, the age is zero.
            let age = Duration::try_from(now.duration_since(started_at));
            *count += 1;
            *oldest = age.unwrap_or_default().max(*oldest);
        }
    });
    show(&metrics.instances, shard, &states);
    metrics.drifted.set([shard], drifted);
    for (verb, (count, oldest)) in operations {
        metrics.in_progress.set([shard, verb], count);
        let age = metrics.oldest_in_progress.with([shard, verb]);
        age.set(oldest.as_secs_f64());
    }
    let mut states = BTreeMap::new();
    accounts.for_each(|_, brief| *states.entry(brief.state).or_default() += 1);
    show(&metrics.accounts, shard, &states);
    metrics.unowned.set([shard], listings.unowned);
    let age = metrics.inventory_age.with([shard]);
    age.set(listings.oldest.as_secs_f64());
}

/// Replaces the counts of the states.
fn show(gauges: &By<Gauge, 3>, shard: &str, states: &BTreeMap<ObjectState, u32>) {
    gauges.clear();
    for (ObjectState { state, reason }, count) in states {
        gauges.set([shard, state, reason], *count);
    }
}

#[cfg(test)]
mod tests;
