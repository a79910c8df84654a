//! The words in which it is said how something stands, and for how long.

use crate::api::conditions::{READY, STALLED};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// In a word or two how it stands.
pub(super) fn standing(conditions: &[Condition]) -> String {
    let Some(ready) = condition(conditions, READY) else {
        return "not looked at yet".to_owned();
    };
    let is_stalled = condition(conditions, STALLED).is_some_and(|stalled| stalled.status == "True");
    match (ready.status.as_str(), is_stalled) {
        ("True", _) => "Ready".to_owned(),
        (_, true) => format!("Stalled ({})", ready.reason),
        _ => format!("Reconciling ({})", ready.reason),
    }
}

pub(super) fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|told| told.type_ == kind)
}

/// How long ago, or for how long, in the unit that matters.
pub(super) fn about(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}
