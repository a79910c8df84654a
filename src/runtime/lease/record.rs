//! The contents of a Lease, in the form that client-go writes, so that kubectl and other tools display it properly.

use super::LeaseSettings;
use crate::api::names::MANAGER;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease as Object, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::ObjectMeta;
use std::collections::BTreeMap;
use std::time::Duration;

/// A new Lease, without a holder.
pub(super) fn fresh(name: String) -> Object {
    let labels = BTreeMap::from([("app.kubernetes.io/name".to_owned(), MANAGER.to_owned())]);
    Object {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        spec: None,
    }
}

/// The Lease, acquired or renewed by us. Its resourceVersion is kept, so that the write is a compare-and-swap.
pub(super) fn taken(mut lease: Object, settings: &LeaseSettings, now: Timestamp) -> Object {
    let is_renewal = holder(&lease) == settings.identity;
    let spec = lease.spec.get_or_insert_default();
    if !is_renewal {
        spec.holder_identity = Some(settings.identity.clone());
        spec.acquire_time = Some(MicroTime(now));
        let transitions = spec.lease_transitions;
        spec.lease_transitions = Some(transitions.map_or(0, |former| former.saturating_add(1)));
    }
    spec.renew_time = Some(MicroTime(now));
    spec.lease_duration_seconds = Some(whole_seconds(settings.lease_duration));
    lease
}

/// The Lease without a holder. Its resourceVersion is kept, too.
pub(super) fn released(mut lease: Object, now: Timestamp) -> Object {
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(String::new());
    spec.lease_duration_seconds = Some(1);
    spec.acquire_time = Some(MicroTime(now));
    spec.renew_time = Some(MicroTime(now));
    lease
}

/// The holder; empty if there is none.
pub(super) fn holder(lease: &Object) -> &str {
    let holder = lease.spec.as_ref().and_then(|s| s.holder_identity.as_ref());
    holder.map_or("", String::as_str)
}

/// The duration that the Lease itself states.
pub(super) fn duration(spec: &LeaseSpec) -> Duration {
    let seconds = spec.lease_duration_seconds.unwrap_or_default();
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

/// The field has only whole seconds. The value is rounded up: a reader that relies on it waits longer.
fn whole_seconds(duration: Duration) -> i32 {
    let rounded = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    i32::try_from(rounded).unwrap_or(i32::MAX)
}
