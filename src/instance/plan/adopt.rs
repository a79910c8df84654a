//! A server exists that the record does not name: the service gave it to this process a moment ago, or a listing shows it with
//! our marker. It is recorded before anything else, and no second server is bought next to it.

use crate::api::conditions::Reason;
use crate::api::{Applied, Cause, PurchaseRecord, attempt_number};
use crate::cloud::{ServerId, TaskId};
use crate::instance::fact::Fact;
use crate::instance::memory::call::NewestCall;
use crate::instance::observation::{Observation, SessionFacts};
use crate::instance::plan::step::{Plan, Step};
use crate::instance::plan::why::Why;
use crate::instance::plan::{attempt, diff, evidence, words};
use crate::runtime::events::EventNote;
use tokio::time::Instant;

/// Adopts a server that bears our marker and is on no record. If there are several, it takes the one in status, or else the first
/// by identifier; the others become surplus servers. `since` is when an attempt was first seen: the absence of all earlier
/// servers was proven before its intent was written, so a server that only an older listing shows is gone.
pub(super) fn adopt(
    observed: &Observation,
    session: &SessionFacts,
    since: Option<Instant>,
) -> Option<Plan> {
    let mut found = bearing(observed);
    if let (Some(since), Some(listing)) = (since, &observed.listing) {
        found.retain(|id| listing.row(id).is_some_and(|(_, at)| at > since));
    }
    let known = observed.facts.status.id.as_deref().map(ServerId::from);
    let id = known
        .filter(|id| found.contains(id))
        .or_else(|| found.into_iter().next())?;
    let note = format!("found server {id} by its name and recorded it");
    let mut plan = record(observed, session, &id, None);
    if let Step::Record { record } = &mut plan.step {
        record.cause = Some(Cause::Adoption);
    }
    Some(plan.with_event(EventNote::normal("Adopted", note)))
}

/// Servers with our marker that are not known to be gone, by identifier.
pub(super) fn bearing(observed: &Observation) -> Vec<ServerId> {
    let listed = observed
        .listing
        .iter()
        .flat_map(|listing| listing.bearing(&observed.facts.marker));
    listed
        .filter(|id| observed.memory.gone(id).is_none())
        .collect()
}

/// The service gave this process a server that the record does not name yet. Recording it comes before everything else.
pub(super) fn accepted(observed: &Observation, session: &SessionFacts) -> Option<Plan> {
    let (number, id, task) = observed.memory.accepted_server()?;
    let current = observed.facts.purchase().map(|record| record.attempt);
    let stands = match current {
        Some(current) if number < current => return None,
        Some(current) => number == current,
        // If status names the server, more has happened to it than the purchase.
        None => observed.facts.status_names(id),
    };
    Some(if stands {
        record(observed, session, id, task.map(ToString::to_string))
    } else {
        announced(observed, session, number, id, task)
    })
}

/// This process bought a server that differs from the recorded one, and the record does not show it. Either the record is older,
/// because the cluster's state went back: then that other server belongs to the Instance, and nothing else is bought. Or another
/// process recorded a different server for this attempt, which is missing by now while this one exists.
pub(super) fn bought_instead(
    observed: &Observation,
    session: &SessionFacts,
    recorded: &ServerId,
) -> Option<Plan> {
    let (number, id, task) = observed.memory.accepted_server()?;
    let record = observed.facts.purchase()?;
    let is_of_it = number == record.attempt
        && observed.memory.attempt(record).is_some()
        && observed.look().is_absent()
        && evidence::is_missing(observed, session, recorded)
        && bearing(observed).contains(id);
    if id == recorded || !(number > record.attempt || is_of_it) {
        return None;
    }
    Some(announced(observed, session, number, id, task))
}

