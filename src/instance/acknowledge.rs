//! An edit or a deletion is answered at once by what is known, whatever the service does: no call stands before that write.
//!
//! Mostly the reconcile itself says so, before it calls ([`first`]). Where the service keeps it waiting, or an edit comes while a
//! reconcile waits, that is said beside it ([`while_waiting`]).

use crate::api::conditions::{READY, Readiness, Reason, STALLED};
use crate::instance::context::Context;
use crate::instance::fact::Fact;
use crate::instance::facts::Facts;
use crate::instance::memory::{Memory, open};
use crate::instance::observation::Observation;
use crate::instance::plan::delete;
use crate::instance::plan::step::{Plan, StatusUpdate, Step};
use crate::instance::status::write;
use crate::instance::{status, times};
use crate::runtime::chance;
use std::convert::Infallible;
use std::sync::Mutex;

/// Whether status speaks of an older spec in a way that misleads: as if all were done, or as if nobody had asked for the
/// deletion.
fn is_behind(facts: &Facts) -> bool {
    let status = &facts.status;
    // That a spec cannot be carried out is no word about another one.
    let misleads = [READY, STALLED];
    let mut told = status.conditions.iter();
    let misleads =
        told.any(|told| misleads.contains(&told.type_.as_str()) && told.status == "True");
    let is_over = facts.deleting && !facts.is_held();
    !is_over
        && status.observed_generation < facts.generation
        && (misleads || (facts.deleting && facts.is_held()))
}

/// Has the plan say first what it is about to do, if status does not tell it yet. A step that calls comes right after that.
pub(super) fn first(observed: &Observation, plan: &mut Plan, memory: &Mutex<Memory>) {
    if !is_behind(&observed.facts) {
        // In a store that goes back the generation may come again, of another edit.
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
        // Its announcement says so, before the service is called.
        Step::Operate { announce: true, .. } => return,
        // What changes nothing at the service does not take long, or is the end.
        Step::Record { .. } | Step::Secret(_) | Step::Finish | Step::LetGo { .. } => return,
    }
    if open(memory).told.acknowledged == Some(observed.facts.generation) {
        return;
    }
    plan.update.progress = false;
    if plan.buys() {
        // That a server is being created is told once that is on record: what stands in status outlives a lost record.
        plan.update.readiness = Some(waits(
            &observed.facts,
            "the service is asked for a server next",
        ));
    }
    plan.update
        .readiness
        .get_or_insert_with(|| waits(&observed.facts, why(observed)));
    if !matches!(plan.step, Step::Rest) {
        plan.step = Step::Rest;
        plan.again = times::CALL_AFTER_ACKNOWLEDGEMENT;
    }
}

/// Whether the reconcile itself is about to write status. It ends with the reconcile at the latest.
pub(super) fn hush(memory: &Mutex<Memory>, is_being_written: bool) {
    open(memory).told.is_being_written = is_being_written;
}

/// Says beside a reconcile that waits for the service what nobody has said yet. Never ends by itself.
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
        let Some(readiness) = answer(&facts) else {
            continue;
        };
        let status = status::status(
            &facts,
            chance::time_of_day(),
            &as_it_stands(&facts),
            Some(&readiness),
        );
        let written = write::say(
            context,
            &facts,
            &Step::Rest,
            &status,
            Some(&readiness),
            memory,
        );
        match written.await {
            Ok(_) => (tried, wait) = (Some(facts.generation), times::ACKNOWLEDGE_AFTER),
            Err(error) => {
                // A reconcile has written since: that is no trouble.
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

/// Nothing is known beside what status says.
fn as_it_stands(facts: &Facts) -> StatusUpdate {
    StatusUpdate {
        operation: facts.status.operation.clone(),
        resolved: facts.status.resolved.clone(),
        ..StatusUpdate::default()
    }
}

/// What is known of an edit or a deletion that nobody has looked at yet. None: nothing is told yet, of no spec.
fn answer(facts: &Facts) -> Option<Readiness> {
    if facts.deleting && facts.spec.deletion_protection {
        return Some(delete::protected());
    }
    if !is_behind(facts) {
        let mut told = facts.status.conditions.iter();
        let ready = told.find(|told| told.type_ == READY)?;
        // What status says is under way goes on after an edit as well.
        if facts.is_open() || facts.tells_of_a_purchase() {
            let reason = Reason::of(&ready.reason)?;
            return Some(Readiness::reconciling(reason, ready.message.clone()));
        }
    }
    let why = "it is not looked at yet: a call is under way, or waits for its place under spec.requests of the Account";
    Some(waits(facts, why))
}

fn waits(facts: &Facts, why: &str) -> Readiness {
    match facts.deleting {
        true => Readiness::reconciling(
            Reason::Releasing,
            format!("this Instance is being deleted; {why}"),
        ),
        false => Readiness::reconciling(
            Reason::WaitingForService,
            format!("the spec was changed; {why}"),
        ),
    }
}

fn why(observed: &Observation) -> &str {
    match (&observed.detail, &observed.task) {
        (Fact::Unknown(why), _) | (_, Fact::Unknown(why)) => why,
        _ => "the state of the server is read before anything is done to it",
    }
}
