//! All Leases of one operator, as one process sees them at one time.

use super::{Object, Settings, record};
use crate::runtime::Shard;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use kube::ResourceExt;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// What others wrote last into each Lease, and since when it has not changed before our eyes.
#[derive(Debug, Default)]
pub(super) struct Seen {
    specs: HashMap<String, (LeaseSpec, Instant)>,
    wishes: HashMap<String, (String, Instant)>,
}

/// Whose a Lease is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nobody's, or of one who did not renew it in time.
    Free,
    /// Ours, as far as it says.
    Ours,
    /// This one's, at least until then.
    Others { holder: String, until: Instant },
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) shard: Shard,
    pub(super) lease: Option<Object>,
    pub(super) standing: Standing,
    /// Who asks for it. Who has not had it within a Lease's duration is not there any more, or was refused.
    pub(super) wanted_by: Option<String>,
}

/// The Leases of our division, and whoever has one of another.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
    /// Who counts otherwise and may act, and until when at least.
    pub(super) otherwise: Option<(String, Instant)>,
}

impl Table {
    pub(super) fn of(leases: Vec<Object>, settings: &Settings, seen: &mut Seen) -> Self {
        let mut found: BTreeMap<Shard, Object> = leases
            .into_iter()
            .filter_map(|lease| Some((Shard::of_lease(&settings.name, &lease.name_any())?, lease)))
            .collect();
        let names: HashSet<String> = found.values().map(ResourceExt::name_any).collect();
        let mut gone = seen.gone(&names, settings);
        seen.wishes.retain(|name, _| names.contains(name));
        let rows = Shard::all(settings.shards).map(|shard| {
            let lease = found.remove(&shard);
            let standing = match &lease {
                Some(lease) => seen.standing(lease, settings),
                None => gone.remove(&shard).unwrap_or(Standing::Free),
            };
            let wish = lease.as_ref().and_then(|lease| seen.wish(lease, settings));
            Row {
                shard,
                lease,
                standing,
                wanted_by: wish,
            }
        });
        let rows = rows.collect();
        let others = found.values();
        let others = others.map(|lease| seen.standing(lease, settings));
        let mut otherwise = None;
        for standing in others.chain(gone.into_values()) {
            if let Standing::Others { holder, until } = standing {
                otherwise = otherwise.max(Some((until, holder)));
            }
        }
        Self {
            rows,
            otherwise: otherwise.map(|(until, holder)| (holder, until)),
        }
    }

    /// How many Leases each process has, without those that nobody renews.
    pub(super) fn counts(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for row in &self.rows {
            if let Standing::Others { holder, .. } = &row.standing {
                *counts.entry(holder.as_str()).or_default() += 1;
            }
        }
        counts
    }
}

impl Seen {
    /// Leases that somebody deleted, by what divides there: who held one may not have noticed yet, and acts until its own clock ends
    /// that.
    fn gone(&mut self, names: &HashSet<String>, settings: &Settings) -> BTreeMap<Shard, Standing> {
        let now = Instant::now();
        let mut gone = BTreeMap::new();
        self.specs.retain(|name, (spec, since)| {
            if names.contains(name) {
                return true;
            }
            let until = *since + valid(spec, settings);
            if let Some(shard) = Shard::of_lease(&settings.name, name)
                && now < until
            {
                let holder = spec.holder_identity.clone().unwrap_or_default();
                gone.insert(shard, Standing::Others { holder, until });
            }
            now < until
        });
        gone
    }

    /// Stale is what has stood as long, since we first saw it, as the longer of what it says and what we are set to.
    fn standing(&mut self, lease: &Object, settings: &Settings) -> Standing {
        let holder = record::holder(lease);
        if holder.is_empty() {
            return Standing::Free;
        }
        if holder == settings.identity {
            return Standing::Ours;
        }
        let spec = lease.spec.clone().unwrap_or_default();
        let valid = valid(&spec, settings);
        let name = lease.name_any();
        let now = Instant::now();
        let since = match self.specs.get(&name) {
            Some((same, since)) if *same == spec => *since,
            _ => now,
        };
        self.specs.insert(name, (spec, since));
        let until = since + valid;
        if now < until {
            Standing::Others {
                holder: holder.to_owned(),
                until,
            }
        } else {
            Standing::Free
        }
    }

    fn wish(&mut self, lease: &Object, settings: &Settings) -> Option<String> {
        let (name, wish) = (lease.name_any(), record::wish(lease)?);
        let since = match self.wishes.get(&name) {
            Some((same, since)) if same == wish => *since,
            _ => Instant::now(),
        };
        self.wishes.insert(name, (wish.to_owned(), since));
        let is_fresh = Instant::now() < since + settings.lease_duration;
        is_fresh.then(|| record::wisher(wish).to_owned())
    }
}

/// How long what stands there counts after it was seen first.
fn valid(spec: &LeaseSpec, settings: &Settings) -> Duration {
    record::duration(spec).max(settings.lease_duration)
}
