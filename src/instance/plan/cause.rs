//! Why an operation is begun. The cause is reported in record, status, history, Events and log. No call depends on it: it only
//! selects the Event of a create, and the cause of the next attempt.

use crate::api::{Applied, Cause, Operation, PowerState, PurchaseRecord, Verb};
use crate::instance::observation::Observation;

/// Why an operation on an existing server is begun.
pub(super) fn of(observed: &Observation, verb: Verb, applied: &Applied, target: &Applied) -> Cause {
    match verb {
        // A reinstall left the server off.
        Verb::Start if observed.facts.status.left_off => Cause::Spec,
        Verb::Start if applied.power_state == Some(PowerState::Running) => Cause::Drift,
        Verb::Stop if applied.power_state == Some(PowerState::Stopped) => Cause::Drift,
        Verb::ModifyPassword => of_password(observed, applied, target),
        Verb::Create
        | Verb::Release
        | Verb::Reinstall
        | Verb::Start
        | Verb::Stop
        | Verb::Restart => Cause::Spec,
    }
}

/// Why a server is bought after this attempt.
pub(super) fn of_purchase(former: &PurchaseRecord, was_released_externally: bool) -> Cause {
    match was_released_externally || former.cause == Some(Cause::ExternalDeletion) {
        true => Cause::ExternalDeletion,
        false => Cause::Spec,
    }
}

/// The cause of a password change: the Secret differs, or the spec names another one.
fn of_password(observed: &Observation, applied: &Applied, target: &Applied) -> Cause {
    // Without UID and version.
    let named = |applied: &Applied| {
        let secret = applied.password_secret.as_ref()?;
        secret.rsplitn(3, '/').nth(2).map(ToOwned::to_owned)
    };
    let is_same = named(applied).is_some() && named(applied) == named(target);
    match (is_same, &observed.facts.spec.login.generate) {
        (false, _) => Cause::Spec,
        (true, Some(_)) => Cause::Rotation,
        (true, None) => Cause::Secret,
    }
}

/// Cause, generation of the spec and version of the Secret, in brackets at the end of an Event.
pub(in crate::instance) fn summary(operation: &Operation) -> String {
    let why = operation.cause.map(|cause| format!("{cause}, "));
    let why = why.unwrap_or_default();
    let secret = operation.target.password_secret.as_ref();
    let secret = secret.filter(|_| operation.verb.bears_login());
    let version =
        secret.and_then(|secret| Some((secret.split_once('/')?.0, secret.rsplit_once('/')?.1)));
    let version = version.map_or_else(String::new, |(name, version)| {
        format!(", Secret {name} at resourceVersion {version}")
    });
    format!("{why}spec of generation {}{version}", operation.generation)
}
