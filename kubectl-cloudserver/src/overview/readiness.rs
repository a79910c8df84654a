//! The readiness of an object in words, and durations.

use cloud_server_operator::api::conditions::{READY, STALLED};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

/// The text for an object without a condition Ready.
pub(super) const NOT_OBSERVED: &str = "not observed yet";

/// The readiness of an object, in a word or two. A status describes the spec of its generation: nothing is known about a newer one.
pub(super) fn readiness(
    metadata: &ObjectMeta,
    observed_generation: i64,
    conditions: &[Condition],
) -> String {
    let Some(ready) = condition(conditions, READY) else {
        return NOT_OBSERVED.to_owned();
    };
    if !is_current(metadata, observed_generation) {
        // A deletion counts as an edit: it changes the generation as well.
        let what = match metadata.deletion_timestamp {
            Some(_) => "being deleted",
            None => "edited",
        };
        return format!("{what}, {NOT_OBSERVED}");
    }
    match (ready.status.as_str(), is_stalled(conditions)) {
        ("True", _) => "Ready".to_owned(),
        (_, true) => format!("Stalled ({})", ready.reason),
        _ => format!("Reconciling ({})", ready.reason),
    }
}

/// Whether status describes the current generation.
pub(super) fn is_current(metadata: &ObjectMeta, observed_generation: i64) -> bool {
    observed_generation >= metadata.generation.unwrap_or(0)
}

/// Whether the object is Stalled: waiting will not help.
pub(super) fn is_stalled(conditions: &[Condition]) -> bool {
    condition(conditions, STALLED).is_some_and(|stalled| stalled.status == "True")
}

pub(super) fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|one| one.type_ == kind)
}

/// A duration in one unit, rounded down. A unit is used from two of it on: 119 s, then 2 min.
pub(super) fn about(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}
