//! Writes the status if anything but a timestamp changed, then publishes Events.

mod audit;
mod measure;

use crate::api::conditions::Reason;
use crate::api::{EndReason, InstanceStatus, Operation, Verb};
use crate::cloud::ServerId;
use crate::instance::context::Context;
use crate::instance::facts::Facts;
use crate::instance::memory::{Memory, open};
use crate::instance::observation::{Observation, of_purchase};
use crate::instance::outcome::Outcome;
use crate::instance::plan::ended::{end, ended, times};
use crate::instance::plan::step::{Plan, StatusChanges, Step};
use crate::instance::plan::why::Why;
use crate::instance::status::write::{say, stands_otherwise};
use crate::instance::status::{Shown, change_of_ready, differs, ready, render};
use crate::instance::{journal, times};
use crate::runtime::KubeError;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Why a status that should be written was not.
#[derive(Debug)]
pub enum Unreported {
    Failed(KubeError),
    /// A write failed a moment ago, and events in between do not trigger another one. With the rest of the wait.
    TooSoon(Duration),
}

/// Writes status if it changed, and publishes Events. Returns the wait of a progress that must last before it is written.
///
/// # Errors
/// The status is not written. Nothing is lost, since a later reconcile writes it.
pub async fn report(
    context: &Context,
    observed: &Observation,
    plan: &Plan,
    outcome: &Outcome,
    memory: &Mutex<Memory>,
) -> Result<Option<Duration>, Unreported> {
    let written = tell_status(context, observed, plan, outcome, memory).await;
    // Publish the Event of an accepted call regardless of the status write.
    if let Some(event) = audit::of(observed, plan, outcome) {
        context
            .events
            .publish(&observed.facts.reference, &event)
            .await;
    }
    written
}

async fn tell_status(
    context: &Context,
    observed: &Observation,
    plan: &Plan,
    outcome: &Outcome,
    memory: &Mutex<Memory>,
) -> Result<Option<Duration>, Unreported> {
    if matches!(outcome, Outcome::Finished) {
        measure::gone(context, &observed.facts, &plan.step, memory);
    }
    if matches!(outcome, Outcome::Stale | Outcome::Finished) {
        // The object is not the one that the plan is based on, so there is nothing to report.
        return Ok(None);
    }
    let facts = &observed.facts;
    let why = why(plan, outcome);
    let why = why.as_ref();
    let changes = &changes(observed, plan, outcome);
    let shown = Shown::of(observed);
    let status = render(facts, observed.wall_clock, changes, why, &shown);
    let differs = differs(&facts.status, &status) || is_owed_its_package(facts, &status, memory);
    let held = match differs {
        true => wait(observed, changes, why, &status, &mut open(memory)),
        false if why.is_some() => {
            open(memory).told.held = None;
            None
        }
        false => None,
    };
    let writes = differs && held.is_none();
    if writes {
        if let Some(until) = open(memory)
            .told
            .unreported_until
            .filter(|until| observed.now < *until)
        {
            return Err(Unreported::TooSoon(until - observed.now));
        }
        let written = say(context, facts, &plan.step, &status, memory).await;
        if !written.map_err(Unreported::Failed)? {
            // The object is gone, so there are no Events about it either.
            return Ok(None);
        }
    }
    if writes {
        measure::told(context, facts, &status, changes.ended.as_ref(), memory);
    }
    let changed = change_of_ready(&facts.status.conditions, &status.conditions)
        .filter(|event| writes && !audit::tells(event, observed, changes, outcome));
    // Publish the plan's Events with the status that shows them, or once the record is written.
    let told = writes || matches!(outcome, Outcome::Written);
    let planned = || plan.events.iter().filter(|_| told);
    let server = changes.id.as_ref().map(ServerId::as_str);
    match changes.ended.as_ref().filter(|_| writes) {
        Some(entry) => journal::ended(facts, server, entry),
        None => planned().for_each(|event| journal::told(facts, server, event)),
    }
    for event in changed.iter().chain(planned()) {
        context.events.publish(&facts.reference, event).await;
    }
    Ok(held)
}

/// The plan's changes, extended by the result of the call: the operation in progress, or one that the service refused, which ends
/// its attempt.
fn changes(observed: &Observation, plan: &Plan, outcome: &Outcome) -> StatusChanges {
    let mut changes = plan.changes.clone();
    if matches!(plan.step, Step::Record { .. }) && !matches!(outcome, Outcome::Written) {
        // Do not report a server that is not on record: it would block the Instance that owns it.
        changes.id = changes
            .id
            .filter(|id| observed.facts.id().as_ref() == Some(id));
    }
    match (&plan.step, outcome) {
        (Step::Buy { .. }, Outcome::Accepted { .. }) => {
            changes.operation = receipt_of_purchase(plan, outcome);
        }
        (Step::Operate { .. }, Outcome::Accepted { task, .. }) => {
            changes.operation = observed.open().map(|open| Operation {
                accepted: true,
                task_id: task.as_ref().map(ToString::to_string),
                ..open
            });
        }
        // A reinstall that requires a stopped server ends after a read of the server.
        (
            Step::Operate { announce: true, .. },
            Outcome::Refused {
                message,
                reason: Reason::OperationRefused,
                ..
            },
        ) => {
            let Some(open) = observed.open() else {
                return changes;
            };
            let reason = EndReason::Refused;
            let times = times(observed, open.verb, reason) + 1;
            changes.ended = Some(ended(observed, &open, Some(reason), Some(message.clone())));
            changes.operation = Some(Operation {
                end: Some(end(observed, reason, message, times)),
                ..open
            });
        }
        _ => {}
    }
    changes
}

