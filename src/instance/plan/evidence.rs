//! Conclusions from observations of a server, and from its status.

use crate::api::conditions::{Readiness, Reason};
use crate::cloud::ServerId;
use crate::instance::observation::{Observation, SessionFacts};
use crate::instance::plan::step::Plan;
use crate::instance::times;
use crate::inventory::Sighting;

/// Whether the service's answers certainly come from the account that bought the server: the token is the one of the purchase, or
/// a listing with it has shown a server of ours in the same region.
pub(super) fn is_our_account(observed: &Observation, session: &SessionFacts) -> bool {
    session.shown_ours
        || observed
            .facts
            .purchase()
            .is_none_or(|record| session.made(record))
}

/// Whether status refers to the current spec.
pub(super) fn is_told(observed: &Observation) -> bool {
    observed.facts.status.observed_generation == observed.facts.generation
}

/// Many known servers vanished at once: nothing is bought or released until there is an explanation.
pub(super) fn breaker_open(observed: &Observation) -> Option<Plan> {
    observed
        .listing
        .as_ref()
        .filter(|listing| listing.breaker_open())?;
    let message = "many known servers vanished from the service's listing at once; nothing is bought or released until they \
                   show again or are confirmed gone: check that the token belongs to the right account";
    let readiness = Readiness::reconciling(Reason::InventoryUnreliable, message);
    Some(Plan::rest(readiness, times::PASS_RECHECK).in_flight())
}

/// Whether a recorded server is missing from all listings although it should be there: it was observed before, or it was bought
/// so long before the listing began that a new server must have appeared. A listing from before the purchase does not count.
pub(super) fn is_missing(observed: &Observation, session: &SessionFacts, id: &ServerId) -> bool {
    let bought = observed.memory.newest_attempt();
    let was_seen = observed.facts.status_names(id) && !observed.facts.status.detail.is_empty();
    let sighting = observed
        .listing
        .as_ref()
        .map(|listing| listing.sighting(id));
    match sighting {
        Some(Sighting::Absent { began }) => {
            was_seen || bought.is_none_or(|since| began >= since + session.settle)
        }
        Some(Sighting::Present(..) | Sighting::Unknown(_)) | None => false,
    }
}

/// Whether status reports, for the current spec, that this server is missing.
pub(super) fn is_reported_missing(observed: &Observation, id: &ServerId) -> bool {
    let is_missing = observed.facts.status.missing_since.is_some();
    is_missing && observed.facts.status_names(id) && is_told(observed)
}
