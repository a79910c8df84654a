//! Why an operation is begun. The cause is reported in record, history, Events and log, and never used for decisions.

use crate::api::conditions::{READY, Reason};
use crate::api::{Applied, Cause, HistoryEntry, Operation, PowerState, PurchaseRecord, Verb};
use crate::instance::observation::Observation;

/// Why an operation on an existing server is begun.
pub(super) fn of(observed: &Observation, verb: Verb, applied: &Applied, target: &Applied) -> Cause {
    let last = observed.facts.status.operation.as_ref();
    let again = last.filter(|last| {
        last.verb == verb && last.generation == observed.facts.generation && !last.is_open()
    });
    if let Some(cause) = again.and_then(|last| last.cause) {
        return cause;
    }
    match verb {
        Verb::Start | Verb::Stop => match was_as_specified(observed) {
            true => Cause::Drift,
            false => Cause::Spec,
        },
        Verb::ModifyPassword => of_password(observed, applied, target),
        Verb::Create | Verb::Release | Verb::Reinstall | Verb::Restart => Cause::Spec,
    }
}

/// Why a server is bought after this attempt.
pub(super) fn of_purchase(former: Option<&PurchaseRecord>, somebody_released: bool) -> Cause {
    let is_again = former.is_some_and(|before| before.cause == Some(Cause::ExternalDeletion));
    match somebody_released || is_again {
        true => Cause::ExternalDeletion,
        false => Cause::Spec,
    }
}

/// Whether the server once matched the spec, so that a difference comes from an external change. If an operation set its power
/// state, the newest such operation counts, for any generation, since an edit of another field did not change the power state.
/// Otherwise the status of this generation counts.
fn was_as_specified(observed: &Observation) -> bool {
    let (status, generation) = (&observed.facts.status, observed.facts.generation);
    let wants_it_off = observed.facts.spec.power_state == PowerState::Stopped;
    let mut brought = status.history.iter().filter_map(brought_off);
    if let Some(brought_off) = brought.next() {
        return brought_off == wants_it_off;
    }
    let differs = Reason::PowerStateDiffers.as_str();
    let mut told = status.conditions.iter();
    told.any(|told| {
        told.type_ == READY
            && told.observed_generation == Some(generation)
            && (told.status == "True" || told.reason == differs)
    })
}

/// Whether a successful operation left the server off; None if it did not change its power state. An adopted or imported server
/// keeps the power state that it had.
fn brought_off(entry: &HistoryEntry) -> Option<bool> {
    let was_there = matches!(entry.cause, Some(Cause::Adoption | Cause::Import));
    if !entry.succeeded || was_there {
        return None;
    }
    match entry.verb {
        Verb::Stop => Some(true),
        Verb::Create | Verb::Start | Verb::Restart => Some(false),
        Verb::Release | Verb::Reinstall | Verb::ModifyPassword => None,
    }
}

/// The cause of a password change: the Secret differs, or the spec names another one.
fn of_password(observed: &Observation, applied: &Applied, target: &Applied) -> Cause {
    let (Some(before), Some(now)) = (&applied.password_secret, &target.password_secret) else {
        return Cause::Spec;
    };
    // Each has name, key, UID and version.
    let parts = |secret: &str| {
        let (object, _) = secret.rsplit_once('/')?;
        let (name, uid) = object.rsplit_once('/')?;
        Some((name.to_owned(), uid.to_owned()))
    };
    let (Some(before), Some(now)) = (parts(before), parts(now)) else {
        return Cause::Spec;
    };
    let generates = observed.facts.spec.login.generate.is_some();
    match (before.0 == now.0, before.1 == now.1) {
        (false, _) => Cause::Spec,
        (true, true) if generates => Cause::Rotation,
        (true, _) => Cause::Secret,
    }
}

/// Cause and spec as the end of a sentence.
pub(in crate::instance) fn told(operation: &Operation) -> String {
    let why = operation
        .cause
        .map_or_else(String::new, |cause| format!("{cause}, "));
    let secret = operation.target.password_secret.as_ref();
    let secret = secret.filter(|_| operation.verb.bears_login());
    let version =
        secret.and_then(|secret| Some((secret.split_once('/')?.0, secret.rsplit_once('/')?.1)));
    let version = version.map_or_else(String::new, |(name, version)| {
        format!(", Secret {name} at resourceVersion {version}")
    });
    format!("{why}spec of generation {}{version}", operation.generation)
}
