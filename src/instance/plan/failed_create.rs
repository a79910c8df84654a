//! The task of a create failed: its leftover is released and observed as gone, and after a pause another server is bought.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{EndReason, PurchaseRecord};
use crate::cloud::ServerId;
use crate::instance::fact::Fact;
use crate::instance::observation::{Observation, SessionFacts, of_purchase};
use crate::instance::plan::evidence::{Proof, breaker_open};
use crate::instance::plan::purchase::Former;
use crate::instance::plan::step::{Plan, ReleaseReason, Step, either};
use crate::instance::plan::why::Why;
use crate::instance::plan::{adopt, ended, evidence, policy, purchase, recreate, surplus};
use crate::instance::times;
use tokio::time::Instant;

/// The next step after the create's task failed.
pub(super) fn plan(
    observed: &Observation,
    session: &SessionFacts,
    record: &PurchaseRecord,
    id: &ServerId,
    reason: &str,
) -> Plan {
    let words = match reason {
        "" => "the service gave no reason",
        reason => reason,
    };
    let readiness = create_failed(record, id, words);
    if observed.facts.is_creating() {
        // Report the failure in status first, since the next steps are planned from there.
        let plan = Plan::rest(readiness, times::AFTER_OWN_WRITE).in_flight();
        return report_failure(observed, record, words, plan.with_id(Some(id.clone())));
    }
    if let Some(plan) = breaker_open(observed) {
        return plan;
    }
    // The report that no other server is bought stays: a new process that has observed less adds nothing.
    let is_called_off = recreate::is_withdrawn(observed);
    let why = (!is_called_off).then(|| readiness.into());
    let Some((_, since)) = observed.memory.gone(id) else {
        let plan = match &observed.detail {
            // The leftover is a broken server that is ours, recorded and useless.
            Fact::Known(_) if !surplus::recently_released(observed, id) => {
                let (id, why) = (id.clone(), ReleaseReason::Failed);
                Plan::act(Step::Release { id, why })
            }
            // If the policy forbids the release, report that after each read and nothing in between.
            Fact::NotAsked if policy::restriction(observed).is_some() => {
                return Plan::wait(times::PASS_RECHECK).in_flight();
            }
            _ => Plan::wait(times::PASS_RECHECK).in_flight(),
        };
        let shown = (!is_called_off).then(|| id.clone());
        return plan.because(why).with_id(shown);
    };
    // A doubled request made another server, which replaces the failed one.
    if let Some(plan) = adopt::adopt(observed, session, None) {
        return plan;
    }
    // The leftover is gone: from now on a user can edit fields that are immutable while a server exists.
    once_more(observed, session, record, id, since, why)
}

fn create_failed(record: &PurchaseRecord, id: &ServerId, words: &str) -> Readiness {
    let message = format!(
        "the service failed to create server {id}: {words}; what is left of it is released, then it is tried again"
    );
    if failures(record) >= times::RETRY_FAILED.len() - 1 {
        Readiness::stalled(Reason::CreateFailed, message)
    } else {
        Readiness::reconciling(Reason::CreateFailed, message)
    }
}

fn failures(record: &PurchaseRecord) -> usize {
    usize::try_from(record.failed).unwrap_or(usize::MAX)
}

fn report_failure(
    observed: &Observation,
    record: &PurchaseRecord,
    words: &str,
    mut plan: Plan,
) -> Plan {
    let (reason, message) = (EndReason::Failed, Some(words.to_owned()));
    let create = of_purchase(record);
    plan.changes.ended = Some(ended::ended(
        observed,
        &create,
        Some(reason),
        message.clone(),
    ));
    let times = record.failed.saturating_add(1);
    plan.with_operation(Some(ended::with_end(
        observed, create, reason, message, times,
    )))
}

/// The leftover of the failed create is gone: another server is bought after a pause, once nothing of the old one exists.
fn once_more(
    observed: &Observation,
    session: &SessionFacts,
    record: &PurchaseRecord,
    id: &ServerId,
    since: Instant,
    why: Option<Why>,
) -> Plan {
    let doubt = observed.memory.in_doubt_since(record);
    let settled = doubt.map_or(since, |doubt| (doubt + session.settle).max(since));
    let pause = times::RETRY_FAILED[failures(record).min(times::RETRY_FAILED.len() - 1)];
    let left = (since + pause).saturating_duration_since(observed.now);
    let mut plan = match evidence::proof(observed, session, Some(id), settled) {
        Proof::Absent if left.is_zero() => {
            either(purchase::create(observed, session, Former::Failed(record)))
        }
        Proof::Absent => Plan::wait(left.max(times::AFTER_OWN_WRITE)).because(why),
        Proof::OtherAccount => return evidence::of_other_account("a create failed"),
        Proof::Open => Plan::until_proven(why, observed, settled),
    };
    plan.changes.forget_server = true;
    plan
}
