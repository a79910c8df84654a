//! A server is recorded: follows its create to the end, compares it with the spec, and releases surplus servers.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{Cause, PurchaseRecord, Verb};
use crate::cloud::{Detail, Place, ServerId, TaskState};
use crate::instance::fact::Fact;
use crate::instance::memory::look::RowDigest;
use crate::instance::observation::{Observation, SessionFacts, is_idle, of_purchase, pending};
use crate::instance::plan::ended::ended;
use crate::instance::plan::evidence::{is_missing, is_reported_missing};
use crate::instance::plan::judge::judge;
use crate::instance::plan::replace::gone;
use crate::instance::plan::step::{Plan, Read, Step};
use crate::instance::plan::why::Why;
use crate::instance::plan::{
    adopt, begin, cause, diff, due, evidence, failed_create, follow, import, resolve, secret,
    surplus, words,
};
use crate::instance::times;
use crate::inventory::Sighting;
use crate::runtime::events::EventNote;
use crate::session::ConflictingOwner;
use serde_json::{Map, Value};

pub(super) fn plan(
    observed: &Observation,
    session: &SessionFacts,
    record: &PurchaseRecord,
) -> Plan {
    let Some(id) = observed.facts.id() else {
        return Plan::wait(times::PASS_RECHECK);
    };
    if let Some(plan) = adopt::bought_instead(observed, session, &id) {
        return plan;
    }
    if let ConflictingOwner::Instance(owner) = &observed.conflicting_owner {
        return import::conflict(owner, &id);
    }
    if let Some(reason) = observed.create_failed() {
        return failed_create::plan(observed, session, record, &id, &reason);
    }
    match observed.open() {
        Some(open) if open.verb == Verb::Create => follow_create(observed, session, record, &id),
        Some(open) => {
            let plan = follow::follow(observed, session, &open, &id);
            surplus::check_if_stuck(observed, session, &id, plan)
        }
        None => surplus::check(
            observed,
            session,
            &id,
            watch_again(observed, session, record, &id),
        ),
    }
}

/// The create is running, or has just ended.
fn follow_create(
    observed: &Observation,
    session: &SessionFacts,
    record: &PurchaseRecord,
    id: &ServerId,
) -> Plan {
    let place = observed.facts.place();
    let at_rest = observed.has_been_idle();
    match (&observed.task, &observed.detail) {
        // The task succeeded and the detail shows the server: it is bought.
        (Fact::Known(TaskState::Succeeded), Fact::Known(detail)) => {
            done(observed, record, id, detail)
        }
        // No task is known, or the service forgot it, so the server decides. It is idle: its create has ended.
        (Fact::NotAsked | Fact::Absent, Fact::Known(detail))
            if is_idle(detail.pending())
                && (record.task.is_none() || at_rest || matches!(observed.task, Fact::Absent)) =>
        {
            done(observed, record, id, detail)
        }
        // The task has given no useful answer for long, and the server has been idle all the time.
        (
            Fact::Unknown(_) | Fact::Known(TaskState::Running | TaskState::Unknown { .. }),
            Fact::Known(detail),
        ) if at_rest => done(observed, record, id, detail),
        // The service does not know the server, although it should.
        (_, Fact::Absent | Fact::NotAsked | Fact::Unknown(_))
            if observed.look().is_absent() && is_missing(observed, session, id) =>
        {
            gone(observed, session, id)
        }
        // A process that had observed more reported it missing; that report stays until the server shows up.
        (_, Fact::Absent | Fact::NotAsked | Fact::Unknown(_))
            if is_reported_missing(observed, id) =>
        {
            let plan = Plan::wait(times::PASS_RECHECK).in_flight();
            plan.with_id(Some(id.clone()))
        }
        (task, detail) => {
            let plan = running(observed, record, id, creating(task, detail, id, &place));
            // This is unusual, so a different message for the same reason deserves a write.
            let is_unusual = matches!(
                (task, detail),
                (Fact::Known(TaskState::Succeeded), Fact::Unknown(_))
            );
            Plan {
                why: plan.why.map(|why| why.at_once_if(is_unusual)),
                ..plan
            }
        }
    }
}

