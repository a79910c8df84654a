//! The target state in the spec, and the state that the service last accepted.
//!
//! The spec is compared with what the service last accepted ([`Applied`]), and for the power state with the last observation (in
//! [`due`](super::due)). So an external change erases nothing and sets no password (rules 10 and 11).

use crate::api::{Applied, Operation, PowerState, PurchaseRecord, Reference, Verb};
use crate::credentials::KnownLogin;
use crate::instance::observation::{Observation, of_purchase};
use crate::instance::{observation, references};

/// The target state in the spec, as far as it is known without reading a Secret. The image is empty if the selector for it or for
/// the key pair has not been resolved: then no reinstall is due.
pub(super) fn as_specified(observed: &Observation) -> Applied {
    let spec = &observed.facts.spec;
    let key = references::id(observed, Reference::SshKey);
    // With an unresolved image or key, the installation cannot be compared.
    let image = references::id(observed, Reference::Image)
        .filter(|_| !references::installation_is_unresolved(observed));
    Applied {
        image: image.unwrap_or_default(),
        password_secret: observed.secret_version.clone().filter(|_| key.is_none()),
        key,
        restart: spec.restart.as_ref().map(|restart| restart.token.clone()),
        reinstall: spec
            .reinstall
            .as_ref()
            .map(|reinstall| reinstall.token.clone()),
        power_state: None,
    }
}

/// The target state in the spec, with the Secret as it was read.
pub(super) fn as_read(observed: &Observation, login: &KnownLogin) -> Applied {
    Applied {
        password_secret: login.secret.clone(),
        ..as_specified(observed)
    }
}

/// The state that the service last accepted, according to status; while status does not show it, the result of the purchase.
pub(super) fn applied(observed: &Observation, record: &PurchaseRecord) -> Applied {
    let status = &observed.facts.status;
    let is_of_it = status.id.is_none() || status.id == record.id;
    match status.applied.clone().filter(|_| is_of_it) {
        Some(shown) if !shown.image.is_empty() => shown,
        // The image was not resolved when that status was written.
        Some(shown) => Applied {
            image: by_purchase(observed, record).image,
            ..shown
        },
        None => by_purchase(observed, record),
    }
}

/// The result of a purchase, from its record. If status was lost, later operations may have changed the server. Then the values in
/// the spec count as applied, with two exceptions that are visible or harmless (decision 29): the bought image, if the server
/// still shows it, and the password, which is set again unless it is the one of the purchase. A restored object may have any older
/// spec, which counts except for a generated or unknown password.
pub(super) fn by_purchase(observed: &Observation, record: &PurchaseRecord) -> Applied {
    let facts = &observed.facts;
    if is_in_flight(observed, record) {
        return result_of(observed, &of_purchase(record));
    }
    let specified = as_specified(observed);
    let is_restored = record.uid != facts.uid;
    let generates = facts.spec.login.generate.is_some();
    let password_secret = match &specified.password_secret {
        // The Secret of the original object was deleted with it, and the password that the operator generated in the new one was
        // never set.
        Some(_) if is_restored && generates => None,
        Some(_) if !is_restored || record.waiting_password => {
            result_of(observed, &of_purchase(record)).password_secret
        }
        given => given.clone(),
    };
    let detail = observed.detail.known().filter(|_| !is_restored);
    let shown = detail.and_then(|detail| observation::text(&detail.fields, "imageResourceUUID"));
    let image = match &record.target.image {
        image if shown == Some(image) => image.clone(),
        _ => specified.image,
    };
    Applied {
        password_secret,
        image,
        ..specified
    }
}

/// Whether certainly no operation followed the purchase: status shows it in flight, or this process saw it begin or run, and not
/// end.
pub(super) fn is_in_flight(observed: &Observation, record: &PurchaseRecord) -> bool {
    let shown = observed.facts.status.operation.as_ref();
    let is_shown = shown.is_some_and(|shown| {
        let is_it = shown.verb == Verb::Create && shown.attempt == i64::from(record.attempt);
        is_it && shown.is_open()
    });
    let attempt = observed.memory.attempt(record);
    is_shown || attempt.is_some_and(|attempt| attempt.is_newest)
}

/// The result of a successful operation. Values that were not resolved when it was announced are taken from the spec.
pub(super) fn result_of(observed: &Observation, operation: &Operation) -> Applied {
    let generates = observed.facts.spec.login.generate.is_some();
    let mut target = operation.target.clone();
    match operation.verb {
        Verb::Start | Verb::Restart => target.power_state = Some(PowerState::Running),
        Verb::Stop => target.power_state = Some(PowerState::Stopped),
        Verb::Create | Verb::Release | Verb::Reinstall | Verb::ModifyPassword => {}
    }
    // The spec no longer names the Secret with the pending password, so no step would make that password the current one. The
    // password that the spec names now must be set.
    let is_stranded = operation.waiting_password && !generates;
    if is_stranded {
        target.password_secret = None;
    }
    if !target.image.is_empty() {
        return target;
    }
    // Without an image, only the password of the target counts. A target without a password means that one is still to be set. The
    // exception is a purchase with a password of the user: then the password in the spec counts.
    let is_later = operation.verb != Verb::Create;
    let is_known = is_later || is_stranded || generates || target.password_secret.is_some();
    let specified = as_specified(observed);
    if !is_known {
        return specified;
    }
    Applied {
        password_secret: target.password_secret,
        ..specified
    }
}

/// The state of the server after an operation: a reinstall sets image, login and tokens, a password change the password. A value
/// that the call does not set stays as applied: otherwise the call that sets it would never be due. A reinstall or a start also
/// counts as a restart.
pub(super) fn target(verb: Verb, applied: &Applied, specified: Applied) -> Applied {
    let applied = applied.clone();
    match verb {
        Verb::Create | Verb::Reinstall => Applied {
            image: specified.image,
            key: specified.key,
            password_secret: specified.password_secret,
            restart: specified.restart.or(applied.restart),
            reinstall: specified.reinstall.or(applied.reinstall),
            power_state: applied.power_state,
        },
        Verb::ModifyPassword => Applied {
            password_secret: specified.password_secret,
            ..applied
        },
        Verb::Start | Verb::Restart => Applied {
            restart: specified.restart.or(applied.restart.clone()),
            ..applied
        },
        Verb::Stop | Verb::Release => applied,
    }
}
