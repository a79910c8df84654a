//! Another server bears the marker of the recorded one. A surplus server is released after proof, one at a time (rule 9), or
//! reported if the spec forbids its release.

use crate::cloud::ServerId;
use crate::instance::observation::{Observation, SessionFacts};
use crate::instance::plan::evidence::is_our_account;
use crate::instance::plan::policy;
use crate::instance::plan::step::{Plan, ReleaseReason, Step};
use crate::instance::times;
use crate::inventory::Sighting;

/// Another server with our marker, by the evidence for it.
enum Surplus {
    None,
    /// It is listed, but the listing proves nothing now.
    Doubtful(ServerId),
    /// It was listed once, or its release was accepted recently.
    Look(ServerId),
    /// It is proven to be a surplus server.
    Proven(ServerId),
}

/// The plan for the recorded server, unless a surplus server must be released first.
pub(super) fn check(
    observed: &Observation,
    session: &SessionFacts,
    id: &ServerId,
    plan: Plan,
) -> Plan {
    match find(observed, session, id) {
        Surplus::None => plan,
        Surplus::Doubtful(other) => reported(observed, plan, &other),
        Surplus::Proven(other) if policy::restriction(observed).is_none() => release(id, other),
        Surplus::Proven(other) => reported(observed, plan, &other),
        // The listing is read again soon, and everything else continues.
        Surplus::Look(other) => reported(observed, plan, &other)
            .in_flight()
            .within(times::RELEASE_RETRY),
    }
}

/// An operation that waits for human action must not keep two servers.
pub(super) fn check_if_stuck(
    observed: &Observation,
    session: &SessionFacts,
    id: &ServerId,
    plan: Plan,
) -> Plan {
    match plan.waits_for_a_human() {
        true => check(observed, session, id, plan),
        false => plan,
    }
}

/// Reports a surplus server that the policy `Observe` keeps: the Instance is not Ready while there are two.
fn reported(observed: &Observation, plan: Plan, other: &ServerId) -> Plan {
    match policy::is_observed(observed) && plan.is_ready() {
        true => plan.because(Some(policy::surplus(other).into())),
        false => plan,
    }
}

fn release(id: &ServerId, other: ServerId) -> Plan {
    let why = ReleaseReason::Surplus;
    Plan::act(Step::Release { id: other, why }).with_id(Some(id.clone()))
}

fn find(observed: &Observation, session: &SessionFacts, id: &ServerId) -> Surplus {
    let Some(listing) = &observed.listing else {
        return Surplus::None;
    };
    let bearing = listing.bearing(&observed.facts.marker);
    let others: Vec<&ServerId> = bearing.iter().filter(|other| *other != id).collect();
    let Some(first) = others.first().map(|first| (*first).clone()) else {
        return Surplus::None;
    };
    if listing.breaker_open() {
        return Surplus::Doubtful(first);
    }
    // The recorded server must be listed as well. Its detail is read again right before the release.
    let is_safe =
        matches!(listing.sighting(id), Sighting::Present(..)) && is_our_account(observed, session);
    let proven = others.into_iter().find(|other| {
        let call = observed.memory.release_call(other);
        let waits = call.and_then(|call| call.not_before);
        let waits = waits.is_some_and(|at| observed.now < at);
        listing.shows_in_both(other) && !recently_released(observed, other) && !waits
    });
    match proven.filter(|_| is_safe) {
        Some(other) => Surplus::Proven(other.clone()),
        None => Surplus::Look(first),
    }
}

/// Whether the release of this server was accepted recently.
pub(super) fn recently_released(observed: &Observation, id: &ServerId) -> bool {
    let call = observed.memory.release_call(id);
    call.is_some_and(|call| call.accepted && observed.now < call.at + times::RELEASE_RETRY)
}
