//! The operations that are due: the differences between the spec and the applied state.

use crate::api::{Applied, PowerState, Verb};
use crate::credentials::LoginFact;
use crate::instance::observation;
use crate::instance::observation::{Observation, is_idle};
use crate::instance::plan::diff::{as_read, as_specified, is_new, target};
use crate::instance::plan::erase::{self, ReinstallDecision};
use serde_json::{Map, Value};

/// The operations that are due, in order. If one is not possible now, the next one is tried. A server is started before its
/// password is set, because a service may require that. A reinstall that the service refuses delays no other operation.
pub(super) fn operations(
    observed: &Observation,
    applied: &Applied,
    detail: &Map<String, Value>,
) -> Vec<Verb> {
    let spec = as_specified(observed);
    let other_key = match spec.image.is_empty() {
        // The image is unresolved, but the spec shows whether it asks for a key or a password.
        true => applied.key.is_some() != observed.facts.spec.login.ssh_key.is_some(),
        false => spec.key != applied.key,
    };
    let reinstall = matches!(
        erase::reinstall(observed, applied, detail),
        ReinstallDecision::Due
    );
    // A change between key and password requires a reinstall, which sets the password.
    let password = !other_key
        && (lacks_secret(observed)
            || is_new(
                spec.password_secret.as_ref(),
                applied.password_secret.as_ref(),
            ))
        && !is_same_password(observed, applied);
    let restart = is_new(spec.restart.as_ref(), applied.restart.as_ref());
    let state = observation::text(detail, "ecsStatus");
    let power = observed.facts.spec.power_state;
    let all = [
        (Verb::Reinstall, reinstall),
        (
            Verb::Start,
            power == PowerState::Running && state == Some("STOPPED"),
        ),
        (Verb::ModifyPassword, password),
        (
            Verb::Stop,
            power == PowerState::Stopped && state == Some("STARTED"),
        ),
        (
            Verb::Restart,
            restart && power != PowerState::Stopped && state == Some("STARTED"),
        ),
    ];
    let due = all.into_iter().filter(|(_, is_due)| *is_due);
    due.map(|(verb, _)| verb).collect()
}

/// Values that count as applied without a call once no operation is due: an image that the server already has, a Secret that the
/// operator changed without another password, a restart of a server that is off.
pub(super) fn applied_without_call(
    observed: &Observation,
    applied: &Applied,
    detail: &Map<String, Value>,
) -> Applied {
    let is_done = operations(observed, applied, detail).is_empty();
    if !is_done || !is_idle(observation::pending(detail)) {
        return applied.clone();
    }
    let specified = match &observed.login {
        // The Secret that was read may be newer than the version that the watch has shown.
        LoginFact::Ready(credentials) if is_same_password(observed, applied) => {
            as_read(observed, credentials)
        }
        _ => as_specified(observed),
    };
    let reinstall = erase::reinstall(observed, applied, detail);
    let may_reinstall =
        !specified.image.is_empty() && !matches!(reinstall, ReinstallDecision::Held(_));
    // As after a reinstall, a token that was removed does not undo what was applied.
    let mut accepted = target(Verb::Reinstall, applied, specified);
    if !may_reinstall {
        // The changes that only a reinstall makes are not applied while none may begin.
        if accepted.key != applied.key {
            accepted
                .password_secret
                .clone_from(&applied.password_secret);
        }
        accepted.image.clone_from(&applied.image);
        accepted.key.clone_from(&applied.key);
        accepted.reinstall.clone_from(&applied.reinstall);
    }
    // Neither does a missing Secret.
    accepted.password_secret = match &accepted.key {
        Some(_) => None,
        None => (accepted.password_secret).or_else(|| applied.password_secret.clone()),
    };
    match observation::text(detail, "ecsStatus") {
        Some("STARTED" | "STOPPED") => {
            accepted.power_state = Some(observed.facts.spec.power_state);
        }
        // Without a power state it is unknown whether the server could have been restarted.
        _ => accepted.restart.clone_from(&applied.restart),
    }
    accepted
}

/// The generated Secret is missing: a user deleted it to get another password.
pub(super) fn lacks_secret(observed: &Observation) -> bool {
    observed.facts.spec.login.generate.is_some() && observed.secret_version.is_none()
}

/// Whether the password that was read is the applied one: it is from the applied version, or from one that the operator settled
/// from that version. A pending password does not count, since it must be set again so that the Secret shows it as set.
pub(super) fn is_same_password(observed: &Observation, applied: &Applied) -> bool {
    let in_force = applied.password_secret.as_ref();
    let (LoginFact::Ready(login), true) = (&observed.login, in_force.is_some()) else {
        return false;
    };
    let generated = login.generated.as_ref();
    login.secret.as_ref() == in_force
        || generated.is_some_and(|it| it.is_settled && it.settled_from.as_ref() == in_force)
}
