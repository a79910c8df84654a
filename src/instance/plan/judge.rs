//! Compares the server with the spec, and derives the readiness.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{PowerState, Reference};
use crate::catalog::{SpecReference, in_spec};
use crate::cloud::ServerPower;
use crate::instance::observation::{Observation, is_idle, pending, text};
use crate::instance::plan::due::{Comparison, ReinstallDecision};
use crate::instance::plan::step::Plan;
use crate::instance::plan::{policy, resolve, secret, verbs};
use crate::instance::{references, times};
use serde_json::{Map, Value};
use std::time::Duration;

/// The plan that reports the server, with the values that count as applied.
pub(super) fn report(server: &Comparison<'_>, again: Duration) -> Plan {
    let mut plan = Plan::rest(judge(server), again);
    plan.changes.applied = Some(server.applied_without_call());
    plan.changes.left_off = Some(server.is_still_off());
    plan
}

/// Compares the server with the spec and with the applied state.
pub(super) fn judge(server: &Comparison<'_>) -> Readiness {
    let (observed, detail) = (server.observed, server.detail);
    if let Some(readiness) = bought_otherwise(observed) {
        return readiness;
    }
    if !is_idle(pending(detail)) {
        let message = format!(
            "the service is busy with the server ({})",
            pending(detail).unwrap_or_default()
        );
        return Readiness::reconciling(Reason::ForeignOperationRunning, message);
    }
    if let (Some(readiness), false) = (renamed(observed, detail), is_ours(observed, detail)) {
        return readiness;
    }
    if let Some(verb) = server.operations().first() {
        if policy::is_observed(observed) {
            return policy::differs(&format!("a {verb} of the server is due"));
        }
        if let Some(state) = observed.unknown_state(detail) {
            return in_unknown_state(state);
        }
        return Readiness::reconciling(
            verbs::row(*verb).reason,
            format!("a {verb} of the server is due"),
        );
    }
    if let Some(readiness) = resolve::trouble(observed) {
        return readiness;
    }
    if let ReinstallDecision::Held(readiness) = server.reinstall() {
        return readiness;
    }
    when_idle(server)
}

/// No operation is running or due: checks whether the server has been changed externally.
fn when_idle(server: &Comparison<'_>) -> Readiness {
    let (observed, detail) = (server.observed, server.detail);
    let image = references::id(observed, Reference::Image);
    let (shown, image) = (text(detail, "imageResourceUUID"), image.as_deref());
    if let (Some(shown), Some(image)) = (shown, image)
        && shown != image
    {
        let message = format!(
            "the server has image {shown}, the spec has {image}; the disk is untouched: to keep {shown}, set spec.image.id to it \
             (which erases the disk if a failed reinstall left {shown}); to install {image}, set a new spec.reinstall.token and \
             spec.reinstall.image (which erases the disk)"
        );
        return Readiness::drifted(Reason::ImageDiffers, message);
    }
    if let Some(readiness) = renamed(observed, detail) {
        return readiness;
    }
    let (power, specified) = match server.power() {
        PowerState::Running => (ServerPower::Started, "running"),
        PowerState::Stopped => (ServerPower::Stopped, "stopped"),
        PowerState::Unmanaged => return as_specified(observed, "the server is as specified"),
    };
    if ServerPower::of(detail) == Some(power) {
        return as_specified(observed, &format!("the server is {specified} as specified"));
    }
    if let Some(state) = observed.unknown_state(detail) {
        return in_unknown_state(state);
    }
    let message = format!(
        "the server is {}, but it must be {specified}: check the server at the service",
        text(detail, "ecsStatus").unwrap_or("in an unknown state")
    );
    Readiness::drifted(Reason::PowerStateDiffers, message)
}

/// The readiness if the server has another name than the one that it was bought or imported with.
fn renamed(observed: &Observation, detail: &Map<String, Value>) -> Option<Readiness> {
    let name = observed.facts.server_name();
    let shown = text(detail, "instanceName").filter(|shown| *shown != name)?;
    let effect = match is_ours(observed, detail) {
        true => "",
        false => ", which is not a name of this Instance, so nothing is done to it",
    };
    let message = format!(
        "the server was renamed to {shown} at the service{effect}: give it back the name {name}"
    );
    Some(Readiness::drifted(Reason::NameDiffers, message))
}

