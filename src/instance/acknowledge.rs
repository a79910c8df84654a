//! Acknowledges an edit or a deletion in status before any call to the service, so that the acknowledgement does not depend on
//! the service.
//!
//! Usually the reconcile itself does so ([`first`]). If the service keeps it waiting, or an edit arrives while it waits, a
//! concurrent future does so ([`while_waiting`]).

use crate::api::conditions::{READY, Readiness, Reason, STALLED};
use crate::instance::context::Context;
use crate::instance::fact::Fact;
use crate::instance::facts::Facts;
use crate::instance::memory::{Memory, open};
use crate::instance::observation::Observation;
use crate::instance::plan::delete;
use crate::instance::plan::step::{Plan, StatusChanges, Step};
use crate::instance::plan::why::Why;
use crate::instance::status::{Shown, write};
use crate::instance::{status, times};
use crate::runtime::chance;
use std::convert::Infallible;
use std::sync::Mutex;

/// Whether status describes an older spec in a misleading way: as if everything were done, or as if no deletion had been
/// requested.
fn is_behind(facts: &Facts) -> bool {
    let status = &facts.status;
    // `Stalled` for an older spec is misleading, too: it does not apply to the new one.
    let misleads = [READY, STALLED];
    let mut told = status.conditions.iter();
    let misleads =
        told.any(|told| misleads.contains(&told.type_.as_str()) && told.status == "True");
    let is_over = facts.deleting && !facts.is_held();
    !is_over
        && status.observed_generation < facts.generation
        && (misleads || (facts.deleting && facts.is_held()))
}

/// Makes the plan acknowledge the edit first, if status does not show it. A step that calls the service follows right after that
/// write.
pub(super) fn first(observed: &Observation, plan: &mut Plan, memory: &Mutex<Memory>) {
    if !is_behind(&observed.facts) {
        // After a restore of etcd the same generation can come again with another edit.
        open(memory).told.acknowledged = None;
        return;
    }
    if plan.is_ready() {
        return;
    }
    match &plan.step {
        Step::Rest
        | Step::Buy { .. }
        | Step::Operate {
            announce: false, ..
        }
        | Step::Auxiliary { .. }
        | Step::Release { .. } => {}
        // The intent is a write of status before the call, so it acknowledges the edit.
        Step::Operate { announce: true, .. } => return,
        // Steps that change nothing at the service are quick, or end the object.
        Step::Record { .. } | Step::Secret(_) | Step::Finish | Step::LetGo { .. } => return,
    }
    if open(memory).told.acknowledged == Some(observed.facts.generation) {
        return;
    }
    plan.why = Some(match plan.why.take() {
        // Status must not claim a create before the intent is on record: if the record got lost, the claim would remain.
        _ if plan.buys() => waits(&observed.facts, "the service is asked for a server next"),
        Some(why) => why.at_once_if(true),
        None => waits(&observed.facts, why(observed)),
    });
    if !matches!(plan.step, Step::Rest) {
        plan.step = Step::Rest;
        plan.again = times::CALL_AFTER_ACKNOWLEDGEMENT;
    }
}

/// Marks whether the reconcile is about to write status itself. The mark lasts until the end of the reconcile at most.
pub(super) fn hush(memory: &Mutex<Memory>, is_being_written: bool) {
    open(memory).told.is_being_written = is_being_written;
}

/// Acknowledges edits while the reconcile waits for the service, unless the reconcile has done so. Never returns.
pub(super) async fn while_waiting(
    context: &Context,
    of: &Facts,
    memory: &Mutex<Memory>,
) -> Infallible {
    let (mut tried, mut wait) = (None, times::ACKNOWLEDGE_AFTER);
    loop {
        tokio::time::sleep(wait).await;
        let Some(facts) = (context.latest)(&of.key).filter(|now| now.uid == of.uid) else {
            continue;
        };
        let (is_told, is_behind) = {
            let memory = open(memory);
            let is_told =
                memory.told.acknowledged == Some(facts.generation) || memory.told.is_being_written;
            (is_told, memory.is_newer_than(&facts.resource_version))
        };
        let is_tried = tried == Some(facts.generation);
        let is_over = facts.deleting && !facts.is_held();
        let is_late = facts.status.observed_generation < facts.generation && !is_over;
        if is_told || is_behind || is_tried || !is_late {
            continue;
        }
        let Some(why) = answer(&facts) else {
            continue;
        };
        let changes = StatusChanges {
            operation: facts.status.operation.clone(),
            ..StatusChanges::default()
        };
        let (shown, now) = (Shown::unchanged(&facts), chance::time_of_day());
        let status = status::render(&facts, now, &changes, Some(&why), &shown);
        let written = write::say(context, &facts, &Step::Rest, &status, memory);
        match written.await {
            Ok(_) => (tried, wait) = (Some(facts.generation), times::ACKNOWLEDGE_AFTER),
            Err(error) => {
                // The reconcile has written status since, so nothing is wrong.
                if !error.is_overtaken() {
                    tracing::debug!(
                        namespace = of.key.namespace,
                        name = of.key.name,
                        generation = facts.generation,
                        %error,
                        "an edit was not acknowledged"
                    );
                }
                wait = (wait * 2).min(times::ACKNOWLEDGE_RETRY_MAX);
            }
        }
    }
}

/// The readiness for an edit or a deletion that no reconcile has seen. None if status has no condition Ready.
fn answer(facts: &Facts) -> Option<Why> {
    if facts.deleting && facts.spec.deletion_protection {
        return Some(delete::protected().into());
    }
    if !is_behind(facts) {
        let mut told = facts.status.conditions.iter();
        let ready = told.find(|told| told.type_ == READY)?;
        // An operation that status reports continues after an edit.
        if facts.is_open() || facts.tells_of_a_purchase() {
            let reason = Reason::of(&ready.reason)?;
            return Some(Readiness::reconciling(reason, ready.message.clone()).into());
        }
    }
    let why = "it is not looked at yet: a call is under way, or waits for its place under spec.requests of the Account";
    Some(waits(facts, why))
}

fn waits(facts: &Facts, why: &str) -> Why {
    let readiness = match facts.deleting {
        true => Readiness::reconciling(
            Reason::Releasing,
            format!("this Instance is being deleted; {why}"),
        ),
        false => Readiness::reconciling(
            Reason::WaitingForService,
            format!("the spec was changed; {why}"),
        ),
    };
    readiness.into()
}

fn why(observed: &Observation) -> &str {
    match (&observed.detail, &observed.task) {
        (Fact::Unknown(why), _) | (_, Fact::Unknown(why)) => why,
        _ => "the state of the server is read before anything is done to it",
    }
}
