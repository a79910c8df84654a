//! A server exists that the record does not name: the service gave it to this process a moment ago, or a listing shows it with
//! our marker. It is recorded before anything else, and no second server is bought next to it.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{Applied, Cause, PurchaseRecord, attempt_number};
use crate::cloud::{ServerId, TaskId};
use crate::instance::fact::Fact;
use crate::instance::memory::call::NewestCall;
use crate::instance::observation::Observation;
use crate::instance::plan::observed::{InSession, OnRecord};
use crate::instance::plan::step::{Plan, Step};
use crate::instance::plan::{attempt, diff, evidence, words};
use crate::runtime::events::EventNote;
use tokio::time::Instant;

/// Adopts a server that bears our marker and is on no record. If there are several, it takes the one in status, or else the first
/// by identifier; the others become surplus servers. `since` is when an attempt was first seen: the absence of all earlier
/// servers was proven before its intent was written, so a server that only an older listing shows is gone.
pub(super) fn adopt(observed: &InSession<'_>, since: Option<Instant>) -> Option<Plan> {
    let mut found = bearing(observed);
    if let (Some(since), Some(listing)) = (since, &observed.listing) {
        found.retain(|id| listing.row(id).is_some_and(|(_, at)| at > since));
    }
    let in_status = found.iter().find(|id| observed.facts.status_names(id));
    let id = in_status.or(found.first())?;
    let mut record = existing(observed, id, false);
    record.cause = Some(Cause::Adoption);
    let note = format!("found server {id} by its name and recorded it");
    let plan = put_on_record(observed, record, id, None);
    Some(plan.with_event(EventNote::normal("Adopted", note)))
}

/// Servers with our marker that are not known to be gone, by identifier.
pub(super) fn bearing(observed: &Observation) -> Vec<ServerId> {
    let (listing, marker) = (observed.listing.iter(), &observed.facts.marker);
    let listed = listing.flat_map(|listing| listing.bearing(marker));
    let alive = listed.filter(|id| observed.memory.gone(id).is_none());
    alive.collect()
}

/// The service gave this process a server that the record does not name yet. Recording it comes before everything else.
pub(super) fn accepted(observed: &InSession<'_>) -> Option<Plan> {
    let (number, id, task) = observed.memory.accepted_server()?;
    let current = observed.facts.purchase().map(|record| record.attempt);
    let is_current = match current {
        Some(current) if number < current => return None,
        Some(current) => number == current,
        // If status names the server, operations may have followed the purchase.
        None => observed.facts.status_names(id),
    };
    let record = match is_current {
        true => existing(observed, id, true),
        false => announced(observed, number, id),
    };
    Some(put_on_record(observed, record, id, task))
}

/// Records a server that this process bought while the record names another one. Either the record is older than the purchase,
/// because the cluster's state went back. Or another process recorded another server for the same attempt, and that server is
/// missing by now, while a listing shows the one that this process bought.
pub(super) fn bought_instead(observed: &OnRecord<'_>) -> Option<Plan> {
    let (number, id, task) = observed.memory.accepted_server()?;
    let record = observed.record;
    let is_of_it = number == record.attempt
        && observed.memory.attempt(record).is_some()
        && evidence::is_missing(observed)
        && bearing(observed).contains(id);
    if *id == observed.id || !(number > record.attempt || is_of_it) {
        return None;
    }
    let record = announced(observed, number, id);
    Some(put_on_record(observed, record, id, task))
}

/// The record of a purchase as this process announced it. If the object has another record or none, its spec may be older than
/// the purchase as well. The new server must not be erased to match an older spec (rule 10), so the values in the spec count as
/// applied, except for the password.
fn announced(observed: &InSession<'_>, number: u32, id: &ServerId) -> PurchaseRecord {
    let call = observed.memory.call.as_deref();
    let purchase = call.filter(|call| call.number == number);
    let Some(mut record) = purchase.and_then(NewestCall::purchase) else {
        return existing(observed, id, true);
    };
    let current = observed.facts.purchase().map(|record| record.attempt);
    if current != Some(number) {
        let password = record.target.password_secret.take();
        counts_as_specified(observed, &mut record, password);
    }
    record
}

