//! Messages about operations: reasons, sentences, Events.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{InstanceSpec, Operation, Verb};
use crate::cloud::{Detail, ServerId};
use crate::instance::fact::Fact;
use crate::instance::memory::call::Call;
use crate::instance::observation::{Observation, is_idle};
use crate::instance::plan::cause;
use crate::runtime::events::EventNote;
use std::time::Duration;
use tokio::time::Instant;

/// How to get another server if the operator buys none. An Instance with `spec.import` never buys one, however often it is
/// applied.
pub(super) fn another(spec: &InstanceSpec) -> String {
    let how = match spec.import {
        Some(_) => " without spec.import",
        None => "",
    };
    format!("delete this Instance and apply it again{how} to get a new server")
}

/// The reason of a condition while an operation runs.
pub(in crate::instance) fn reason(verb: Verb) -> Reason {
    match verb {
        Verb::Create => Reason::Creating,
        Verb::Release => Reason::Releasing,
        Verb::Reinstall => Reason::Reinstalling,
        Verb::ModifyPassword => Reason::ChangingPassword,
        Verb::Start => Reason::Starting,
        Verb::Stop => Reason::Stopping,
        Verb::Restart => Reason::Restarting,
    }
}

/// The message for a server that was imported and has not been observed since; it is not being created.
pub(super) fn importing(id: &ServerId, detail: &Fact<Detail>) -> String {
    match detail {
        Fact::Unknown(why) => {
            format!("server {id} is taken over; its detail could not be read: {why}")
        }
        Fact::Known(detail) if !is_idle(detail.pending()) => {
            let word = detail.pending().unwrap_or_default();
            format!("server {id} is taken over; the service is busy with it ({word})")
        }
        Fact::Known(_) | Fact::NotAsked | Fact::Absent => {
            format!("server {id} is taken over, and looked at once more")
        }
    }
}

/// The message for an operation from its intent to its end.
pub(super) fn running(verb: Verb, id: &ServerId) -> String {
    match verb {
        Verb::Create => format!("creating server {id}"),
        Verb::Release => format!("releasing server {id}"),
        Verb::Reinstall => format!("reinstalling server {id}, which erases its disk"),
        Verb::ModifyPassword => format!("setting a new password on server {id}"),
        Verb::Start => format!("starting server {id}"),
        Verb::Stop => format!("stopping server {id}"),
        Verb::Restart => format!("restarting server {id}"),
    }
}

/// The message about the service after it accepted the call.
pub(in crate::instance) fn doing(verb: Verb, id: &ServerId) -> String {
    match verb {
        Verb::Create => format!("the service is creating server {id}"),
        Verb::Release => format!("the service is releasing server {id}"),
        Verb::Reinstall => format!("the service is reinstalling server {id}; its disk is erased"),
        Verb::ModifyPassword => format!("the service is setting a new password on server {id}"),
        Verb::Start => format!("the service is starting server {id}"),
        Verb::Stop => format!("the service is stopping server {id}"),
        Verb::Restart => format!("the service is restarting server {id}"),
    }
}

/// The Event of an operation that succeeded.
pub(super) fn done(operation: &Operation, id: &ServerId) -> EventNote {
    let (reason, note) = match operation.verb {
        Verb::Create => ("Created", format!("server {id} was created")),
        Verb::Release => ("Released", format!("server {id} was released")),
        Verb::Reinstall => (
            "Reinstalled",
            format!(
                "server {id} was reinstalled with image {}",
                operation.target.image
            ),
        ),
        Verb::ModifyPassword => (
            "PasswordChanged",
            format!("server {id} has the password that its Secret holds"),
        ),
        Verb::Start => ("Started", format!("server {id} was started")),
        Verb::Stop => ("Stopped", format!("server {id} was stopped")),
        Verb::Restart => ("Restarted", format!("server {id} was restarted")),
    };
    EventNote::normal(reason, format!("{note} ({})", cause::told(operation)))
}

/// An operation failed and will be repeated; `Stalled` once it has failed so often that waiting is not enough.
pub(super) fn failed(verb: Verb, words: &str, is_hopeless: bool) -> Readiness {
    let message = format!("the {verb} failed: {words}; it is tried again");
    if is_hopeless {
        Readiness::stalled(Reason::OperationFailed, message)
    } else {
        Readiness::reconciling(Reason::OperationFailed, message)
    }
}

/// The operation in `note` runs and does not end.
pub(super) fn overdue(note: &str) -> Readiness {
    let message =
        format!("{note}, for longer than such operations take: look at the service's console");
    Readiness::stalled(Reason::OperationOverdue, message)
}

/// The message for an unknown outcome of a call.
pub(super) fn doubt(attempt: Option<&Call>, verb: Verb) -> String {
    match attempt.and_then(|attempt| attempt.doubt.as_ref()) {
        Some(doubt) => format!("{doubt}, so it may have been carried out"),
        None => {
            format!("no answer to an earlier {verb} is on record, so it may have been carried out")
        }
    }
}

/// The place whose listing cannot be read, if there is one. Its error message may differ at each try, so only the Account reports
/// it.
pub(super) fn unlisted(observed: &Observation) -> Option<String> {
    let place = observed.listing.as_ref()?.unread()?;
    let account = &observed.account_key.name;
    Some(format!(
        "the listing of {place} cannot be read (the status of Account {account} says why)"
    ))
}

/// The end of a wait as a time of day that stays the same over reconciles: in whole seconds, never too early. Empty once the wait
/// is over.
pub(super) fn until(observed: &Observation, at: Instant) -> String {
    if at <= observed.now {
        return String::new();
    }
    let at = observed.day.at(at + Duration::from_millis(999));
    format!(" until {}", at.strftime("%H:%M:%S UTC"))
}

/// The answer to a call was lost, and the server does not show the effect.
pub(super) fn lost(verb: Verb, words: &str) -> Readiness {
    let message = format!(
        "it is not known whether the {verb} was carried out: {words}; it is asked for again if the spec still wants it"
    );
    Readiness::reconciling(Reason::OperationFailed, message)
}

/// The answer to a reinstall was lost, and nothing at the service shows whether it was carried out.
pub(super) fn undecided(words: &str) -> Readiness {
    let message = format!(
        "{words}, and nothing at the service tells whether the server was reinstalled; it is not repeated, since that could erase \
         the disk twice: look at the server; a new spec.reinstall.token asks again, and taking back what asked for it (spec.image, \
         spec.login or the token) asks for nothing"
    );
    Readiness::stalled(Reason::OutcomeUnknown, message)
}

/// A server does not keep the power state that the operator gives it.
pub(super) fn restless(verb: Verb) -> Readiness {
    let message = format!(
        "the server does not stay as the spec wants it: a {verb} was needed several times lately, so the next one waits; \
         look who or what changes its power, or set spec.powerState to Unmanaged"
    );
    Readiness::reconciling(Reason::PowerStateDiffers, message)
}
