//! New attempts: the next number, and a record without results.

use crate::api::{Cause, PurchaseRecord, Reference, attempt_number};
use crate::instance::observation::Observation;
use crate::instance::plan::observed::InSession;
use crate::instance::plan::{diff, recreate};
use crate::instance::references;

/// A record of a new attempt, without any result. Cluster and nonce are filled in when it is written.
pub(super) fn blank(observed: &InSession<'_>) -> PurchaseRecord {
    let facts = &observed.facts;
    let id = |reference| references::id(observed, reference).unwrap_or_default();
    PurchaseRecord {
        cluster: String::new(),
        namespace: facts.key.namespace.clone(),
        name: facts.key.name.clone(),
        uid: facts.uid.clone(),
        marker: facts.marker.clone(),
        attempt: next_attempt(observed),
        nonce: String::new(),
        id: None,
        imported: None,
        task: None,
        started_at: observed.wall_clock,
        generation: facts.generation,
        cause: Some(Cause::Spec),
        // Nothing shows with which values an adopted or imported server was bought, so those in the spec count.
        target: diff::as_specified(observed),
        waiting_password: false,
        // Empty if a selector has not been resolved, as it can be for an adopted or imported server.
        package: id(Reference::Package),
        firewall: (facts.spec.firewall.as_ref()).map(|_| id(Reference::Firewall)),
        resolved: references::pins(observed),
        places: vec![facts.place().to_string()],
        lost: 0,
        failed: 0,
        refused: None,
        recreated: observed.memory.origin.recreated,
        account: observed.account_key.name.clone(),
        credential: observed.session.credential.to_string(),
    }
}

/// The record of an attempt that follows another one. It continues the counts of lost answers, failures in a row, and
/// replacements, and keeps the places where former attempts may have left a server.
pub(super) fn following(observed: &InSession<'_>, former: &PurchaseRecord) -> PurchaseRecord {
    let mut record = blank(observed);
    // A restored object keeps the marker of the original one.
    record.uid.clone_from(&former.uid);
    (record.lost, record.failed) = (former.lost, former.failed);
    // The newest place comes last. If no call of the former record had an effect, the former places have no server, unless one of
    // an earlier attempt is hidden from a token without rights in its region.
    let left_no_server = (observed.memory.nothing_bought(former) || former.bought_nothing())
        && !recreate::needs_proof_again(observed, former);
    if !left_no_server {
        let mut places = former.places.clone();
        places.retain(|place| !record.places.contains(place));
        places.append(&mut record.places);
        record.places = places;
    }
    record
}

/// The next attempt number. Numbers only grow, over the record, the memory, and the status, which survives a lost record.
pub(super) fn next_attempt(observed: &Observation) -> u32 {
    let recorded = observed.facts.purchase().map_or(0, |record| record.attempt);
    let remembered = (observed.memory.call.as_ref()).map_or(0, |call| call.number);
    let shown = attempt_number(observed.facts.status.attempt).unwrap_or(0);
    recorded.max(remembered).max(shown).saturating_add(1)
}

pub(super) fn creating(observed: &Observation) -> String {
    format!(
        "the service is creating the server in {}",
        observed.facts.place()
    )
}
