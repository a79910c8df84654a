//! Acknowledges an edit or a deletion in status, so that users see it even if the service is slow or does not answer.
//!
//! Usually the reconcile does so before it changes anything at the service ([`first`]). If the service keeps the reconcile waiting
//! before that, or an edit arrives while it waits, a concurrent future does so ([`while_waiting`]).

use crate::api::conditions::{READY, Readiness, Reason, STALLED};
use crate::instance::context::Context;
use crate::instance::facts::Facts;
use crate::instance::memory::{Memory, lock};
use crate::instance::observation::Observation;
use crate::instance::plan::step::{Plan, StatusChanges, Step};
use crate::instance::plan::words;
use crate::instance::status::{self, ready, write};
use crate::instance::times;
use crate::runtime::chance;
use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether status describes an older spec in a misleading way: as if everything were done, as if human action were needed, or as
/// if no deletion had been requested.
fn is_behind(facts: &Facts) -> bool {
    let status = &facts.status;
    let mut conditions = status.conditions.iter();
    let misleads =
        conditions.any(|it| [READY, STALLED].contains(&it.type_.as_str()) && it.status == "True");
    status.observed_generation < facts.generation
        && match facts.deleted_at.is_some() {
            true => facts.is_held(),
            false => misleads,
        }
}

/// Makes the plan acknowledge the edit first, if status describes an older spec ([`is_behind`]). A planned call is then made by
/// the next reconcile, right after that write.
pub(super) fn first(observed: &Observation, plan: &mut Plan, memory: &Mutex<Memory>) {
    let facts = &observed.facts;
    let acknowledged = &mut lock(memory).status_writes.acknowledged;
    if !is_behind(facts) {
        // After a restore of etcd the same generation can come again with another edit.
        *acknowledged = None;
        return;
    }
    // An intent in status is itself the acknowledgement of the edit, and steps that change nothing at the service are quick.
    let calls_without_status = matches!(
        plan.step,
        Step::Buy { .. }
            | Step::Operate {
                announce: false,
                ..
            }
            | Step::Release { .. }
    );
    let is_idle = matches!(plan.step, Step::Rest) && !plan.is_ready();
    if *acknowledged == Some(facts.generation) || !(calls_without_status || is_idle) {
        return;
    }
    // Status must not claim a create before the intent is on record: if the record got lost, the claim would remain.
    if plan.buys() || plan.why.is_none() {
        plan.why = Some(waits(facts));
    }
    if calls_without_status {
        plan.step = Step::Rest;
        plan.again = times::CALL_AFTER_ACKNOWLEDGEMENT;
    }
}

/// Acknowledges edits and deletions while the reconcile waits for the service, unless the reconcile has done so or is writing
/// status. Never returns.
pub(super) async fn while_waiting(
    context: &Context,
    of: &Facts,
    memory: &Mutex<Memory>,
    is_status_write_in_progress: &AtomicBool,
) -> Infallible {
    let mut wait = times::ACKNOWLEDGE_AFTER;
    loop {
        tokio::time::sleep(wait).await;
        let Some(facts) = (context.latest)(&of.key).filter(|now| now.uid == of.uid) else {
            continue;
        };
        let is_done = {
            let memory = lock(memory);
            memory.status_writes.acknowledged == Some(facts.generation)
                || memory.is_newer_than(&facts.resource_version)
        };
        let is_late = facts.status.observed_generation < facts.generation
            && (facts.is_held() || facts.deleted_at.is_none());
        if is_done || !is_late || is_status_write_in_progress.load(Ordering::Relaxed) {
            continue;
        }
        let Some(why) = answer(&facts) else {
            continue;
        };
        let (changes, now) = (StatusChanges::default(), chance::time_of_day());
        let status = status::render(&facts, None, now, &changes, Some(&why));
        let written = write::write_status(context, &facts, &status, memory).await;
        wait = match written {
            Ok(_) => times::ACKNOWLEDGE_AFTER,
            Err(_) => (wait * 2).min(times::ACKNOWLEDGE_RETRY_MAX),
        };
    }
}

/// The readiness to report for an edit or a deletion that status does not show. None for an edit while status has no Ready.
fn answer(facts: &Facts) -> Option<Readiness> {
    if facts.is_protected() {
        return Some(words::protected());
    }
    let is_open = facts.is_open() || facts.shows_open_purchase();
    if !is_behind(facts) {
        let shown = ready(&facts.status.conditions)?;
        // An operation that status reports continues after an edit.
        if let Some(reason) = Reason::of(&shown.reason).filter(|_| is_open) {
            return Some(Readiness::reconciling(reason, shown.message.clone()));
        }
    }
    Some(waits(facts))
}

/// The readiness for an edit or a deletion on which the operator has not acted yet.
fn waits(facts: &Facts) -> Readiness {
    let (reason, what) = match facts.deleting {
        true => (Reason::Releasing, "this Instance is being deleted"),
        false => (Reason::WaitingForService, "the spec was changed"),
    };
    let message = format!(
        "{what}; the operator first reads the service, which takes long if it is slow or the Account's spec.requests is low"
    );
    Readiness::reconciling(reason, message)
}
