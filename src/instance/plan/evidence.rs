//! What is known of a server, and what status has told of it already.

use crate::api::conditions::{Readiness, Reason, STALLED};
use crate::cloud::ServerId;
use crate::instance::observation::{Observation, SessionFacts};
use crate::instance::plan::step::{Plan, StatusUpdate};
use crate::instance::times;
use crate::inventory::Sighting;

/// Whether an answer of the service is known to come from the account that bought the server: the token is the one of the
/// purchase, or its listing of the server's region has shown a server of ours.
pub(super) fn is_our_account(observed: &Observation, session: &SessionFacts) -> bool {
    session.shown_ours
        || observed
            .facts
            .purchase()
            .is_none_or(|record| *record.credential == *session.credential)
}

/// Whether status has spoken of the spec as it stands.
pub(super) fn is_told(observed: &Observation) -> bool {
    observed.facts.status.observed_generation == observed.facts.generation
}

/// Many known servers vanished at once: nothing is bought or released until that is explained.
pub(super) fn breaker_open(observed: &Observation) -> Option<Plan> {
    observed
        .listing
        .as_ref()
        .filter(|listing| listing.breaker_open())?;
    let message = "many known servers vanished from the service's listing at once; nothing is bought or released until they \
                   show again or are confirmed gone: check that the token belongs to the right account";
    let update = StatusUpdate::of(Readiness::reconciling(Reason::ListingSuspect, message));
    Some(Plan::rest(update, times::PASS_RECHECK).in_flight())
}

/// Whether a recorded server should be there and is in no listing: seen before, or bought so long before the listing began
/// that a new server had appeared. A listing from before the purchase shows nothing of it.
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

/// Status says of this very spec that this server is missing, and not the one before it.
pub(super) fn is_told_missing(observed: &Observation, id: &ServerId) -> bool {
    observed.facts.status_names(id) && says(observed, Reason::ServerMissing)
}

/// Status says so, and that a person is waited for.
pub(super) fn is_told_given_up(observed: &Observation, id: &ServerId) -> bool {
    let mut told = observed.facts.status.conditions.iter();
    is_told_missing(observed, id)
        && told.any(|told| {
            told.type_ == STALLED
                && told.status == "True"
                && told.reason == Reason::ServerMissing.as_str()
        })
}

/// Whether status says so, of the spec as it is.
pub(super) fn says(observed: &Observation, reason: Reason) -> bool {
    let status = &observed.facts.status;
    let reason = reason.as_str();
    status.observed_generation == observed.facts.generation
        && status.conditions.iter().any(|told| told.reason == reason)
}