/// The record for an existing server, from the one on the object. `is_given`: the service gave the server to this process.
/// Otherwise a listing showed the server, and the request for it may have been doubled.
fn existing(observed: &InSession<'_>, id: &ServerId, is_given: bool) -> PurchaseRecord {
    let Some(record) = observed.facts.purchase() else {
        return without_record(observed, id);
    };
    let mut record = record.clone();
    if !observed.facts.is_creating() {
        // The recorded attempt has ended, so the adopted server belongs to an unknown attempt.
        record.attempt = attempt::next_attempt(observed);
        record.nonce.clear();
        record.cause = Some(Cause::Adoption);
    }
    record.lost = record.lost.saturating_add(u32::from(!is_given));
    record.recreated = observed.memory.origin.recreated;
    if observed.facts.id().is_some_and(|former| former != *id) {
        record.imported = None;
        if !is_as_ordered(observed) {
            // The server may have been ordered with an older spec. Operations since then changed only the other server, and status
            // may not show them any more. The disk of this server must not be erased to make up for them, so the values in the
            // spec count as applied (an image or key that is unresolved, once it is resolved). Only the password is set again.
            counts_as_specified(observed, &mut record, None);
        }
    }
    record
}

/// The record for an existing server of an object without a record. Status may still show the purchase of this server: then only
/// the record was lost.
pub(super) fn without_record(observed: &InSession<'_>, id: &ServerId) -> PurchaseRecord {
    let mut record = attempt::blank(observed);
    let status = &observed.facts.status;
    let is_known = observed.facts.status_names(id) && status.applied.is_some();
    record.lost = u32::from(!is_known);
    if is_known {
        // An open operation on the server came after the purchase.
        let open = status.operation.as_ref().filter(|shown| shown.is_open());
        let before = open.map_or(status.attempt, |open| open.attempt.saturating_sub(1));
        record.attempt = attempt_number(before).unwrap_or(record.attempt);
    }
    forget_generated(observed, &mut record);
    record
}

/// The server may have another password than the generated Secret, which must hold the one in force. So the password is set again,
/// unless status shows which one was applied.
pub(super) fn forget_generated(observed: &Observation, record: &mut PurchaseRecord) {
    if observed.facts.spec.login.generate.is_some() {
        counts_as_specified(observed, record, None);
    }
}

/// The server counts as installed as the spec describes it, with the password of this Secret. Without a Secret, the password is set
/// again.
fn counts_as_specified(
    observed: &Observation,
    record: &mut PurchaseRecord,
    password_secret: Option<String>,
) {
    record.waiting_password |= password_secret.is_none();
    record.target = Applied {
        password_secret,
        ..diff::as_specified(observed)
    };
}

/// The plan that records this server.
pub(super) fn put_on_record(
    observed: &Observation,
    mut record: PurchaseRecord,
    id: &ServerId,
    task: Option<&TaskId>,
) -> Plan {
    record.id = Some(id.to_string());
    record.task = task.map(ToString::to_string);
    record.refused = None;
    // Operations and the comparison with the spec take the last place as that of the server. The places of former attempts stay,
    // since their servers may still show up.
    let listing = observed.listing.as_ref();
    if let Some(place) = listing.and_then(|listing| listing.place_of(id)) {
        let place = place.to_string();
        record.places.retain(|other| *other != place);
        record.places.push(place);
    }
    let why = match &record.imported {
        Some(_) => Readiness::progress(Reason::Importing, words::importing(id, &Fact::NotRead)),
        None => Readiness::progress(Reason::Creating, attempt::creating(observed)),
    };
    let record = Box::new(record);
    let plan = Plan::act(Step::Record { record }).because(Some(why));
    plan.with_id(id.clone())
}

/// Whether another server with our marker was certainly ordered with the recorded target: the recorded create failed, so no
/// operation followed it, and this process cannot have bought a server under a later record. Then an edit since that order applies
/// to the other server, too.
fn is_as_ordered(observed: &Observation) -> bool {
    let doubt = |record| observed.memory.in_doubt_since(record);
    observed.create_failed().is_some() && observed.facts.purchase().and_then(doubt).is_none()
}
