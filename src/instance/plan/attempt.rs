//! New attempts: the next number, and a record without results.

use crate::api::{Cause, PurchaseRecord, Reference, attempt_number};
use crate::instance::observation::{Observation, SessionFacts};
use crate::instance::plan::diff;
use crate::instance::references;

/// A record of a new attempt, without any result. Cluster and nonce are filled in when it is written.
pub(super) fn blank(observed: &Observation, session: &SessionFacts) -> PurchaseRecord {
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
        // If the server was found, its order is unknown, so the spec counts.
        target: diff::as_specified(observed),
        waiting_password: false,
        // Empty if a selector has not been resolved: nothing shows the value for a server that was found.
        package: id(Reference::Package),
        firewall: (facts.spec.firewall.as_ref()).map(|_| id(Reference::Firewall)),
        resolved: references::pins(observed),
        places: vec![facts.place().to_string()],
        lost: 0,
        failed: 0,
        refused: None,
        recreated: observed.memory.origin.recreated,
        account: observed.account_key.name.clone(),
        credential: session.credential.to_string(),
    }
}

/// The next attempt number. Numbers only grow, over the record, the memory, and the status, which survives a lost record.
pub(super) fn next_attempt(observed: &Observation) -> u32 {
    let recorded = observed.facts.purchase().map_or(0, |record| record.attempt);
    let remembered = (observed.memory.call.as_ref()).map_or(0, |call| call.number);
    let told = attempt_number(observed.facts.status.attempt).unwrap_or(0);
    recorded.max(remembered).max(told).saturating_add(1)
}

pub(super) fn creating(observed: &Observation) -> String {
    format!(
        "the service is creating the server in {}",
        observed.facts.place()
    )
}
