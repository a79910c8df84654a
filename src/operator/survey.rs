//! Counts the states of all objects, from their briefs, when metrics are read.

use super::parts::Parts;
use crate::api::Verb;
use crate::runtime::chance;
use crate::runtime::metrics::{Fleet, Open};
use crate::runtime::store::Brief;
use jiff::Timestamp;

/// Counts the objects that the watches show now.
pub(super) fn survey(parts: &Parts) -> Fleet {
    let mut fleet = Fleet {
        operations: Verb::ALL
            .map(|verb| (verb.as_str(), Open::default()))
            .into(),
        listings: parts.contexts.instances.sessions.listings(),
        ..Fleet::default()
    };
    let now = chance::time_of_day();
    let (instances, accounts) = (&parts.stores.instances, &parts.stores.accounts);
    instances.for_each(|_, brief| count_instance(&mut fleet, brief, now));
    accounts.for_each(|_, brief| *fleet.accounts.entry(brief.state).or_default() += 1);
    fleet
}

fn count_instance(fleet: &mut Fleet, brief: &Brief, now: Timestamp) {
    *fleet.instances.entry(brief.state).or_default() += 1;
    fleet.drifted += u32::from(brief.is_drifted);
    if let Some((verb, started_at)) = brief.operation {
        let open = fleet.operations.entry(verb).or_default();
        // If the clock was set back, the age is zero.
        let age = now.duration_since(started_at).try_into();
        open.count += 1;
        open.oldest = open.oldest.max(age.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests;
