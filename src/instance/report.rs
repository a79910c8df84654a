//! Writes the status if anything changed that `differs` compares, then publishes Events.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{InstanceStatus, Operation, Verb};
use crate::credentials::Chore;
use crate::instance::context::Context;
use crate::instance::facts::Facts;
use crate::instance::memory::parts::{StatusPause, StatusWrites};
use crate::instance::memory::{Memory, lock};
use crate::instance::observation::{Observation, of_purchase};
use crate::instance::outcome::Outcome;
use crate::instance::plan::step::{Plan, StatusChanges, Step};
use crate::instance::status::write::{digest, write_status};
use crate::instance::status::{change_of_ready, differs, ready, render};
use crate::instance::{journal, times};
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Writes status if it changed, and publishes its Events. Returns how long a status that differs must wait before it is written.
///
/// # Errors
/// The status is not written: returns the time until the next try. A later reconcile writes it; at most Events are lost.
pub async fn report(
    context: &Context,
    observed: &Observation,
    plan: &Plan,
    outcome: &Outcome,
    memory: &Mutex<Memory>,
) -> Result<Option<Duration>, Duration> {
    if matches!(outcome, Outcome::Stale | Outcome::Finished) {
        // The plan is out of date, or the object is gone, so there is nothing to report.
        return Ok(None);
    }
    let facts = &observed.facts;
    let why = why(plan, outcome);
    let changes = changes(observed, plan, outcome);
    let now = observed.wall_clock;
    let status = render(facts, Some(observed), now, &changes, why.as_ref());
    let wait = wait(
        facts,
        &changes,
        why.as_ref(),
        &status,
        &mut lock(memory).status_writes,
    );
    let differs = differs(&facts.status, &status);
    let is_written = differs && wait.is_none();
    if is_written && !write(context, observed, &status, memory).await? {
        return Ok(None); // the object is gone, so there are no Events about it either
    }
    let server = status.id.as_deref();
    let changed =
        change_of_ready(&facts.status.conditions, &status.conditions).filter(|_| is_written);
    // Publish the plan's Events with the status that shows them, or once the record or Secret is written.
    let planned = match (outcome, is_written) {
        (Outcome::Written, _) | (Outcome::Rested, true) => plan.events.as_slice(),
        _ => &[],
    };
    match changes.ended.as_ref().filter(|_| is_written) {
        Some(entry) => journal::ended(context, facts, server, entry),
        None => planned
            .iter()
            .for_each(|event| journal::planned(facts, server, event)),
    }
    for event in changed.iter().chain(planned) {
        context.events.publish(&facts.reference, event).await;
    }
    Ok(wait.filter(|_| differs))
}

/// Writes the status. Returns false if the object is gone.
async fn write(
    context: &Context,
    observed: &Observation,
    status: &InstanceStatus,
    memory: &Mutex<Memory>,
) -> Result<bool, Duration> {
    let facts = &observed.facts;
    let failed = lock(memory).status_writes.pause;
    let failed = failed.filter(|pause| pause.digest.is_none());
    if let Some(left) = failed.and_then(|pause| rest(pause.until, Instant::now())) {
        return Err(left); // a write failed a moment ago, and events in between do not trigger another one
    }
    let error = match write_status(context, facts, status, memory).await {
        Ok(is_there) => return Ok(is_there),
        Err(error) => error,
    };
    let mut memory = lock(memory);
    if memory.pace.backoff.is_fresh() {
        journal::not_done(facts, &error.to_string(), "status not written");
    }
    let longest = times::write_retry_max(error.is_refusal());
    let wait = memory.pace.backoff.fail().min(longest);
    // After a conflict, the event of the other write triggers the next reconcile.
    let is_overtaken = error.is_overtaken();
    if !is_overtaken {
        memory.status_writes.pause = Some(StatusPause {
            until: Instant::now() + wait,
            digest: None,
        });
    }
    if facts.deleting && !is_overtaken {
        // A release needs no write before it, so a deletion continues even if status cannot be written.
        memory.status_writes.acknowledged = Some(facts.generation);
    }
    Err(wait)
}

