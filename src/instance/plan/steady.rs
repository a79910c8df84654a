//! A server is recorded: follows its create to the end, compares it with the spec, and releases surplus servers.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{Cause, PurchaseRecord, Verb};
use crate::cloud::{Detail, TaskState};
use crate::instance::fact::Fact;
use crate::instance::memory::look::RowDigest;
use crate::instance::observation::{Observation, is_idle, of_purchase, pending};
use crate::instance::plan::due::Comparison;
use crate::instance::plan::ended::ended;
use crate::instance::plan::evidence::{is_missing, is_reported_missing};
use crate::instance::plan::observed::OnRecord;
use crate::instance::plan::replace::gone;
use crate::instance::plan::step::{NeededRead, OrPlan, Plan, Step, either, first};
use crate::instance::plan::{
    adopt, begin, cause, diff, evidence, failed_create, follow, import, judge, resolve, secret,
    surplus, words,
};
use crate::instance::times;
use crate::inventory::ZoneViews;
use crate::runtime::events::EventNote;
use serde_json::{Map, Value};

pub(super) fn plan(observed: &OnRecord<'_>) -> OrPlan<Plan> {
    first(adopt::bought_instead(observed))?;
    first(import::recorded_elsewhere(observed))?;
    first(failed_create::plan(observed))?;
    let open = observed.open();
    let plan = match &open {
        _ if is_missing(observed) => gone(observed),
        Some(open) if open.verb == Verb::Create => return follow_create(observed),
        Some(open) => follow::follow(observed, open),
        None => watch(observed),
    };
    // An operation that makes progress comes before the release of a surplus server; one that waits for human action does not.
    Ok(match open.is_some() && !plan.rests_stalled() {
        true => plan,
        false => surplus::check(observed, plan),
    })
}

/// The create is running, or has just ended.
fn follow_create(observed: &OnRecord<'_>) -> OrPlan<Plan> {
    Ok(match &observed.detail {
        Fact::Known(detail) if create_has_ended(observed, detail) => done(observed, detail)?,
        // A process that had observed more reported it missing; that report stays until the server shows up.
        _ if is_reported_missing(observed) => Plan::wait(times::PASS_RECHECK).listing_often(),
        _ => running(observed),
    })
}

/// Whether the create of this server has ended: its task shows that. If the task does not, the idle server does.
fn create_has_ended(observed: &OnRecord<'_>, detail: &Detail) -> bool {
    let is_settled = observed.has_been_idle();
    match &observed.task {
        Fact::Known(TaskState::Succeeded) => true,
        // The service forgot the task.
        Fact::Absent => is_idle(detail.pending()),
        Fact::NotRead => {
            is_idle(detail.pending()) && (is_settled || observed.record.task.is_none())
        }
        // The server has been idle for so long that it counts as created, regardless of its task.
        Fact::Unknown(_) | Fact::Known(TaskState::Running | TaskState::Unknown { .. }) => {
            is_settled
        }
        Fact::Known(TaskState::Failed { .. }) => false,
    }
}

fn running(observed: &OnRecord<'_>) -> Plan {
    let (id, record) = (&observed.id, observed.record);
    let (reason, note, is_unusual) = match (&observed.task, &observed.detail) {
        _ if record.imported.is_some() => {
            let note = words::importing(id, &observed.detail);
            (Reason::Importing, note, false)
        }
        (Fact::Known(TaskState::Succeeded), Fact::Unknown(why)) => {
            let note = format!("server {id} is created; its detail could not be read: {why}");
            (Reason::Creating, note, true)
        }
        _ => {
            let place = observed.facts.place();
            let note = format!("the service is creating server {id} in {place}");
            (Reason::Creating, note, false)
        }
    };
    let poll = observed.memory.observations.poll.as_ref();
    let is_overdue = poll.is_some_and(|poll| observed.now >= poll.since + times::CREATE_OVERDUE);
    let why = match is_overdue {
        true => words::overdue(&note),
        false => Readiness::progress(reason, note).at_once_if(is_unusual),
    };
    // Do not report the create as open if it may have ended long ago, before status was lost. Otherwise the purchase would count
    // as the applied state, and the disk would be erased again for a reinstall token that was carried out.
    let open = observed.open();
    let shown = open.filter(|_| diff::is_in_flight(observed, record));
    Plan::rest(why, times::PASS_RECHECK)
        .with_operation(shown)
        .listing_often_while_readable(observed)
}

fn done(observed: &OnRecord<'_>, detail: &Detail) -> OrPlan<Plan> {
    let (id, record) = (&observed.id, observed.record);
    let create = of_purchase(record);
    first(secret::settle_first(observed, &create))?;
    let server = Comparison::of(observed, record, &detail.fields);
    let mut plan = judge::report(&server, times::IDLE_REQUEUE);
    plan.changes.detail = Some(detail.fields.clone());
    plan.changes.ended = Some(ended(observed, &create, None, None));
    // An adopted or imported server was reported when it was recorded.
    if record.imported.is_none() && record.cause != Some(Cause::Adoption) {
        let place = observed.facts.place();
        let note = format!(
            "server {id} was created in {place} ({})",
            cause::summary(&create)
        );
        plan = plan.with_event(EventNote::normal("Created", note));
    }
    // Once a listing has shown the server, its absence is a change; until then a listing must be requested.
    Ok(match observed.listed(id) {
        Some((_, RowDigest::Row(_))) => plan,
        _ => plan.requesting_passes(observed.now, 1),
    })
}

