//! The Leases of the operator's namespace, as one process has observed them.

use super::{LeaseSettings, Object, record};
use crate::runtime::Shard;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use kube::ResourceExt;
use std::collections::HashMap;
use tokio::time::Instant;

/// The last content of each Lease, and since when this process has observed it unchanged. A deleted Lease keeps its entry: its
/// holder may not have noticed yet, and may act until its own clock ends the term.
#[derive(Debug, Default)]
pub(super) struct Observed(HashMap<String, (LeaseSpec, Instant)>);

impl Observed {
    /// Records a list of Leases. Call it in the order of the requests.
    pub(super) fn record(&mut self, leases: &[Object]) {
        let now = Instant::now();
        for lease in leases {
            let spec = lease.spec.clone().unwrap_or_default();
            let entry = self.0.entry(lease.name_any());
            let (known, since) = entry.or_insert_with(|| (spec.clone(), now));
            if *known != spec {
                (*known, *since) = (spec, now);
            }
        }
    }

    /// Another process that may act on our namespaces, and until when its Lease counts as held. It holds the Lease of our shard, or
    /// one of another number of shards. If there are several, the one whose Lease counts longest.
    pub(super) fn other_holder(&self, settings: &LeaseSettings) -> Option<(String, Instant)> {
        let now = Instant::now();
        let holders = self.0.iter().filter_map(|(name, (spec, since))| {
            let shard = Shard::of_lease(&settings.name, name)?;
            if shard != settings.shard && shard.is_sibling(settings.shard) {
                return None;
            }
            let holder = spec.holder_identity.clone().unwrap_or_default();
            // The longer of the Lease's duration and ours.
            let until = *since + record::duration(spec).max(settings.lease_duration);
            let is_other = !holder.is_empty() && holder != settings.identity;
            (is_other && now < until).then_some((holder, until))
        });
        holders.max_by_key(|(_, until)| *until)
    }
}
