//! A server is there and the record does not name it: given by the service a moment ago, or found by its name. Recorded before
//! anything else, and never bought beside.

use crate::api::conditions::Reason;
use crate::api::{Applied, Cause, PurchaseRecord, attempt_number};
use crate::cloud::{ServerId, TaskId};
use crate::instance::fact::Fact;
use crate::instance::memory::kinds::RecordText;
use crate::instance::observation::{Observation, SessionFacts};
use crate::instance::plan::step::{Plan, StatusUpdate, Step};
use crate::instance::plan::{attempt, diff, evidence, words};
use crate::runtime::events::EventNote;
use tokio::time::Instant;

/// A server bears our marker and no record names it: it is ours. Of several the one that status knew, else the first by
/// identifier; the others become surplus. `since` is when an attempt was met: all that came before it was proven absent when it
/// was written, so that what an older listing shows is gone.
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
    plan.update.events.push(EventNote::normal("Adopted", note));
    Some(plan)
}

/// Servers with our marker that are not known to be gone, in order.
pub(super) fn bearing(observed: &Observation) -> Vec<ServerId> {
    let listed = observed
        .listing
        .iter()
        .flat_map(|listing| listing.bearing(&observed.facts.marker));
    listed
        .filter(|id| !observed.memory.calls.gone.contains_key(id))
        .collect()
}

/// The service gave this process a server and the record does not name it yet: nothing comes before that.
pub(super) fn given(observed: &Observation, session: &SessionFacts) -> Option<Plan> {
    let (number, id, task) = observed.memory.given()?;
    let current = observed.facts.purchase().map(|record| record.attempt);
    let stands = match current {
        Some(current) if number < current => return None,
        Some(current) => number == current,
        // Of a server that status tells of, more is known than that it was bought.
        None => observed.facts.status_names(id),
    };
    Some(if stands {
        record(observed, session, id, task.map(ToString::to_string))
    } else {
        announced(observed, session, number, id, task)
    })
}

/// This process bought another server than the recorded one, and the record does not say so. Either it is from before that, where
/// the cluster's state went back: that other one is what the Instance has, and nothing else is bought in its place. Or another
/// process took one for the server of this attempt that is missing by now, and the other one is there.
pub(super) fn bought_instead(
    observed: &Observation,
    session: &SessionFacts,
    recorded: &ServerId,
) -> Option<Plan> {
    let (number, id, task) = observed.memory.given()?;
    let record = observed.facts.purchase()?;
    let is_of_it = number == record.attempt
        && observed.memory.attempt(record).is_some()
        && observed.memory.observations.not_found
        && evidence::is_missing(observed, session, recorded)
        && bearing(observed).contains(id);
    if id == recorded || !(number > record.attempt || is_of_it) {
        return None;
    }
    Some(announced(observed, session, number, id, task))
}

/// The record of a purchase as this process announced it, with what the service gave. Where another record stands, or none, the
/// spec may be from before the purchase as well: nothing is erased to undo what was ordered since (rule 10), so that what the
/// spec says counts as done, but for the password.
fn announced(
    observed: &Observation,
    session: &SessionFacts,
    number: u32,
    id: &ServerId,
    task: Option<&TaskId>,
) -> Plan {
    let task = task.map(ToString::to_string);
    let purchase = observed
        .memory
        .origin
        .purchase
        .as_deref()
        .filter(|purchase| purchase.attempt == number)
        .and_then(RecordText::record)
        .filter(|purchase| observed.memory.attempt(purchase).is_some());
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
    let update = StatusUpdate::progress(Reason::Creating, attempt::creating(observed))
        .with_id(Some(id.clone()));
    Plan::act(Step::Record { record }, update)
}

/// The record of a server that exists. Without a task it was found instead of received: its request may have been doubled.
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
                // The recorded attempt has ended; what is found now belongs to none that is known.
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
                // It was ordered as the spec said then, and status may no longer tell what was done to the other one since.
                // Nobody asked for the disk of this one to be erased to undo that: only the password is set once more.
                // So it is where an image or a key is looked up only later.
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
            // Status may still tell that this server was bought: then only the record was lost.
            let status = &observed.facts.status;
            let is_known = observed.facts.status_names(id) && status.applied.is_some();
            record.lost = u32::from(!is_known);
            if is_known {
                // What is open at the server came after it was bought.
                let open = status.operation.as_ref().filter(|told| told.is_open());
                let before = open.map_or(status.attempt, |open| open.attempt.saturating_sub(1));
                record.attempt = attempt_number(before).unwrap_or(record.attempt);
            }
            if observed.facts.spec.login.generate.is_some() {
                // It may have another one than stands in the Secret by now, which is to tell what is in force. As long as status
                // tells what was applied, that counts.
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
    let update = match &record.imported {
        Some(_) => StatusUpdate::progress(Reason::Importing, words::importing(id, &Fact::NotAsked)),
        None => StatusUpdate::progress(Reason::Creating, attempt::creating(observed)),
    };
    let update = update.with_id(Some(id.clone()));
    Plan::act(
        Step::Record {
            record: Box::new(record),
        },
        update,
    )
}

/// Where the recorded create failed, nothing was done to its server since, and what else bears our marker came of the same order:
/// an edit since is an edit of that as well. Not where this process may have bought under a later record.
fn is_as_ordered(observed: &Observation) -> bool {
    let record = observed.facts.purchase();
    observed.create_failed().is_some()
        && record.is_some_and(|record| observed.memory.in_doubt_since(record).is_none())
}

/// The place of the recorded server comes last: operations name it, and the spec is held against it. The places of former
/// attempts stay, where theirs may still turn up.
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
