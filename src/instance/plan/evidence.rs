//! Conclusions from listings, reads and status about the existence of servers, and the plans that wait for them.

use crate::api::conditions::{Readiness, Reason};
use crate::cloud::ServerId;
use crate::instance::fact::Fact;
use crate::instance::memory::look::RowDigest;
use crate::instance::observation::Observation;
use crate::instance::plan::observed::{InSession, OnRecord};
use crate::instance::plan::step::Plan;
use crate::instance::plan::words;
use crate::instance::times;
use tokio::time::Instant;

/// Whether the service's answers certainly come from the account that bought the server. True if the token is the one of the
/// purchase, if there is no record, or if, in every region where this Instance may have a server, a listing with the current token
/// has shown a server that was recorded under the purchase's credential.
pub(super) fn is_our_account(observed: &InSession<'_>) -> bool {
    let (session, record) = (observed.session, observed.facts.purchase());
    session.knows_our_account || record.is_none_or(|record| session.made(record))
}

/// The conclusion of the listings about servers with our marker.
pub(super) enum Proof {
    /// There is no such server.
    Absent,
    /// No listing shows such a server, but the account may not be the one of former purchases, since the token was changed.
    AbsentInUnverifiedAccount,
    /// The listings prove nothing yet.
    Open,
}

/// The proof of absence by listing passes that began after `since`. The server `gone` is known to be gone and does not count.
pub(super) fn proof(observed: &InSession<'_>, gone: Option<&ServerId>, since: Instant) -> Proof {
    let listing = observed.listing.as_ref();
    let marker = &observed.facts.marker;
    let is_absent = listing.is_some_and(|listing| listing.proven_absent(marker, gone, since));
    match is_absent {
        true if is_our_account(observed) => Proof::Absent,
        true => Proof::AbsentInUnverifiedAccount,
        false => Proof::Open,
    }
}

/// Waits, since the answers may come from another account.
pub(super) fn wait_for_our_account(reason: Reason, doubt: &str, alternative: &str) -> Plan {
    let readiness = Readiness::reconciling(reason, unverified_account_message(doubt, alternative));
    Plan::rest(readiness, times::IDLE_REQUEUE)
}

/// The message for answers that may come from another account, so that they prove nothing.
pub(super) fn unverified_account_message(doubt: &str, alternative: &str) -> String {
    format!(
        "{doubt}, but the token was changed, and nothing shows that it belongs to the account of this Instance's servers and may \
         see the region: put the former token back, or give the Account another one of that account, without a limit to other \
         regions, or {alternative}"
    )
}

/// It is not known whether a server exists; this many listings that begin after `since` will show it.
pub(super) fn wait_for_listings(observed: &Observation, since: Instant, passes: u8) -> Plan {
    let message = format!(
        "reading the service's listing before anything is bought{}",
        words::unlisted(observed)
    );
    let why = Readiness::progress(Reason::CheckingForExistingServer, message);
    let rest = since.saturating_duration_since(observed.now);
    if rest.is_zero() {
        return Plan::rest(why, times::PASS_RECHECK).requesting_passes(since, passes);
    }
    // If status refers to this spec already, it stays meanwhile: the wait is over before a user could act on the message.
    Plan::wait(rest).because(Some(why).filter(|_| !is_current(observed)))
}

/// Whether status refers to the current spec.
pub(super) fn is_current(observed: &Observation) -> bool {
    observed.facts.status.observed_generation == observed.facts.generation
}

/// The plan while the circuit breaker is open, since many known servers vanished at once: nothing is bought or released.
pub(super) fn plan_while_breaker_open(observed: &Observation) -> Option<Plan> {
    let listing = observed.listing.as_ref();
    listing.filter(|listing| listing.breaker_open())?;
    let message = "many known servers vanished from the service's listing at once; nothing is bought or released until they \
                   show again or are confirmed gone: check that the token belongs to the right account";
    let readiness = Readiness::reconciling(Reason::InventoryUnreliable, message);
    Some(Plan::rest(readiness, times::PASS_RECHECK).listing_often())
}

/// Whether the service denies that the recorded server exists, and all listings lack the server although they should show it: it
/// was observed before, or the settling time of the newest call was over when the listing began.
pub(super) fn is_missing(observed: &OnRecord<'_>) -> bool {
    let id = &observed.id;
    // None if this process knows no call.
    let settling_since = observed.memory.settling_since();
    let was_seen = was_seen(observed, id);
    let began = match observed.listed(id) {
        Some((began, RowDigest::Absent)) => began,
        Some((_, RowDigest::Row(_))) | None => return false,
    };
    let is_denied = match &observed.detail {
        Fact::Known(_) => false,
        Fact::Absent => true,
        Fact::NotRead | Fact::Unknown(_) => observed.look().is_absent(),
    };
    let settle = observed.session.settle;
    is_denied && (was_seen || settling_since.is_none_or(|since| began >= since + settle))
}

/// Whether this server was observed before, according to status.
pub(super) fn was_seen(observed: &Observation, id: &ServerId) -> bool {
    observed.facts.status_names(id) && !observed.facts.status.detail.is_empty()
}

/// Whether status reports, for the current spec, that the server is missing, and this reconcile has not read it.
pub(super) fn is_reported_missing(observed: &OnRecord<'_>) -> bool {
    let is_missing = observed.facts.status.missing_since.is_some();
    let is_read = matches!(observed.detail, Fact::Known(_));
    is_missing && !is_read && observed.facts.status_names(&observed.id) && is_current(observed)
}
