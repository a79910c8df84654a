//! What the spec asks for, and what the service last took.
//!
//! The spec is compared with what the service last took ([`Applied`]), never with the last look, so that only a change of the
//! spec or of a Secret erases or changes anything (design section 4, rules 10 and 11).

use crate::api::{Applied, Operation, PurchaseRecord, Verb};
use crate::instance::fact::Fact;
use crate::instance::login::Credentials;
use crate::instance::observation::{Observation, of_purchase};
use crate::instance::{observation, references};
use serde_json::{Map, Value};

/// What the spec asks for, as far as it can be told without reading a Secret. Without an image where that, or the key pair, is
/// not looked up yet: then nothing is asked for.
pub(super) fn as_specified(observed: &Observation) -> Applied {
    let spec = &observed.facts.spec;
    let key = references::key(observed).map(|key| key.id);
    // Where image or key is not looked up, nothing can be said about the installation.
    let image = references::image(observed).filter(|_| !references::installation_is_open(observed));
    Applied {
        image: image.map(|image| image.id).unwrap_or_default(),
        password_secret: observed.secret_version.clone().filter(|_| key.is_none()),
        key,
        restart: spec.restart.as_ref().map(|restart| restart.token.clone()),
        reinstall: spec
            .reinstall
            .as_ref()
            .map(|reinstall| reinstall.token.clone()),
    }
}

/// What the spec asks for, with the Secret as it was read.
pub(super) fn as_read(observed: &Observation, credentials: &Credentials) -> Applied {
    Applied {
        password_secret: credentials.secret.clone(),
        ..as_specified(observed)
    }
}

/// What the service last took, as status tells; while that is not told, what the purchase brings.
pub(super) fn applied(observed: &Observation, record: &PurchaseRecord) -> Applied {
    let status = &observed.facts.status;
    let is_of_it = status.id.is_none() || status.id == record.id;
    match status.applied.clone().filter(|_| is_of_it) {
        Some(told) if !told.image.is_empty() => told,
        // What was not looked up then.
        Some(told) => Applied {
            image: bought(observed, record).image,
            ..told
        },
        None => bought(observed, record),
    }
}

/// What a purchase brings, as its record tells it. Where status was lost since, later operations may have brought something else:
/// then what the spec says counts as applied, but for what shows or does no harm (decision 29): the image that was bought, where
/// the server has it, and the password, which is set once more where it is not the one that was bought with. Of an object that
/// was restored the spec may be any former one, and counts.
pub(super) fn bought(observed: &Observation, record: &PurchaseRecord) -> Applied {
    let facts = &observed.facts;
    if is_in_flight(observed, record) {
        return brought(observed, &of_purchase(record));
    }
    let specified = as_specified(observed);
    let is_restored = record.uid != facts.uid;
    let generates = facts.spec.login.generate.is_some();
    let password_secret = match &specified.password_secret {
        // The Secret of the former life went with it, and nobody has set what the operator made in this one.
        Some(_) if is_restored && generates => None,
        Some(_) if !is_restored || record.waiting_password => {
            brought(observed, &of_purchase(record)).password_secret
        }
        given => given.clone(),
    };
    let shown = match &observed.detail {
        Fact::Known(detail) if !is_restored => {
            observation::text(&detail.fields, "imageResourceUUID")
        }
        _ => None,
    };
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

/// Whether it is known that nothing came after the purchase: status shows it in flight, or this process saw it begin or run and
/// not end.
pub(super) fn is_in_flight(observed: &Observation, record: &PurchaseRecord) -> bool {
    let shown = observed.facts.status.operation.as_ref();
    let is_shown = shown.is_some_and(|shown| {
        let is_it = shown.verb == Verb::Create && shown.attempt == i64::from(record.attempt);
        is_it && shown.is_open()
    });
    let attempt = observed.memory.attempt(record);
    is_shown || attempt.is_some_and(|attempt| attempt.is_newest)
}

/// What an operation brings that is done. What was not looked up when it was announced is what the spec says.
pub(super) fn brought(observed: &Observation, operation: &Operation) -> Applied {
    let generates = observed.facts.spec.login.generate.is_some();
    let mut target = operation.target.clone();
    // Nobody moves it to where the spec looks for the password by now: the one that stands there is set.
    let is_stranded = operation.waiting_password && !generates;
    if is_stranded {
        target.password_secret = None;
    }
    if !target.image.is_empty() {
        return target;
    }
    // Of the password alone something may be known: of one that the operator makes always, and after an operation that came
    // later than the purchase, where none is recorded because it is still to be set.
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

/// A word that stands in the spec and was not applied; one that was taken out of the spec asks for nothing.
pub(super) fn is_new(specified: Option<&String>, applied: Option<&String>) -> bool {
    specified.is_some() && specified != applied
}

/// The spec wants another image than was applied. One that the server shows already is a drift that the spec accepts, but
/// for what a reinstall to it left behind that did not end well.
pub(super) fn is_other_image(
    observed: &Observation,
    applied: &Applied,
    spec: &Applied,
    detail: &Map<String, Value>,
) -> bool {
    let shows_it = observation::text(detail, "imageResourceUUID") == Some(spec.image.as_str());
    let is_unfinished = observed.facts.status.unfinished_image.as_ref() == Some(&spec.image);
    spec.image != applied.image && (!shows_it || is_unfinished)
}

/// What the server is to be after an operation: a reinstall brings all, a password change the password. A server that is
/// reinstalled or started has restarted.
pub(super) fn target(verb: Verb, applied: &Applied, specified: Applied) -> Applied {
    let applied = applied.clone();
    match verb {
        Verb::Create | Verb::Reinstall => Applied {
            restart: specified.restart.or(applied.restart),
            reinstall: specified.reinstall.or(applied.reinstall),
            ..specified
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
