//! Selectors in the spec must be resolved before a purchase or a reinstall uses them.

use crate::api::conditions::{Readiness, Reason, State};
use crate::api::{PurchaseRecord, Reference};
use crate::instance::fact::Fact;
use crate::instance::facts::Record;
use crate::instance::observation::Observation;
use crate::instance::pins::LookUpScope;
use crate::instance::plan::step::{NeededRead, OrPlan, Plan};
use crate::instance::{references, times};
use std::time::Duration;

/// The plan that comes before any plan for the server. Without the codes of region and zone there is no listing to read. While
/// image or key pair of an existing server are unresolved, the server cannot be compared with the spec.
pub(super) fn first(observed: &Observation) -> Option<Plan> {
    let facts = &observed.facts;
    match &facts.record {
        Record::None if facts.places.is_empty() => Some(obstacle(observed)),
        Record::Speaks(record) if record.id.is_some() && !facts.deleting => {
            // Without an observation of the server it is unknown whether it has what the selector matches.
            let is_seen =
                matches!(observed.detail, Fact::Known(_)) || !facts.status.detail.is_empty();
            let is_asked = observed.found.scope >= LookUpScope::Installation;
            (is_seen && !is_asked && references::installation_is_unresolved(observed))
                .then(|| Plan::needing(NeededRead::References(LookUpScope::Installation)))
        }
        Record::None | Record::Speaks(_) | Record::Invalid(_) => None,
    }
}

/// Whether all references of a purchase are resolved; otherwise the plan that resolves them or reports the obstacle.
pub(super) fn purchase(observed: &Observation) -> OrPlan<()> {
    let is_unresolved = references::is_unresolved(observed, &Reference::ALL);
    match observed.facts.here {
        Some(_) if !is_unresolved => Ok(()),
        _ if observed.found.scope < LookUpScope::Purchase => {
            let read = NeededRead::References(LookUpScope::Purchase);
            Err(Box::new(Plan::needing(read)))
        }
        _ => Err(Box::new(obstacle(observed))),
    }
}

/// Whether the next purchase has other parameters than a recorded attempt that bought nothing.
pub(super) fn is_other(next: &PurchaseRecord, record: &PurchaseRecord) -> bool {
    record.package != next.package
        || record.firewall != next.firewall
        || record.places.last() != next.places.last()
        || record.target.image != next.target.image
        || record.target.key != next.target.key
}

/// The readiness of an existing server whose image or key pair could not be resolved.
pub(super) fn trouble(observed: &Observation) -> Option<Readiness> {
    let trouble = observed.found.trouble();
    let is_unresolved = references::installation_is_unresolved(observed);
    trouble.filter(|_| is_unresolved).cloned()
}

pub(super) fn again(observed: &Observation) -> Option<Duration> {
    trouble(observed).map(|readiness| pace(&readiness))
}

fn pace(readiness: &Readiness) -> Duration {
    match readiness.state {
        State::Stalled | State::Drifted => times::REFERENCE_NOT_FOUND_RETRY,
        State::Ready | State::Reconciling => times::REFERENCE_UNREAD_RETRY,
    }
}

fn obstacle(observed: &Observation) -> Plan {
    let readiness = observed.found.trouble().cloned().unwrap_or_else(|| {
        let message = "the selectors in the spec have not been looked up yet";
        Readiness::reconciling(Reason::ReferenceLookupFailed, message)
    });
    let again = pace(&readiness).min(times::IDLE_REQUEUE);
    Plan::rest(readiness, again)
}
