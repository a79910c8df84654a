//! The task of a create failed: its leftover is released and observed as gone, and after a pause another server is bought.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{EndReason, PurchaseRecord};
use crate::cloud::ServerId;
use crate::instance::fact::Fact;
use crate::instance::observation::of_purchase;
use crate::instance::plan::evidence::{Proof, plan_while_breaker_open};
use crate::instance::plan::observed::OnRecord;
use crate::instance::plan::purchase::FormerOutcome;
use crate::instance::plan::step::{Plan, ReleaseReason, Step, either};
use crate::instance::plan::{adopt, ended, evidence, policy, purchase, recreate, surplus};
use crate::instance::times;
use std::time::Duration;
use tokio::time::Instant;

/// The next step if the create's task failed.
pub(super) fn plan(observed: &OnRecord<'_>) -> Option<Plan> {
    let reason = observed.create_failed()?;
    let (id, record) = (&observed.id, observed.record);
    let readiness = create_failed(record, id, &reason);
    if observed.facts.is_creating() {
        // Report the failure in status first, since the next steps are planned from there.
        let plan = Plan::rest(readiness, times::AFTER_OWN_WRITE).listing_often();
        let create = of_purchase(record);
        let changes = ended::badly(observed, create, EndReason::Failed, &reason);
        return Some(Plan { changes, ..plan });
    }
    if let Some(plan) = plan_while_breaker_open(observed) {
        return Some(plan);
    }
    // If status reports that no other server is bought, that report stays: a new process that has observed less adds nothing.
    let is_called_off = recreate::is_called_off(observed);
    let why = (!is_called_off).then_some(readiness);
    if let Some((_, since)) = observed.memory.gone(id) {
        // A doubled request made another server, which replaces the failed one. Otherwise another one is bought; from now on a
        // user can edit fields that are immutable while a server exists.
        return adopt::adopt(observed, None).or_else(|| Some(once_more(observed, since, why)));
    }
    let wait = Plan::wait(times::PASS_RECHECK).listing_often();
    Some(match &observed.detail {
        // The leftover is a broken server that is ours, recorded and useless.
        Fact::Known(_) if !surplus::recently_released(observed, id) => {
            let (id, reason) = (id.clone(), ReleaseReason::Failed);
            Plan::act(Step::Release { id, why: reason }).because(why)
        }
        // If the spec forbids the release, status reports that after each read, and stays in between.
        Fact::NotRead if policy::restriction(observed).is_some() => wait,
        _ => wait.because(why),
    })
}

fn create_failed(record: &PurchaseRecord, id: &ServerId, reason: &str) -> Readiness {
    let message = format!(
        "the service failed to create server {id}: {reason}; the operator releases the remains and then retries the create"
    );
    match pause(record) >= times::longest_pause_after(EndReason::Failed) {
        true => Readiness::stalled(Reason::CreateFailed, message),
        false => Readiness::reconciling(Reason::CreateFailed, message),
    }
}

/// The pause before another server is bought.
fn pause(record: &PurchaseRecord) -> Duration {
    let failures = record.failed.saturating_add(1);
    times::pause_after(EndReason::Failed, failures).unwrap_or_default()
}

/// The leftover of the failed create is gone: another server is bought after a pause, once it is proven that no other server with
/// the marker exists.
fn once_more(observed: &OnRecord<'_>, since: Instant, why: Option<Readiness>) -> Plan {
    let record = observed.record;
    let doubt = observed.memory.in_doubt_since(record);
    let settled = doubt.map_or(since, |doubt| (doubt + observed.session.settle).max(since));
    let left = (since + pause(record)).saturating_duration_since(observed.now);
    let mut plan = match evidence::proof(observed, Some(&observed.id), settled) {
        Proof::Absent if left.is_zero() => {
            either(purchase::create(observed, Some(FormerOutcome::Failed)))
        }
        Proof::Absent => Plan::wait(left.max(times::AFTER_OWN_WRITE)).because(why),
        Proof::AbsentInUnverifiedAccount => {
            let (doubt, reason) = ("a create failed", Reason::CreateUnconfirmed);
            return evidence::wait_for_our_account(reason, doubt, "delete this Instance");
        }
        Proof::Open => Plan::until_proven(why, observed, settled),
    };
    plan.changes.forget_server = true;
    plan
}