/// The record of a purchase as this process announced it, with the server that the service gave. If the object has another record
/// or none, its spec may be older than the purchase as well. Nothing may be erased to undo what was ordered since (rule 10), so
/// the values in the spec count as applied, except for the password.
fn announced(
    observed: &Observation,
    session: &SessionFacts,
    number: u32,
    id: &ServerId,
    task: Option<&TaskId>,
) -> Plan {
    let task = task.map(ToString::to_string);
    let call = observed.memory.call.as_deref();
    let purchase = call.filter(|call| call.number == number);
    let purchase = purchase.and_then(NewestCall::purchase);
    let Some(purchase) = purchase else {
        return record(observed, session, id, task);
    };
    let mut record = Box::new(purchase);
    let stands = observed.facts.purchase().map(|stands| stands.attempt);
    if stands != Some(number) {
        let target = &mut record.target;
        *target = Applied {
            password_secret: target.password_secret.take(),
            ..diff::as_specified(observed)
        };
        record.waiting_password |= record.target.password_secret.is_none();
    }
    record.id = Some(id.to_string());
    record.task = task;
    is_in(observed, id, &mut record);
    let why = Why::progress(Reason::Creating, attempt::creating(observed));
    let plan = Plan::act(Step::Record { record }).because(Some(why));
    plan.with_id(Some(id.clone()))
}

/// The record of an existing server. Without a task the server was found rather than received, and its request may have been
/// doubled.
pub(super) fn record(
    observed: &Observation,
    session: &SessionFacts,
    id: &ServerId,
    task: Option<String>,
) -> Plan {
    let mut record = match observed.facts.purchase() {
        Some(record) => {
            let mut record = record.clone();
            if !observed.facts.is_creating() {
                // The recorded attempt has ended, so the adopted server belongs to an unknown one.
                record.attempt = attempt::next_attempt(observed);
                record.nonce.clear();
                record.cause = Some(Cause::Adoption);
            }
            record.lost = record.lost.saturating_add(u32::from(task.is_none()));
            record.recreated = record.recreated.max(observed.memory.origin.recreated);
            let is_other = observed.facts.id().is_some_and(|former| former != *id);
            if is_other {
                record.imported = None;
            }
            if is_other && !is_as_ordered(observed) {
                // The server was ordered with the spec of that time, and status may no longer show what was done to the other
                // server since. Its disk must not be erased to undo that: only the password is set again. The same holds if image
                // or key are resolved only later.
                record.target = Applied {
                    password_secret: None,
                    ..diff::as_specified(observed)
                };
                record.waiting_password = true;
            }
            record
        }
        None => {
            let mut record = attempt::blank(observed, session);
            // Status may still show the purchase of this server: then only the record was lost.
            let status = &observed.facts.status;
            let is_known = observed.facts.status_names(id) && status.applied.is_some();
            record.lost = u32::from(!is_known);
            if is_known {
                // An open operation on the server came after the purchase.
                let open = status.operation.as_ref().filter(|told| told.is_open());
                let before = open.map_or(status.attempt, |open| open.attempt.saturating_sub(1));
                record.attempt = attempt_number(before).unwrap_or(record.attempt);
            }
            if observed.facts.spec.login.generate.is_some() {
                // The server may have another password by now than the Secret, which must hold the one in force. If status shows
                // what was applied, that value is used.
                record.target.password_secret = None;
                record.waiting_password = true;
            }
            record
        }
    };
    record.id = Some(id.to_string());
    record.task = task;
    record.refused = None;
    is_in(observed, id, &mut record);
    let why = match &record.imported {
        Some(_) => Why::progress(Reason::Importing, words::importing(id, &Fact::NotAsked)),
        None => Why::progress(Reason::Creating, attempt::creating(observed)),
    };
    let record = Box::new(record);
    let plan = Plan::act(Step::Record { record }).because(Some(why));
    plan.with_id(Some(id.clone()))
}

/// The recorded create failed and nothing was done to its server since. Another server with our marker comes from the same order,
/// so an edit since then is an edit for it as well. This does not hold if this process may have bought under a later record.
fn is_as_ordered(observed: &Observation) -> bool {
    let record = observed.facts.purchase();
    observed.create_failed().is_some()
        && record.is_some_and(|record| observed.memory.in_doubt_since(record).is_none())
}

/// Moves the place of the recorded server to the end, where operations and the comparison with the spec look for it. The places
/// of former attempts stay, since their servers may still show up.
pub(super) fn is_in(observed: &Observation, id: &ServerId, record: &mut PurchaseRecord) {
    let Some(place) = observed
        .listing
        .as_ref()
        .and_then(|listing| listing.place_of(id))
    else {
        return;
    };
    let place = place.to_string();
    record.places.retain(|other| *other != place);
    record.places.push(place);
}
