//! Selectors in the spec must be resolved before a purchase or a reinstall uses them.

use crate::api::conditions::{Readiness, Reason, State};
use crate::api::{PurchaseRecord, Resolved};
use crate::cloud::Place;
use crate::instance::fact::Fact;
use crate::instance::facts::Record;
use crate::instance::observation::Observation;
use crate::instance::plan::step::{Plan, Read};
use crate::instance::resolved_references::Scope;
use crate::instance::{references, times};
use std::time::Duration;

/// The parameters of a purchase, in the service's identifiers and codes.
pub(super) struct Purchase {
    pub(super) place: Place,
    pub(super) package: String,
    pub(super) firewall: Option<String>,
    pub(super) image: String,
    pub(super) key: Option<String>,
    pub(super) pins: Option<Resolved>,
}

/// The look-up that comes before everything else. Without the codes of region and zone there is no listing to read. While image
/// or key pair of an existing server are unresolved, the server cannot be compared with the spec.
pub(super) fn first(observed: &Observation) -> Option<Plan> {
    let facts = &observed.facts;
    match &facts.record {
        Record::None if facts.places.is_empty() => Some(stands_in_the_way(observed)),
        Record::Speaks(record) if record.id.is_some() && !facts.deleting => {
            // Without an observation of the server it is unknown whether it has what the selector matches.
            let is_seen =
                matches!(observed.detail, Fact::Known(_)) || !facts.status.detail.is_empty();
            let is_asked = observed.found.scope >= Scope::Installation;
            (is_seen && !is_asked && references::installation_is_open(observed))
                .then(|| ask(Scope::Installation))
        }
        Record::None | Record::Speaks(_) | Record::Invalid(_) => None,
    }
}

/// The parameters of the purchase, or the plan that resolves them or reports the obstacle.
pub(super) fn purchase(observed: &Observation) -> Result<Purchase, Box<Plan>> {
    let spec = &observed.facts.spec;
    let key = references::key(observed).map(|key| key.id);
    let firewall = references::firewall(observed).map(|firewall| firewall.id);
    let has_optional = (spec.login.ssh_key.is_none() || key.is_some())
        && (spec.firewall.is_none() || firewall.is_some());
    let all = (
        observed.facts.here.clone(),
        references::package(observed),
        references::image(observed),
    );
    match all {
        (Some(place), Some(package), Some(image)) if has_optional => Ok(Purchase {
            place,
            package: package.id,
            firewall,
            image: image.id,
            key,
            pins: references::pins(observed),
        }),
        _ if observed.found.scope < Scope::Purchase => Err(Box::new(ask(Scope::Purchase))),
        _ => Err(Box::new(stands_in_the_way(observed))),
    }
}

/// Whether a recorded attempt that bought nothing had other parameters than the next purchase.
pub(super) fn is_other(purchase: &Purchase, record: &PurchaseRecord) -> bool {
    let target = &record.target;
    record.package != purchase.package
        || record.firewall != purchase.firewall
        || record.places.last() != Some(&purchase.place.to_string())
        || target.image != purchase.image
        || target.key != purchase.key
}

/// The readiness of an existing server whose image or key pair could not be resolved.
pub(super) fn trouble(observed: &Observation) -> Option<Readiness> {
    observed
        .found
        .trouble()
        .filter(|_| references::installation_is_open(observed))
        .cloned()
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

fn ask(scope: Scope) -> Plan {
    Plan::needing(Read::References(scope))
}

fn stands_in_the_way(observed: &Observation) -> Plan {
    let readiness = observed.found.trouble().cloned().unwrap_or_else(|| {
        let message = "what the spec names is not looked up yet";
        Readiness::reconciling(Reason::ReferenceLookupFailed, message)
    });
    let again = pace(&readiness).min(times::IDLE_REQUEUE);
    Plan::rest(readiness, again)
}
