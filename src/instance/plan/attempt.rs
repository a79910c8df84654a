//! A new attempt: its number, and the record of one of which nothing is known yet.

use crate::api::{Cause, PurchaseRecord, attempt_number};
use crate::instance::observation::{Observation, SessionFacts};
use crate::instance::plan::diff;
use crate::instance::references;
use crate::instance::resolved_references::Meaning;

/// A record of a new attempt, of which nothing is known yet. Cluster and nonce are filled in when it is written.
pub(super) fn blank(observed: &Observation, session: &SessionFacts) -> PurchaseRecord {
    let facts = &observed.facts;
    let id = |meaning: Option<Meaning>| meaning.map(|m| m.id).unwrap_or_default();
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
        // Of a server that was found nobody knows what was asked for: what the spec says counts.
        target: diff::as_specified(observed),
        waiting_password: false,
        // Empty where a selector is not looked up: of a server that was found, nobody tells.
        package: id(references::package(observed)),
        firewall: (facts.spec.firewall.as_ref()).map(|_| id(references::firewall(observed))),
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

/// Attempt numbers only grow, over records, memory and what status tells of lost records.
pub(super) fn next_attempt(observed: &Observation) -> u32 {
    let recorded = observed.facts.purchase().map_or(0, |record| record.attempt);
    let remembered = observed
        .memory
        .calls
        .attempts
        .keys()
        .max()
        .copied()
        .unwrap_or(0);
    let told = attempt_number(observed.facts.status.attempt).unwrap_or(0);
    recorded.max(remembered).max(told).saturating_add(1)
}

pub(super) fn creating(observed: &Observation) -> String {
    format!(
        "the service is creating the server in {}",
        observed.facts.place()
    )
}
