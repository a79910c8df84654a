//! Counts the states of all objects, from their status, when metrics are read.

use super::briefs::{AccountBrief, InstanceBrief};
use super::wiring::Parts;
use crate::api::Verb;
use crate::runtime::chance;
use crate::runtime::metrics::{Fleet, Open, Standing};
use jiff::Timestamp;
use std::collections::BTreeMap;

/// Counts what the watches and the listings show now.
pub(super) fn survey(parts: &Parts) -> Fleet {
    let mut fleet = Fleet {
        operations: Verb::ALL
            .map(|verb| (verb.as_str(), Open::default()))
            .into(),
        listings: parts.instances.sessions.listings(),
        ..Fleet::default()
    };
    let now = chance::time_of_day();
    for stores in parts.stores.get().into_iter().flatten() {
        let (instances, accounts) = (&stores.instances, &stores.accounts);
        instances.for_each(|_, brief| count_instance(&mut fleet, brief, now));
        accounts.for_each(|_, brief| count_account(&mut fleet, brief));
    }
    fleet
}

fn count_instance(fleet: &mut Fleet, brief: &InstanceBrief, now: Timestamp) {
    count(&mut fleet.instances, brief.standing);
    fleet.drifted += u32::from(brief.is_drifted);
    if let Some((verb, started_at)) = brief.open {
        let open = fleet.operations.entry(verb.as_str()).or_default();
        // A clock that was set back makes none older than it is.
        let age = now.duration_since(started_at).try_into();
        open.count += 1;
        open.oldest = open.oldest.max(age.unwrap_or_default());
    }
}

fn count_account(fleet: &mut Fleet, brief: &AccountBrief) {
    count(&mut fleet.accounts, brief.standing);
}

fn count(counts: &mut BTreeMap<Standing, u32>, standing: Standing) {
    *counts.entry(standing).or_default() += 1;
}

#[cfg(test)]
mod tests;