/// The server exists as far as known: compares it with the spec.
fn watch(observed: &OnRecord<'_>) -> Plan {
    let (look, former) = (observed.look(), &observed.facts.status.detail);
    let row = observed.listing.as_ref();
    let row = row.and_then(|listing| listing.row(&observed.id));
    let listed = observed.listed(&observed.id);
    let is_missing_from_listing = matches!(listed, Some((_, RowDigest::Absent)));
    // The listing matches status, or shows the same as at the last read of the detail, or is older than that read.
    let is_known = row.is_some_and(|(row, _)| row.agrees_with(former))
        || listed.is_some_and(|(at, row)| look.row == Some(row) || look.was_answered_since(at));
    // The service's last answer was that the server does not exist, and the listing lacks it as well or is older than the answer.
    let is_absent = look.is_absent()
        && listed.is_some_and(|(at, _)| is_missing_from_listing || look.was_answered_since(at));
    let plan = match &observed.detail {
        // A detail from this reconcile is the best source.
        Fact::Known(detail) => {
            let mut plan = either(decide(observed, &detail.fields));
            plan.changes.detail = Some(detail.fields.clone());
            // Status may have dropped the server, which is back.
            plan.with_id(observed.id.clone())
        }
        // There is nothing new to read. This includes a server whose detail can be read while the listing omits it.
        Fact::NotRead if is_known && !is_absent && !former.is_empty() => {
            either(decide(observed, former))
        }
        Fact::NotRead if !is_absent && !is_missing_from_listing => unread(observed),
        Fact::Unknown(_) => unread(observed),
        Fact::NotRead | Fact::Absent => Plan::wait(times::PASS_RECHECK).listing_often(),
    };
    // After an operation of ours the listing is read once, so that an external change after it shows as a change.
    let listing = observed.listing.as_ref();
    let is_old = |ended: &_| listing.is_some_and(|listing| !listing.began_after(*ended));
    match observed.memory.operated().filter(is_old) {
        Some(ended) if matches!(plan.step, Step::Rest) => plan.requesting_pass_sometime(ended),
        _ => plan,
    }
}

/// Nothing was learnt about the server in this reconcile: keeps the status, unless the server was never observed, and reads again
/// later.
fn unread(observed: &OnRecord<'_>) -> Plan {
    let id = &observed.id;
    let is_awaited = is_awaited(observed, observed.record);
    let listing = observed.listing.as_ref();
    let is_listing_unreadable = listing.and_then(ZoneViews::unread).is_some();
    match &observed.detail {
        // The server was never observed.
        Fact::Unknown(why)
            if observed.facts.status.detail.is_empty()
                && !observed.facts.is_dropped_from_status() =>
        {
            let message = format!("server {id} is recorded; its detail could not be read: {why}");
            let readiness = Readiness::reconciling(Reason::ServerReadFailed, message);
            Plan::rest(readiness, times::UNREADABLE_RETRY)
        }
        // A user waits for an answer about this spec. Regular listings are a minute apart, even after a failure, so the server
        // itself is read.
        Fact::NotRead
            if is_awaited
                && is_listing_unreadable
                && observed.is_look_older_than(times::UNREADABLE_RETRY) =>
        {
            Plan {
                needs: Some(NeededRead::Detail),
                ..Plan::wait(times::UNREADABLE_RETRY)
            }
        }
        Fact::NotRead if !is_awaited && !observed.look().is_unreadable => {
            Plan::wait(times::IDLE_REQUEUE)
        }
        Fact::NotRead | Fact::Unknown(_) | Fact::Known(_) | Fact::Absent => {
            Plan::wait(times::UNREADABLE_RETRY)
        }
    }
}

/// Whether a user waits for something: status does not refer to the current spec, or an operation is due.
pub(super) fn is_awaited(observed: &Observation, record: &PurchaseRecord) -> bool {
    let detail = &observed.facts.status.detail;
    let server = Comparison::of(observed, record, detail);
    !evidence::is_current(observed) || detail.is_empty() || !server.operations().is_empty()
}

/// The server's state is known: returns the next operation, or the readiness to report.
fn decide(observed: &OnRecord<'_>, detail: &Map<String, Value>) -> OrPlan<Plan> {
    let server = Comparison::of(observed, observed.record, detail);
    begin::begin(&server, &observed.id).map_err(|mut plan| {
        plan.changes.left_off = Some(server.is_still_off());
        plan
    })?;
    let again = match is_idle(pending(detail)) {
        true => times::IDLE_REQUEUE,
        false => times::SERVER_BUSY_RECHECK,
    };
    let plan = judge::report(&server, again);
    Ok(plan.within(resolve::again(observed).unwrap_or(times::IDLE_REQUEUE)))
}