/// The progress of a create, as a message.
fn creating(task: &Fact<TaskState>, detail: &Fact<Detail>, id: &ServerId, place: &Place) -> String {
    match (task, detail) {
        (Fact::Known(TaskState::Succeeded), Fact::Unknown(why)) => {
            format!("server {id} is created; its detail could not be read: {why}")
        }
        (Fact::Known(TaskState::Succeeded), _) => {
            format!("server {id} is created and the service does not show it yet")
        }
        (Fact::Known(TaskState::Unknown { word }), _) => {
            format!("the service is creating server {id} in {place} and calls that {word}")
        }
        (Fact::Unknown(why), _) => format!(
            "the service is creating server {id} in {place}; the task could not be read: {why}"
        ),
        (
            Fact::Known(TaskState::Running | TaskState::Failed { .. })
            | Fact::NotAsked
            | Fact::Absent,
            _,
        ) => format!("the service is creating server {id} in {place}"),
    }
}

fn running(observed: &Observation, record: &PurchaseRecord, id: &ServerId, note: String) -> Plan {
    let (reason, note) = match &record.imported {
        Some(_) => (Reason::Importing, words::importing(id, &observed.detail)),
        None => (Reason::Creating, note),
    };
    let overdue = observed
        .memory
        .observations
        .poll
        .as_ref()
        .is_some_and(|poll| observed.now >= poll.since + times::CREATE_OVERDUE);
    let why = match overdue {
        true => words::overdue(&note).into(),
        false => Why::progress(reason, note),
    };
    // Do not report the create as open if it may have ended long ago, before status was lost. Otherwise the purchase would count
    // as the applied state, and the disk would be erased again for a reinstall token that was carried out.
    let open = observed.open();
    let shown = open.filter(|_| diff::is_in_flight(observed, record));
    Plan::rest(why, times::PASS_RECHECK)
        .with_id(Some(id.clone()))
        .with_operation(shown)
        .in_flight_while_readable(observed)
}

fn done(observed: &Observation, record: &PurchaseRecord, id: &ServerId, detail: &Detail) -> Plan {
    let create = of_purchase(record);
    if let Some(plan) = secret::settle_first(observed, &create, id) {
        return plan;
    }
    let applied = &diff::applied(observed, record);
    let readiness = judge(observed, applied, &detail.fields);
    let mut plan = Plan::rest(readiness, times::IDLE_REQUEUE).with_id(Some(id.clone()));
    plan.changes.applied = Some(due::taken_over(observed, applied, &detail.fields));
    plan.changes.detail = Some(detail.fields.clone());
    plan.changes.ended = Some(ended(observed, &create, None, None));
    // An adopted or imported server was reported when it was recorded.
    let is_found = record.imported.is_some() || record.cause == Some(Cause::Adoption);
    if !is_found {
        let place = observed.facts.place();
        let note = format!(
            "server {id} was created in {place} ({})",
            cause::summary(&create)
        );
        plan = plan.with_event(EventNote::normal("Created", note));
    }
    let listed = observed
        .listing
        .as_ref()
        .is_some_and(|listing| listing.row(id).is_some());
    // Once a listing has shown the server, its absence is a change; until then a listing must be requested.
    if listed {
        plan
    } else {
        plan.wanting(observed.now, 1)
    }
}

/// Like [`watch`]. After an operation of ours the listing is read once, so that an external change after it shows as a change.
fn watch_again(
    observed: &Observation,
    session: &SessionFacts,
    record: &PurchaseRecord,
    id: &ServerId,
) -> Plan {
    let plan = watch(observed, session, record, id);
    let is_old = |ended| {
        observed
            .listing
            .as_ref()
            .is_some_and(|listing| !listing.began_after(ended))
    };
    match observed
        .memory
        .calls
        .operated
        .filter(|ended| is_old(*ended))
    {
        Some(ended) if matches!(plan.step, Step::Rest) => plan.wanting_sometime(ended),
        _ => plan,
    }
}

