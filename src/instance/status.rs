//! The status of an Instance: its next value, and its writes.

pub mod synced;
pub mod write;

use crate::api::conditions::{EXPIRING, READY, Readiness, Reason, STALLED, SYNCED, State};
use crate::api::detail;
use crate::api::{
    Addresses, EndReason, HistoryEntry, InstanceStatus, Operation, Reference, Stage, Verb,
    printable,
};
use crate::cloud::ServerFields;
use crate::instance::expiry;
use crate::instance::facts::Facts;
use crate::instance::observation::{AccountFact, Observation, text};
use crate::instance::plan::step::StatusChanges;
use crate::instance::references;
use crate::runtime::events::EventNote;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Map, Value};

/// Highest number of entries in the history.
const HISTORY_MAX: usize = 8;
/// The service's fields with the server's state.
const STATE_FIELDS: [&str; 2] = ["ecsStatus", "ecsPendingStatus"];

/// Renders the next status: its conditions from `readiness`, the other fields from `changes` and the observation, if there is one.
/// Pure. Every status that a reconcile writes as a whole comes from here; a receipt replaces only `status.operation`.
pub fn render(
    facts: &Facts,
    observed: Option<&Observation>,
    wall_clock: Timestamp,
    changes: &StatusChanges,
    readiness: Option<&Readiness>,
) -> InstanceStatus {
    let former = &facts.status;
    let mut next = InstanceStatus::clone(former);
    // A detail that an older version wrote may have values that the schema rejects now.
    next.detail = detail::fitting(&former.detail);
    if let Some(readiness) = readiness {
        next.observed_generation = facts.generation;
        next.conditions = readiness.to_conditions(&former.conditions, facts.generation, wall_clock);
    }
    next.operation = operation(facts, changes, readiness);
    let newest = next.operation.as_ref().map_or(0, |newest| newest.attempt);
    next.attempt = next.attempt.max(newest);
    let id = server_id(facts, observed, changes);
    let is_another = id.is_some() && next.id.is_some() && id != next.id;
    if changes.forget_server || is_another {
        next = forget_server(next);
    }
    next.id = id.or(next.id);
    if let Some(applied) = &changes.applied {
        next.applied = Some(applied.clone());
    }
    next.left_off = changes.left_off.unwrap_or(next.left_off);
    if let Some(token) = &changes.reconciled {
        next.last_reconcile_token = Some(token.clone());
    }
    apply_detail(&mut next, changes, readiness, &former.conditions);
    match readiness {
        Some(readiness) if reports_missing(readiness) && next.id.is_some() => {
            next.missing_since.get_or_insert(Time(wall_clock));
        }
        // A report that observed nothing, such as an acknowledgement, leaves it.
        Some(_) if observed.is_some_and(|it| it.look().exists()) => next.missing_since = None,
        Some(_) | None => {}
    }
    apply_ends(&mut next, changes, readiness);
    if readiness.is_some() {
        apply_references(&mut next, facts, observed);
    }
    if let Some(AccountFact::AccountSession(session)) = observed.map(|it| &it.account) {
        next.expire_time = expiry::read(&next.detail, session.utc_offset).map(Time);
    }
    add_conditions(&mut next, facts, observed, wall_clock);
    next.last_observed_time = Some(Time(wall_clock));
    next
}

/// The identifier for status; None if it stays as it is.
fn server_id(
    facts: &Facts,
    observed: Option<&Observation>,
    changes: &StatusChanges,
) -> Option<String> {
    // The recorded server, unless another server will replace it, or another Instance has the better right to it. For an
    // imported server, the latter is known only while the Account can be used.
    let knows_owner = |it: &&Observation| {
        matches!(it.account, AccountFact::AccountSession(_)) || facts.imported().is_none()
    };
    let recorded = observed.filter(knows_owner).and_then(Observation::own_id);
    let recorded = recorded.filter(|_| !changes.forget_server && !facts.is_dropped_from_status());
    let id = changes.id.as_ref().or(recorded.as_ref());
    id.map(ToString::to_string)
}