/// The purchase in status, after the service accepted it.
fn receipt_of_purchase(plan: &Plan, outcome: &Outcome) -> Option<Operation> {
    let (Step::Buy { record, .. }, Outcome::Accepted { task, .. }) = (&plan.step, outcome) else {
        return None;
    };
    Some(Operation {
        accepted: true,
        task_id: task.as_ref().map(ToString::to_string),
        ..of_purchase(record)
    })
}

/// The reason to report after the step.
fn why(plan: &Plan, outcome: &Outcome) -> Option<Why> {
    match outcome {
        // The plan that stops the server reports that.
        Outcome::Refused {
            reason: Reason::Stopping,
            ..
        } => None,
        // The Account, which reports the remedy, is reconciled first.
        Outcome::Refused {
            reason: Reason::TokenRefused,
            ..
        } if matches!(
            plan.step,
            Step::Buy { announce: true, .. } | Step::Operate { announce: true, .. }
        ) =>
        {
            None
        }
        Outcome::Refused {
            message, reason, ..
        } => Some(Why::refused(message, *reason)),
        // The next reconcile reports the unknown outcome and its consequences.
        Outcome::Unknown(_) => None,
        Outcome::NotDone(_, readiness) => readiness.clone().map(Why::from),
        Outcome::Stale | Outcome::Finished => None,
        Outcome::Rested
        | Outcome::Accepted { .. }
        | Outcome::Repeatable { .. }
        | Outcome::Written => plan.why.clone(),
    }
}

/// How long a status that differs must wait before it is written, if it must.
fn wait(
    observed: &Observation,
    changes: &StatusChanges,
    why: Option<&Why>,
    next: &InstanceStatus,
    memory: &mut Memory,
) -> Option<Duration> {
    if misses_an_operation(&observed.facts, changes) {
        return None;
    }
    let damped = damped(&observed.facts, next, memory);
    match why.filter(|why| why.is_progress()) {
        Some(why) => damped.max(patience(observed, changes, why, memory)),
        None if why.is_some() => {
            memory.told.held = None;
            damped
        }
        None => damped,
    }
}

/// The rest of the time for which a progress must last. While status shows its reason, another message is not worth a write.
fn patience(
    observed: &Observation,
    changes: &StatusChanges,
    why: &Why,
    memory: &mut Memory,
) -> Option<Duration> {
    let (facts, status) = (&observed.facts, &observed.facts.status);
    let reason = why.readiness.reason;
    let shown = ready(&status.conditions).is_some_and(|c| c.reason == reason.as_str());
    let number = |told: Option<&Operation>| told.map(|told| told.attempt);
    let operation = changes.operation.as_ref();
    let is_new_operation =
        operation.is_some() && number(operation) != number(status.operation.as_ref());
    if shown && !is_new_operation {
        let id = changes.id.as_ref().map(ServerId::as_str);
        let is_new_id = id.is_some() && id != status.id.as_deref();
        let is_stale = status.observed_generation != facts.generation;
        return (!is_new_id && !is_stale).then_some(times::IDLE_REQUEUE);
    }
    let now = Instant::now();
    let since = match memory.told.held {
        Some((held, since)) if held == reason => since,
        _ => now,
    };
    memory.told.held = Some((reason, since));
    let poll = memory.observations.poll.as_ref();
    if poll.is_some_and(|poll| poll.last.is_none()) {
        // The first query is made when such tasks usually end.
        return Some(times::IDLE_REQUEUE);
    }
    rest(since + why.patience, now)
}

/// The rest of the pause before the status of another writer is overwritten again. Each generation of the spec is reported at once
/// the first time; a wrong Ready waits for a shorter time.
fn damped(facts: &Facts, next: &InstanceStatus, memory: &Memory) -> Option<Duration> {
    let (overwritten, generation) = **memory.told.conflict.as_ref()?;
    let is_wrong = is_ready(&facts.status.conditions) && !is_ready(&next.conditions);
    if generation != facts.generation || !stands_otherwise(facts, memory) {
        return None;
    }
    let pause = match is_wrong {
        true => times::WRONG_READY_REWRITE,
        false => times::CONFLICTING_STATUS_REWRITE,
    };
    rest(overwritten + pause, Instant::now())
}

fn rest(until: Instant, now: Instant) -> Option<Duration> {
    let rest = until.saturating_duration_since(now);
    (!rest.is_zero()).then_some(rest)
}

/// Whether status reports Ready during an operation, lacks the newest state of the operation, which may be the only receipt, or
/// lacks the end of an operation.
fn misses_an_operation(facts: &Facts, changes: &StatusChanges) -> bool {
    let status = &facts.status;
    let says_ready = is_ready(&status.conditions);
    let misses = |operation: &Operation| {
        let is_other = status.operation.as_ref() != Some(operation);
        says_ready || (is_other && operation.verb != Verb::Create)
    };
    changes.operation.as_ref().is_some_and(misses) || changes.ended.is_some()
}

fn is_ready(conditions: &[Condition]) -> bool {
    ready(conditions).is_some_and(|ready| ready.status == "True")
}

/// Whether a status that an older version wrote lacks only the package. It is added once in the life of a process: if the older
/// CustomResourceDefinition is still installed, the apiserver drops the field, and it would be written forever.
fn is_owed_its_package(facts: &Facts, next: &InstanceStatus, memory: &Mutex<Memory>) -> bool {
    facts.status.package != next.package && open(memory).told.written.is_none()
}

#[cfg(test)]
mod tests;
