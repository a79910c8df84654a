//! All Leases of the operator, as one process sees them in one list.

use super::{Object, Settings, record};
use crate::runtime::Shard;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use kube::ResourceExt;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// The last content of each Lease of another process, and since when this process has seen it unchanged.
#[derive(Debug, Default)]
pub(super) struct Observed(HashMap<String, (LeaseSpec, Instant)>);

/// The holder of a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No holder, or one that did not renew the Lease in time.
    Free,
    /// This process, according to the identity in the Lease.
    Ours,
    /// Another process, at least until this time.
    Held { holder: String, until: Instant },
}

/// The Lease of our shard, and the last holder of a Lease of another number of shards.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) lease: Option<Object>,
    pub(super) state: State,
    /// A process that may act under another number of shards, at least until this time.
    pub(super) other_number: Option<(String, Instant)>,
}

impl Snapshot {
    pub(super) fn of(leases: Vec<Object>, settings: &Settings, observed: &mut Observed) -> Self {
        let names: HashSet<String> = leases.iter().map(ResourceExt::name_any).collect();
        let mut snapshot = Self {
            lease: None,
            state: State::Free,
            other_number: None,
        };
        for (shard, state) in observed.deleted(&names, settings) {
            snapshot.note(shard, state, settings);
        }
        for lease in leases {
            if let Some(shard) = Shard::of_lease(&settings.name, &lease.name_any()) {
                let state = observed.state(&lease, settings);
                snapshot.note(shard, state, settings);
                if shard == settings.shard {
                    snapshot.lease = Some(lease);
                }
            }
        }
        snapshot
    }

    fn note(&mut self, shard: Shard, state: State, settings: &Settings) {
        if shard == settings.shard {
            self.state = state;
        } else if !shard.is_sibling(settings.shard)
            && let State::Held { holder, until } = state
            && self
                .other_number
                .as_ref()
                .is_none_or(|(_, last)| *last < until)
        {
            self.other_number = Some((holder, until));
        }
    }
}

impl Observed {
    /// The Leases that were deleted. Their holders may not have noticed yet, and may act until their own clocks end the term.
    fn deleted(&mut self, names: &HashSet<String>, settings: &Settings) -> Vec<(Shard, State)> {
        let now = Instant::now();
        let mut deleted = Vec::new();
        self.0.retain(|name, (spec, since)| {
            if names.contains(name) {
                return true;
            }
            let until = *since + valid(spec, settings);
            if let Some(shard) = Shard::of_lease(&settings.name, name)
                && now < until
            {
                let holder = spec.holder_identity.clone().unwrap_or_default();
                deleted.push((shard, State::Held { holder, until }));
            }
            now < until
        });
        deleted
    }

    fn state(&mut self, lease: &Object, settings: &Settings) -> State {
        let holder = record::holder(lease);
        if holder.is_empty() {
            return State::Free;
        }
        if holder == settings.identity {
            return State::Ours;
        }
        let spec = lease.spec.clone().unwrap_or_default();
        let valid = valid(&spec, settings);
        let name = lease.name_any();
        let now = Instant::now();
        let since = match self.0.get(&name) {
            Some((same, since)) if *same == spec => *since,
            _ => now,
        };
        self.0.insert(name, (spec, since));
        let until = since + valid;
        if now < until {
            State::Held {
                holder: holder.to_owned(),
                until,
            }
        } else {
            State::Free
        }
    }
}

/// How long an unchanged Lease counts: the longer of its own duration and ours.
fn valid(spec: &LeaseSpec, settings: &Settings) -> Duration {
    record::duration(spec).max(settings.lease_duration)
}
