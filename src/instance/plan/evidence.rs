//! What is known of a server, and what status has told of it already.

use crate::api::conditions::{Readiness, Reason};
use crate::cloud::ServerId;
use crate::instance::observation::{Observation, SessionFacts};
use crate::instance::plan::step::{Plan, Tell};
use crate::instance::times;
use crate::inventory::Sighting;

/// Whether an answer of the service is known to come from the account that bought the server: the token is the one of the
/// purchase, or its listing has shown a server of ours.
pub(super) fn is_our_account(seen: &Observation, session: &SessionFacts) -> bool {
    session.shown_ours
        || seen
            .facts
            .purchase()
            .is_none_or(|record| record.credential == session.credential)
}

/// Whether status has spoken of the spec as it stands.
pub(super) fn is_told(seen: &Observation) -> bool {
    seen.facts.status.observed_generation == seen.facts.generation
}

/// Many known servers vanished at once: nothing is bought or released until that is explained.
pub(super) fn frozen(seen: &Observation) -> Option<Plan> {
    seen.listing.as_ref().filter(|listing| listing.frozen())?;
    let message = "many known servers vanished from the service's listing at once; nothing is bought or released until they \
                   show again or are confirmed gone: check that the token belongs to the right account";
    let tell = Tell::of(Readiness::reconciling(Reason::ListingSuspect, message));
    Some(Plan::rest(tell, times::PASS_RECHECK).in_flight())
}

/// Whether a recorded server should be there and is in no listing: seen before, or bought so long before the listing began
/// that a new server had appeared. A listing from before the purchase shows nothing of it.
pub(super) fn is_missing(seen: &Observation, session: &SessionFacts, id: &ServerId) -> bool {
    let bought = seen.memory.newest_attempt();
    let was_seen = seen.facts.tells_of(id) && !seen.facts.status.detail.is_empty();
    let sighting = seen.listing.as_ref().map(|listing| listing.sighting(id));
    match sighting {
        Some(Sighting::Absent { began }) => {
            was_seen || bought.is_none_or(|since| began >= since + session.settle)
        }
        Some(Sighting::Present(..) | Sighting::Unknown(_)) | None => false,
    }
}

/// Status says of this very spec that this server is missing, and not the one before it.
pub(super) fn is_told_missing(seen: &Observation, id: &ServerId) -> bool {
    seen.facts.tells_of(id) && says(seen, Reason::ServerMissing)
}

/// Whether status says so, of the spec as it is.
pub(super) fn says(seen: &Observation, reason: Reason) -> bool {
    let status = &seen.facts.status;
    let reason = reason.as_str();
    status.observed_generation == seen.facts.generation
        && status.conditions.iter().any(|told| told.reason == reason)
}
