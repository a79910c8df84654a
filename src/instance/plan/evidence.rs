//! Conclusions from observations of a server, and from its status.

use crate::api::conditions::{Readiness, Reason};
use crate::cloud::ServerId;
use crate::instance::observation::{Observation, SessionFacts};
use crate::instance::plan::step::Plan;
use crate::instance::plan::why::Why;
use crate::instance::times;
use crate::inventory::{Absence, Sighting, ZoneViews};
use tokio::time::Instant;

/// Whether the service's answers certainly come from the account that bought the server: the token is the one of the purchase, or
/// a listing with it has shown a server of ours in the same region.
pub(super) fn is_our_account(observed: &Observation, session: &SessionFacts) -> bool {
    session.shown_ours
        || observed
            .facts
            .purchase()
            .is_none_or(|record| session.made(record))
}

/// The conclusion of the listings about servers with our marker.
pub(super) enum Proof {
    /// There is none.
    Absent,
    /// The same, for an account that may not be the one of former purchases, since the token was changed.
    OtherAccount,
    /// Nothing yet.
    Open,
}

/// The proof of absence by listing passes that began after `since`. The server `gone` is known to be gone and does not count.
pub(super) fn proof(
    observed: &Observation,
    session: &SessionFacts,
    gone: Option<&ServerId>,
    since: Instant,
) -> Proof {
    let listing = observed.listing.as_ref();
    let absence = listing.map(|listing| listing.proven_absent(&observed.facts.marker, gone, since));
    match absence {
        Some(Absence::Proven) if is_our_account(observed, session) => Proof::Absent,
        Some(Absence::Proven) => Proof::OtherAccount,
        Some(Absence::NotYet(_) | Absence::Present(_)) | None => Proof::Open,
    }
}

/// The listing may belong to another account, so it proves nothing about a create, and nothing is bought.
pub(super) fn of_other_account(doubt: &str) -> Plan {
    let message = format!(
        "{doubt}, and the token was changed since: nothing shows that it belongs to the same account, so nothing is bought; put \
         the former token back until this is settled, or delete the Instance"
    );
    let readiness = Readiness::reconciling(Reason::CreateUnconfirmed, message);
    Plan::rest(readiness, times::IDLE_REQUEUE)
}

/// It is not known whether a server exists; this many listings that begin after `since` will show it.
pub(super) fn look(observed: &Observation, since: Instant, passes: u8) -> Plan {
    let trouble = observed.listing.as_ref().and_then(ZoneViews::trouble);
    let message = match trouble {
        None => "reading the service's listing before anything is bought".to_owned(),
        Some(trouble) => {
            format!(
                "reading the service's listing before anything is bought: {trouble}: check spec.endpoint and spec.paths of \
                 Account {}",
                observed.account_key.name
            )
        }
    };
    let why = Why::progress(Reason::CheckingForExistingServer, message);
    let rest = since.saturating_duration_since(observed.now);
    if rest.is_zero() {
        return Plan::rest(why, times::PASS_RECHECK).wanting(since, passes);
    }
    // Keep the status that this spec has until then: the wait is over before a user could act on the message.
    Plan::wait(rest).because(Some(why).filter(|_| !is_current(observed)))
}

/// Whether status refers to the current spec.
pub(super) fn is_current(observed: &Observation) -> bool {
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
    is_missing && observed.facts.status_names(id) && is_current(observed)
}