/// The pauses of operations that ended badly, and the history.
fn apply_ends(next: &mut InstanceStatus, changes: &StatusChanges, readiness: Option<&Readiness>) {
    if readiness.is_some_and(|readiness| readiness.state == State::Ready) {
        next.retries.clear();
    }
    if let Some(retry) = &changes.retry {
        // A reinstall that did not touch the disk leaves open whether an earlier one did.
        let end = changes.operation.as_ref();
        let did_nothing = matches!(retry.reason, EndReason::Refused | EndReason::AnswerLost)
            || end.is_some_and(|end| end.stage == Some(Stage::Stopping));
        next.retries.retain(|known| {
            known.verb != retry.verb || did_nothing && known.reason == EndReason::OutcomeUnknown
        });
        next.retries.push(retry.clone());
    }
    if let Some(entry) = &changes.ended {
        record_end(next, changes, entry);
    }
}

/// The package, and what the selectors were resolved to.
fn apply_references(next: &mut InstanceStatus, facts: &Facts, observed: Option<&Observation>) {
    // Nothing is pinned before the purchase.
    let resolved = observed.map_or_else(|| facts.status.resolved.clone(), references::pins);
    next.resolved = resolved.filter(|_| next.id.is_some());
    // Before the purchase a filter may match another package each time.
    let is_settled = next.id.is_some() || facts.spec.package.code.is_some();
    let known = || next.package.clone().filter(|_| next.id.is_some());
    let package = observed.and_then(|it| references::id(it, Reference::Package));
    next.package = package.filter(|_| is_settled).or_else(known);
}

/// The conditions in addition to those of the readiness.
fn add_conditions(
    next: &mut InstanceStatus,
    facts: &Facts,
    observed: Option<&Observation>,
    wall_clock: Timestamp,
) {
    let former = &facts.status;
    let warned = expiry::warning(next, wall_clock)
        .map(|warning| warning.to_condition(&former.conditions, facts.generation, wall_clock));
    let former_synced = condition(&former.conditions, SYNCED);
    let synced = match observed.and_then(synced::synced) {
        // The first confirmation is written with the next change.
        Some(synced) if synced.is_true && former_synced.is_none() && !differs(former, next) => None,
        Some(synced) => Some(synced.to_condition(&former.conditions, facts.generation, wall_clock)),
        None => former_synced.cloned(),
    };
    next.conditions
        .retain(|it| it.type_ != SYNCED && it.type_ != EXPIRING);
    next.conditions.extend(synced.into_iter().chain(warned));
}

/// Adds the server's detail. It is written together with its consequences, since the server may contradict the former Ready
/// condition.
fn apply_detail(
    next: &mut InstanceStatus,
    changes: &StatusChanges,
    readiness: Option<&Readiness>,
    former: &[Condition],
) {
    let is_ready = ready(former).is_some_and(|c| c.status == "True");
    if let Some(detail) = &changes.detail
        && (readiness.is_some() || !is_ready)
    {
        next.detail = detail::fitting(detail);
        next.addresses = addresses(detail);
    }
    if readiness.is_some_and(reports_missing) {
        // A missing server has neither addresses nor a state.
        next.addresses = None;
        for field in STATE_FIELDS {
            next.detail.remove(field);
        }
    }
}

/// Whether the server is reported missing.
fn reports_missing(readiness: &Readiness) -> bool {
    matches!(
        readiness.reason,
        Reason::ServerMissing | Reason::RecreateLimitReached
    )
}

/// Removes everything about the server except the newest operation and the history.
fn forget_server(status: InstanceStatus) -> InstanceStatus {
    InstanceStatus {
        observed_generation: status.observed_generation,
        conditions: status.conditions,
        attempt: status.attempt,
        operation: status.operation,
        history: status.history,
        last_reconcile_token: status.last_reconcile_token,
        last_observed_time: status.last_observed_time,
        ..InstanceStatus::default()
    }
}