/// The readiness of a server in a state that the operator does not know. Most such states pass.
fn in_unknown_state(state: &str) -> Readiness {
    let minutes = times::UNKNOWN_STATE_PASSES_WITHIN.as_secs() / 60;
    let message = format!(
        "the server is {state}, a state that the operator does not know: the operator waits up to {minutes} minutes for another \
         state and changes nothing meanwhile"
    );
    Readiness::reconciling(Reason::ForeignOperationRunning, message)
}

/// Whether the server bears our marker, or the name that it was imported with, if it shows a name at all. A server with another
/// name may belong to another owner, if the record was edited or the service reused the identifier.
pub(super) fn is_ours(observed: &Observation, detail: &Map<String, Value>) -> bool {
    let name = text(detail, "instanceName");
    let id = observed.facts.id();
    name.zip(id)
        .is_none_or(|(name, id)| observed.facts.is_own_name(&id, name))
}

/// The readiness if the spec does not match the purchase, because it was edited before status showed the server. The only remedy
/// is to revert the edit.
pub(super) fn bought_otherwise(observed: &Observation) -> Option<Readiness> {
    let record = observed.facts.purchase()?;
    let spec = &observed.facts.spec;
    let here = observed.facts.place();
    let place = record.places.last().and_then(|it| it.split_once('/'));
    let (region, zone) = place.unwrap_or((&here.region, &here.zone));
    let bought = [
        ("package", Reference::Package, Some(record.package.as_str())),
        ("firewall", Reference::Firewall, record.firewall.as_deref()),
        ("region", Reference::Region, Some(region)),
        ("zone", Reference::Zone, Some(zone)),
    ];
    let differs = |(what, reference, was): (&'static str, _, Option<&str>)| {
        let pins = record.resolved.as_ref();
        let pin = pins.and_then(|pins| pins.get(reference));
        let specified = match (in_spec(spec, reference, &here), pin) {
            (None, _) => was.map(|_| "(none)".to_owned()),
            (Some(SpecReference::Id(id)), _) => (was != Some(id)).then(|| id.to_owned()),
            // The server was bought without one, or with the result of another selector.
            (Some(SpecReference::Selector(selector)), _) if was.is_none() => Some(selector),
            (Some(SpecReference::Selector(selector)), Some(pin)) if pin.from != selector => {
                Some(selector)
            }
            (Some(SpecReference::Selector(_)), Some(pin)) => {
                (was != Some(pin.id.as_str())).then(|| pin.id.clone())
            }
            (Some(SpecReference::Selector(_)), None) => None,
        };
        Some((what, was.unwrap_or("(none)").to_owned(), specified?))
    };
    let account = &spec.account_ref.name;
    let other_account = || {
        let is_other = record.account != *account;
        is_other.then(|| ("Account", record.account.clone(), account.clone()))
    };
    let (what, was, specified) = bought
        .into_iter()
        .find_map(differs)
        .or_else(other_account)?;
    let message = format!(
        "the record of the server has {what} {was}, the spec has {specified}: set the spec back; for another server, add an \
         Instance with another name"
    );
    let reason = Reason::SpecChangedAfterPurchase;
    Some(Readiness::drifted(reason, message))
}

/// The readiness of a server that matches the spec. The message mentions a pause that is over, because a user who pauses again
/// with a patch may have left the old `until` in place.
fn as_specified(observed: &Observation, words: &str) -> Readiness {
    let pause = observed.facts.spec.pause.as_ref();
    let mut message = match pause.and_then(|pause| pause.until.as_ref()) {
        Some(until) => format!(
            "{words}; the pause is over: spec.pause.until ({until}) has passed; take spec.pause out, or set a later time"
        ),
        None => words.to_owned(),
    };
    if let Some((obstacle, _)) = secret::obstacle(observed) {
        // The connection Secret is not part of the server, so the Instance stays Ready.
        message = format!("{message}; {obstacle}");
    }
    Readiness::ready(Reason::Available, message)
}