/// The plan's changes, extended by the result of the call.
fn changes(observed: &Observation, plan: &Plan, outcome: &Outcome) -> StatusChanges {
    let mut changes = plan.changes.clone();
    if matches!(plan.step, Step::Record { .. }) && !matches!(outcome, Outcome::Written) {
        // Do not report a server that is not on record: it would block the Instance that owns it.
        changes.id = changes
            .id
            .filter(|id| observed.facts.id().as_ref() == Some(id));
    }
    if let Outcome::Accepted { task, .. } = outcome {
        let called = match &plan.step {
            Step::Buy { record, .. } => Some(of_purchase(record)),
            _ => observed.open(),
        };
        changes.operation = called.map(|called| Operation {
            accepted: true,
            task_id: task.as_ref().map(ToString::to_string),
            ..called
        });
    }
    // After `OperationRefused` the next plan ends the operation. Any other refusal of a reinstall goes into status: otherwise a
    // later process would mistake the call for one without an answer, which it must not repeat.
    if let Outcome::Refused { reason, .. } = outcome
        && *reason != Reason::OperationRefused
        && let Some(called) = observed
            .open()
            .filter(|called| called.call() == Verb::Reinstall)
    {
        changes.operation = Some(called.refused());
    }
    changes
}

/// The reason to report after the step.
fn why(plan: &Plan, outcome: &Outcome) -> Option<Readiness> {
    match outcome {
        Outcome::Refused {
            message, reason, ..
        } => match (reason, &plan.step) {
            // The next plan stops the server or ends the operation, and reports that.
            (Reason::Stopping | Reason::OperationRefused, _) => None,
            // The Account, which reports the remedy, is reconciled first.
            (
                Reason::TokenRefused,
                Step::Buy { announce: true, .. } | Step::Operate { announce: true, .. },
            ) => None,
            (reason, _) => Some(Readiness::refused(message, *reason)),
        },
        // The next reconcile reports the unknown outcome and its consequences.
        Outcome::Unknown(_) | Outcome::Stale | Outcome::Finished => None,
        Outcome::NotDone(_, readiness) => readiness.clone(),
        // The next reconcile, which follows at once, also reports an obstacle to the connection Secret.
        Outcome::Written if matches!(plan.step, Step::Secret(Chore::Connect(_))) => None,
        Outcome::Rested | Outcome::Accepted { .. } | Outcome::Release { .. } | Outcome::Written => {
            plan.why.clone()
        }
    }
}

/// How long a status that differs must wait before it is written, if it must.
///
/// It is written at once if status lacks an operation. Otherwise a progress is written once it has lasted, unless status already
/// shows it. A status that this process wrote a moment ago and another writer replaced also waits, since that writer may react to
/// each write. Everything else is written at once.
fn wait(
    facts: &Facts,
    changes: &StatusChanges,
    why: Option<&Readiness>,
    next: &InstanceStatus,
    writes: &mut StatusWrites,
) -> Option<Duration> {
    let now = Instant::now();
    let former = &facts.status;
    let is_older = former.observed_generation < facts.generation;
    // The first status of an object acknowledges nothing.
    let is_edit = is_older && (facts.deleting || ready(&former.conditions).is_some());
    let progress = why.filter(|why| why.is_progress && !is_edit);
    if let Some(why) = why {
        let reason = why.reason;
        let known = writes.progress.filter(|(known, _)| *known == reason);
        writes.progress = progress.map(|_| known.unwrap_or((reason, now)));
    }
    if lacks_operation(former, changes) {
        return None;
    }
    let patience = progress.and_then(|why| match shows(former, next, why) {
        true => Some(times::IDLE_REQUEUE),
        false => rest(writes.progress?.1 + times::patience(why.reason), now),
    });
    let written = Some(digest(next)).filter(|written| digest(former) != *written);
    let replaced = (writes.pause).filter(|pause| written.is_some() && pause.digest == written);
    patience.max(replaced.and_then(|pause| rest(pause.until, now)))
}

/// Whether status shows this progress, so that another message is not worth a write.
fn shows(former: &InstanceStatus, next: &InstanceStatus, why: &Readiness) -> bool {
    let number = |status: &InstanceStatus| status.operation.as_ref().map(|it| it.attempt);
    let ready = ready(&former.conditions);
    ready.is_some_and(|ready| ready.reason == why.reason.as_str())
        && former.id == next.id
        && number(former) == number(next)
}

/// Whether status reports Ready during an operation, lacks the newest state of the operation, which may be the only receipt, or
/// lacks the end of an operation.
fn lacks_operation(former: &InstanceStatus, changes: &StatusChanges) -> bool {
    let lacks = |operation: &Operation| {
        let is_other = former.operation.as_ref() != Some(operation);
        let ready = ready(&former.conditions);
        let is_ready = ready.is_some_and(|ready| ready.status == "True");
        is_ready || (is_other && operation.verb != Verb::Create)
    };
    changes.operation.as_ref().is_some_and(lacks) || changes.ended.is_some()
}

fn rest(until: Instant, now: Instant) -> Option<Duration> {
    let rest = until.saturating_duration_since(now);
    (!rest.is_zero()).then_some(rest)
}

#[cfg(test)]
mod tests;
