//! Messages about operations: reasons, sentences, Events.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{InstanceSpec, Operation, Stage, Verb};
use crate::cloud::{Detail, ServerId};
use crate::instance::fact::Fact;
use crate::instance::memory::call::NewestCall;
use crate::instance::observation::Observation;
use crate::instance::plan::cause;
use crate::instance::plan::verbs::row;
use crate::inventory::ZoneViews;
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

/// The readiness if a protected Instance is being deleted.
pub(in crate::instance) fn protected() -> Readiness {
    let message = "this Instance was deleted while spec.deletionProtection is true, so nothing is released: set \
                   spec.deletionProtection to false to let the deletion go on; it deletes a generated password, and releases the \
                   server unless spec.deletionPolicy is Retain or spec.managementPolicy is Observe";
    Readiness::stalled(Reason::DeletionProtected, message)
}

/// The message for an imported server whose import has not ended yet. The service is not creating this server.
pub(super) fn importing(id: &ServerId, detail: &Fact<Detail>) -> String {
    match detail {
        Fact::Unknown(why) => {
            format!("server {id} is imported; its detail could not be read: {why}")
        }
        _ => format!("server {id} is imported; the service is still working on it"),
    }
}

/// The message for an operation from its intent to its end.
pub(in crate::instance) fn running(operation: &Operation, id: &ServerId) -> String {
    let words = row(operation.call()).running;
    match (operation.power_cut, operation.call(), operation.stage) {
        (true, Verb::Stop, _) => format!("cutting the power of server {id}"),
        (_, _, None | Some(Stage::Erasing)) => format!("{words} server {id}"),
        (_, _, Some(Stage::Stopping)) => {
            format!("{words} server {id}, since the service reinstalls only stopped servers")
        }
    }
}

/// The Event of an operation that succeeded.
pub(super) fn done(operation: &Operation, id: &ServerId) -> EventNote {
    let (reason, words) = row(operation.verb).done;
    let image = match operation.verb {
        Verb::Reinstall => format!(" with image {}", operation.target.image),
        _ => String::new(),
    };
    let cause = cause::summary(operation);
    EventNote::normal(reason, format!("server {id} {words}{image} ({cause})"))
}

/// The operation in `note` runs and does not end.
pub(super) fn overdue(note: &str) -> Readiness {
    let message =
        format!("{note}, for longer than such operations take: check it in the service's console");
    Readiness::stalled(Reason::OperationOverdue, message)
}

/// The message for an unknown outcome of a call.
pub(super) fn doubt(call: Option<&NewestCall>, verb: Verb) -> String {
    match call.and_then(|call| call.doubt.as_ref()) {
        Some(doubt) => format!("{doubt}; the outcome of the {verb} is unknown"),
        None => format!("no answer to an earlier {verb} is on record; its outcome is unknown"),
    }
}

/// The end of a sentence about a listing that cannot be read; empty if there is none. The service's error message may differ at
/// each try, so only the Account reports it.
pub(super) fn unlisted(observed: &Observation) -> String {
    let account = &observed.account_key.name;
    let place = observed.listing.as_ref().and_then(ZoneViews::unread);
    place.map_or_else(String::new, |place| {
        format!(": the listing of {place} cannot be read (see the status of Account {account})")
    })
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

/// The answer to a reinstall was lost, and nothing at the service shows whether the disk was erased.
pub(super) fn undecided(doubt: &str) -> Readiness {
    let message = format!(
        "{doubt}, and nothing at the service shows whether the server was reinstalled; the reinstall is not repeated, since that \
         could erase the disk twice: check the server; to reinstall it again, set a new spec.reinstall.token; to keep it, set \
         spec.image, spec.login and spec.reinstall back to the values in status.applied, or, if they already have \
         these, edit another field"
    );
    Readiness::stalled(Reason::OutcomeUnknown, message)
}