/// Adds an operation that ended to the history, once, and ends its pauses if it succeeded. A failed reinstall may have left an
/// incomplete image.
fn record_end(next: &mut InstanceStatus, changes: &StatusChanges, entry: &HistoryEntry) {
    let mut history = next.history.iter();
    if history.all(|known| known.attempt != entry.attempt) {
        next.history.insert(0, entry.clone());
        next.history.truncate(HISTORY_MAX);
        next.attempt = next.attempt.max(entry.attempt);
    }
    if entry.succeeded {
        next.retries.retain(|known| known.verb != entry.verb);
    }
    if entry.verb != Verb::Reinstall {
        return;
    }
    match entry.reason {
        None => next.unfinished_image = None,
        Some(EndReason::Failed) => {
            let operation = changes.operation.as_ref();
            let erased = operation.filter(|it| it.stage != Some(Stage::Stopping));
            if let Some(operation) = erased {
                next.unfinished_image = Some(operation.target.image.clone());
            }
        }
        Some(_) => {}
    }
}

/// The operation in status. It stays until it ends, and after a failure until Ready; a create stays until its refusal.
fn operation(
    facts: &Facts,
    changes: &StatusChanges,
    readiness: Option<&Readiness>,
) -> Option<Operation> {
    if changes.operation.is_some() {
        return changes.operation.clone();
    }
    let ended = changes.ended.as_ref().map(|entry| entry.attempt);
    let record = facts.purchase().map(|record| i64::from(record.attempt));
    let is_over = |operation: &Operation| match (&operation.end, readiness) {
        _ if ended == Some(operation.attempt) => true,
        (_, None) => false,
        // The operation was on another server.
        (None, Some(_)) if Some(operation.attempt) < record => true,
        // No further attempt is pending.
        (Some(_), Some(readiness)) => readiness.state == State::Ready,
        // An attempt to buy a server ends with its refusal, and with the next attempt.
        (None, Some(readiness)) => {
            let is_it = Some(operation.attempt) == record && facts.is_creating();
            operation.verb == Verb::Create && (!is_it || readiness.reason.is_lasting_refusal())
        }
    };
    let shown = facts.status.operation.clone();
    shown.filter(|operation| !is_over(operation))
}

fn addresses(detail: &Map<String, Value>) -> Option<Addresses> {
    let text = |field: &str| text(detail, field).map(|text| printable(text).into_owned());
    let addresses = Addresses {
        public: text("publicIpAddress"),
        internal: text("internalIpAddress"),
    };
    (addresses != Addresses::default()).then_some(addresses)
}

/// Whether two statuses differ enough for a write. The time of the observation does not count, nor do fields of the detail that are
/// not compared.
pub(super) fn differs(former: &InstanceStatus, next: &InstanceStatus) -> bool {
    let core = |status: &InstanceStatus| {
        let mut core = status.clone();
        core.last_observed_time = None;
        let detail = std::mem::take(&mut core.detail);
        (ServerFields::all().digest(&detail), core)
    };
    core(former) != core(next)
}

fn condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|it| it.type_ == type_)
}

pub(super) fn ready(conditions: &[Condition]) -> Option<&Condition> {
    condition(conditions, READY)
}

/// The Event for a change of status or reason of the condition Ready.
pub(super) fn change_of_ready(former: &[Condition], next: &[Condition]) -> Option<EventNote> {
    let now = ready(next)?;
    if ready(former)
        .is_some_and(|before| before.reason == now.reason && before.status == now.status)
    {
        return None;
    }
    let reason = Reason::of(&now.reason)?;
    Some(EventNote {
        warning: condition(next, STALLED).is_some(),
        reason: reason.as_str(),
        note: now.message.clone(),
    })
}

#[cfg(test)]
mod tests;