/// The server exists as far as known: compares it with the spec.
fn watch(
    observed: &Observation,
    session: &SessionFacts,
    record: &PurchaseRecord,
    id: &ServerId,
) -> Plan {
    let former = &observed.facts.status.detail;
    let sighting = observed
        .listing
        .as_ref()
        .map(|listing| listing.sighting(id));
    // The detail was read after that listing.
    let look = observed.look();
    let is_past = |at| look.was_answered_since(at);
    // Since then the service has answered that the server does not exist.
    let is_gone_since = |at| look.is_absent() && is_past(at);
    match (&observed.detail, sighting) {
        // A detail from this reconcile is the best source.
        (Fact::Known(detail), _) => {
            let mut plan = decide(observed, record, id, &detail.fields);
            plan.changes.detail = Some(detail.fields.clone());
            plan
        }
        // The listing matches status, or what it showed at the last read of the detail, or is older: nothing to read.
        (Fact::NotAsked, Some(Sighting::Present(row, at)))
            if !former.is_empty()
                && !is_gone_since(at)
                && (row.agrees_with(former)
                    || look.row == Some(RowDigest::Row(row.digest()))
                    || is_past(at)) =>
        {
            decide(observed, record, id, former)
        }
        // The service does not know the server, and the listing does not show it.
        (Fact::Absent, _) if is_missing(observed, session, id) => gone(observed, session, id),
        (Fact::NotAsked, Some(Sighting::Absent { .. }))
            if observed.look().is_absent() && is_missing(observed, session, id) =>
        {
            gone(observed, session, id)
        }
        // The service shows the server itself but omits it from the listing, or has not listed it yet: the server's own detail
        // counts.
        (Fact::NotAsked, Some(Sighting::Absent { began }))
            if !former.is_empty()
                && !look.is_absent()
                && (look.row == Some(RowDigest::Absent) || is_past(began)) =>
        {
            decide(observed, record, id, former)
        }
        (Fact::NotAsked, Some(Sighting::Present(_, at))) if !is_gone_since(at) => {
            unread(observed, record, id)
        }
        (Fact::Absent, _)
        | (Fact::NotAsked, Some(Sighting::Absent { .. } | Sighting::Present(..))) => {
            Plan::wait(times::PASS_RECHECK)
                .with_id(observed.facts.status_id())
                .in_flight()
        }
        (Fact::NotAsked | Fact::Unknown(_), _) => unread(observed, record, id),
    }
}

/// Nothing was learnt about the server in this reconcile: keeps the status, and reads again later.
fn unread(observed: &Observation, record: &PurchaseRecord, id: &ServerId) -> Plan {
    // Do not name a server that status has dropped before it shows up again: another one will replace it.
    let wait = |time| Plan::wait(time).with_id(observed.facts.status_id());
    let is_let_go = observed.facts.status_id().is_none();
    match &observed.detail {
        // The last read failed: try again soon, and keep the status until then.
        Fact::NotAsked if observed.look().is_unreadable() => wait(times::UNREADABLE_RETRY),
        // The server was never observed, and its detail cannot be read.
        Fact::Unknown(why) if observed.facts.status.detail.is_empty() && !is_let_go => {
            let message = format!("server {id} is recorded; its detail could not be read: {why}");
            let readiness = Readiness::reconciling(Reason::ServerReadFailed, message);
            Plan::rest(readiness, times::UNREADABLE_RETRY).with_id(Some(id.clone()))
        }
        // Something changed, and the read failed: try again soon.
        Fact::Unknown(_) => wait(times::UNREADABLE_RETRY),
        // A user waits for an answer about this spec: if the listing cannot be read, read the server itself.
        Fact::NotAsked if is_awaited(observed, record) => {
            let mut plan = wait(times::UNREADABLE_RETRY);
            if is_unlisted(observed) && observed.is_look_older_than(times::UNREADABLE_RETRY) {
                plan.needs = Some(Read::Detail);
            }
            plan
        }
        // Nothing was learnt, so the status stays.
        Fact::NotAsked | Fact::Known(_) | Fact::Absent => wait(times::IDLE_REQUEUE),
    }
}

/// Whether a user waits for something: status does not refer to the current spec, or an operation is due.
pub(super) fn is_awaited(observed: &Observation, record: &PurchaseRecord) -> bool {
    let detail = &observed.facts.status.detail;
    let applied = diff::applied(observed, record);
    !evidence::is_current(observed)
        || detail.is_empty()
        || !due::wanted(observed, &applied, detail).is_empty()
}

/// Whether the listing could not be read. Regular listings are a minute apart, even after a failure, which is too long for a
/// request that arrived while the service was down.
fn is_unlisted(observed: &Observation) -> bool {
    let listing = observed.listing.as_ref();
    listing.is_some_and(|listing| listing.trouble().is_some())
}

/// The server's state is known: returns the next operation, or the readiness to report.
fn decide(
    observed: &Observation,
    record: &PurchaseRecord,
    id: &ServerId,
    detail: &Map<String, Value>,
) -> Plan {
    if let Some(plan) = begin::begin(observed, record, id, detail) {
        return plan;
    }
    let applied = diff::applied(observed, record);
    let again = match is_idle(pending(detail)) {
        true => times::IDLE_REQUEUE,
        false => times::SERVER_BUSY_RECHECK,
    };
    let mut plan = Plan::rest(judge(observed, &applied, detail), again).with_id(Some(id.clone()));
    plan.changes.applied = Some(due::taken_over(observed, &applied, detail));
    plan.within(resolve::again(observed).unwrap_or(times::IDLE_REQUEUE))
}
