//! Another server bears the marker beside the recorded one: released with proof, one at a time (design section 4, rule 9), or
//! told where the spec keeps it from being released.

use crate::api::conditions::Reason;
use crate::cloud::ServerId;
use crate::instance::observation::{Observation, SessionFacts};
use crate::instance::plan::evidence::{is_our_account, says};
use crate::instance::plan::policy;
use crate::instance::plan::step::{Plan, ReleaseReason, StatusUpdate, Step};
use crate::instance::times;
use crate::inventory::Sighting;

/// Whether another server bears our marker.
enum Surplus {
    None,
    /// It is listed, by a listing that nothing is concluded from.
    Doubtful,
    /// It was seen once, or its release was called lately.
    Look,
    /// It is proven to be surplus.
    Proven(ServerId),
}

/// The plan for the recorded server, unless another one is to go first.
pub(super) fn beside(
    observed: &Observation,
    session: &SessionFacts,
    id: &ServerId,
    plan: Plan,
) -> Plan {
    let is_restricted = policy::restriction(observed).is_some();
    match find(observed, session, id) {
        Surplus::None => plan,
        Surplus::Doubtful => told(observed, plan, None),
        Surplus::Proven(other) if !is_restricted => release(id, other),
        Surplus::Proven(other) => told(observed, plan, Some(&other)),
        // Seen once, or on its way: the listing is read again soon, and all else goes on.
        Surplus::Look => told(observed, plan, None)
            .in_flight()
            .within(times::RELEASE_RETRY),
    }
}

/// An operation that stands still until somebody looks at it must not keep two servers.
pub(super) fn beside_what_stands_still(
    observed: &Observation,
    session: &SessionFacts,
    id: &ServerId,
    plan: Plan,
) -> Plan {
    match plan.waits_for_a_human() {
        true => beside(observed, session, id, plan),
        false => plan,
    }
}

/// What is only looked at is told as it is: that all is well is not said while there are two. Of one that was seen once, what
/// was said stands.
fn told(observed: &Observation, mut plan: Plan, other: Option<&ServerId>) -> Plan {
    if !policy::is_observed(observed) || !plan.is_ready() {
        return plan;
    }
    match other {
        Some(other) => plan.update.readiness = Some(policy::surplus(other)),
        None if says(observed, Reason::ObservedOnly) => plan.update.readiness = None,
        None => {}
    }
    plan
}

fn release(id: &ServerId, other: ServerId) -> Plan {
    let why = ReleaseReason::Surplus;
    let update = StatusUpdate::default().with_id(Some(id.clone()));
    Plan::act(Step::Release { id: other, why }, update)
}

fn find(observed: &Observation, session: &SessionFacts, id: &ServerId) -> Surplus {
    let Some(listing) = &observed.listing else {
        return Surplus::None;
    };
    let bearing = listing.bearing(&observed.facts.marker);
    let others: Vec<&ServerId> = bearing.iter().filter(|other| *other != id).collect();
    if others.is_empty() {
        return Surplus::None;
    }
    if listing.breaker_open() {
        return Surplus::Doubtful;
    }
    // The recorded one must be listed beside it; its detail is read once more right before the release.
    let beside =
        matches!(listing.sighting(id), Sighting::Present(..)) && is_our_account(observed, session);
    let proven = others.into_iter().find(|other| {
        let call = observed.memory.calls.releases.get(*other);
        let waits = call.and_then(|call| call.not_before);
        let waits = waits.is_some_and(|at| observed.now < at);
        listing.shows_in_both(other) && !recently_released(observed, other) && !waits
    });
    match proven.filter(|_| beside) {
        Some(other) => Surplus::Proven(other.clone()),
        None => Surplus::Look,
    }
}

/// Whether the release of this server was taken a moment ago.
pub(super) fn recently_released(observed: &Observation, id: &ServerId) -> bool {
    let call = observed.memory.calls.releases.get(id);
    call.is_some_and(|call| call.accepted && observed.now < call.at + times::RELEASE_RETRY)
}
