//! Another server than the recorded one bears the Instance's marker. A surplus server is released after proof, one at a time (rule
//! 9 of docs/maintainers/proof.md). Under the policy `Observe`, it is only reported.

use crate::cloud::ServerId;
use crate::instance::memory::look::RowDigest;
use crate::instance::observation::Observation;
use crate::instance::plan::evidence::is_our_account;
use crate::instance::plan::observed::OnRecord;
use crate::instance::plan::policy;
use crate::instance::plan::step::{Plan, ReleaseReason, Step};
use crate::instance::times;

/// The plan for the recorded server, unless a surplus server must be released first.
pub(super) fn check(observed: &OnRecord<'_>, plan: Plan) -> Plan {
    let Some(listing) = &observed.listing else {
        return plan;
    };
    let mut others = listing.bearing(&observed.facts.marker);
    others.remove(&observed.id);
    let Some(first) = others.first() else {
        return plan;
    };
    // The recorded server must be listed as well. Its detail is read again right before the release.
    let is_safe = matches!(observed.listed(&observed.id), Some((_, RowDigest::Row(_))))
        && is_our_account(observed);
    let is_forbidden = listing.breaker_open() || policy::restriction(observed).is_some();
    let is_surplus =
        |other: &&ServerId| listing.shows_in_both(other) && !recently_released(observed, other);
    match others.iter().find(is_surplus) {
        Some(other) if is_safe && !is_forbidden => {
            let (id, why) = (other.clone(), ReleaseReason::Surplus);
            Plan::act(Step::Release { id, why })
        }
        // The policy `Observe` keeps it: the Instance is not Ready while there are two.
        _ if policy::is_observed(observed) && plan.is_ready() => {
            plan.because(Some(policy::surplus(first)))
        }
        _ if is_forbidden => plan,
        // The listing is read again soon, and everything else continues.
        _ => plan.listing_often().within(times::RELEASE_RETRY),
    }
}

/// Whether the release of this server was accepted recently, or failed and is not repeated yet.
pub(super) fn recently_released(observed: &Observation, id: &ServerId) -> bool {
    let call = observed.memory.release_call(id);
    call.is_some_and(|call| {
        let is_recent = call.accepted && observed.now < call.at + times::RELEASE_RETRY;
        is_recent || call.not_before.is_some_and(|at| observed.now < at)
    })
}
