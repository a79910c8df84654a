//! What the spec keeps the operator from doing: a pause, a server that is only looked at. Every plan passes here last, so that
//! nothing which another file decides slips by.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{Lasts, ManagementPolicy, PurchaseRecord, resync_period};
use crate::cloud::ServerId;
use crate::instance::memory::kinds::Post;
use crate::instance::observation::{AccountFact, Observation};
use crate::instance::plan::evidence::says;
use crate::instance::plan::step::{Plan, SecretStep, Step, Tell};
use crate::instance::times;
use std::time::Duration;

/// Why nothing may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restriction {
    /// For this time, if it ends by itself.
    Paused(Option<Duration>),
    /// The server is only looked at.
    Observed,
}

/// What holds the operator back in this turn.
pub(super) fn restriction(seen: &Observation) -> Option<Restriction> {
    let spec = &seen.facts.spec;
    let paused = spec
        .pause
        .as_ref()
        .map(|pause| pause.lasts(seen.wall_clock));
    match (paused, spec.management_policy) {
        (Some(Lasts::Open), _) => Some(Restriction::Paused(None)),
        (Some(Lasts::For(left)), _) => Some(Restriction::Paused(Some(left))),
        (Some(Lasts::Over) | None, ManagementPolicy::Observe) => Some(Restriction::Observed),
        (Some(Lasts::Over) | None, ManagementPolicy::Manage) => None,
    }
}

/// Whether the server is only looked at.
pub(super) fn is_observed(seen: &Observation) -> bool {
    seen.facts.spec.management_policy == ManagementPolicy::Observe
}

/// What stands instead of a purchase; before the login is read for it.
pub(super) fn instead_of_a_purchase(seen: &Observation) -> Option<Plan> {
    restriction(seen)?;
    Some(Plan::rest(Tell::of(not_bought()), times::IDLE_REQUEUE))
}

/// What is said of a server that only looks were taken at, and that is not as the spec says.
pub(super) fn differs(what: &str) -> Readiness {
    let message = format!(
        "{what}; spec.managementPolicy is Observe, so nothing is changed: set the spec to what the server is, or set \
         spec.managementPolicy to Manage"
    );
    Readiness::drifted(Reason::ObservedOnly, message)
}

/// What is said of a second server beside one that only looks are taken at.
pub(super) fn surplus(other: &ServerId) -> Readiness {
    let message = format!(
        "server {other} was bought for this Instance as well, and is not released, since spec.managementPolicy is Observe: \
         release it at the service, or set spec.managementPolicy to Manage"
    );
    Readiness::drifted(Reason::ObservedOnly, message)
}

fn not_bought() -> Readiness {
    let message = "this Instance has no server, and none is bought, since spec.managementPolicy is Observe: set it to Manage to \
                   have one bought";
    Readiness::stalled(Reason::NotBought, message)
}

/// Why nothing would be changed now, in the words that the status would have.
pub fn restricted_from(seen: &Observation) -> Option<Readiness> {
    let readiness = match restriction(seen)? {
        Restriction::Paused(_) => holds(seen),
        Restriction::Observed if seen.facts.id().is_none() => not_bought(),
        Restriction::Observed => differs("the server is not as the spec says"),
    };
    Some(readiness)
}

/// The plan without what may not be done.
pub(super) fn restrained(seen: &Observation, plan: Plan) -> Plan {
    if seen.facts.deleting && !seen.facts.is_held() {
        return plan;
    }
    match restriction(seen) {
        None => plan,
        Some(Restriction::Observed) => observed(plan),
        Some(Restriction::Paused(left)) => paused(seen, plan, left),
    }
}

/// No call that changes anything; records are kept, and a deletion takes the finalizer away.
fn observed(plan: Plan) -> Plan {
    let readiness = match &plan.step {
        Step::Rest
        | Step::Record { .. }
        | Step::Finish
        | Step::LetGo { .. }
        | Step::Secret(SecretStep::Connect | SecretStep::Settle { .. }) => return plan,
        // A password that nobody would set.
        Step::Secret(SecretStep::Generate | SecretStep::Renew { .. }) => {
            return Plan::rest(plan.tell, times::IDLE_REQUEUE);
        }
        Step::Buy { .. } => not_bought(),
        Step::Operate { .. } | Step::Auxiliary { .. } => differs("an operation is wanted"),
        Step::Release { id, .. } => differs(&format!("server {id} is to be released")),
    };
    instead(plan, readiness)
}

/// Nothing is begun and nothing but status is written; but what the service has taken already is followed to its end, and
/// its receipt is put on record.
fn paused(seen: &Observation, plan: Plan, left: Option<Duration>) -> Plan {
    let is_protected = seen.facts.deleting && seen.facts.spec.deletion_protection;
    let is_allowed = match &plan.step {
        Step::Rest => true,
        // What lost its finalizer is held again, or its deletion would not wait.
        Step::Record { record } => {
            is_receipt(seen, record) || (!seen.facts.is_held() && seen.facts.purchase().is_some())
        }
        // A password change that is done is followed to its end.
        Step::Secret(SecretStep::Settle { .. }) => seen.is_open(),
        Step::Buy { .. }
        | Step::Operate { .. }
        | Step::Auxiliary { .. }
        | Step::Release { .. }
        | Step::Secret(_)
        | Step::Finish
        | Step::LetGo { .. } => false,
    };
    let is_followed = plan.tell.operation.is_some()
        || (plan.tell.readiness.is_none() && seen.is_open())
        || !matches!(plan.step, Step::Rest);
    let mut plan = match is_allowed {
        true if is_followed && plan.tell.progress && says(seen, Reason::Paused) => {
            // It goes on until there is something to say: in between, that it is held up stands.
            let mut plan = plan;
            plan.tell.readiness = None;
            plan
        }
        true if is_followed || is_protected => plan,
        true => {
            let mut plan = plan;
            plan.tell.readiness = Some(holds(seen));
            plan.tell.progress = false;
            plan
        }
        false => instead(plan, holds(seen)),
    };
    if let Some(left) = left {
        plan = plan.within(left);
    }
    plan
}

/// Whether this record only says what the service answered to a call of this process.
fn is_receipt(seen: &Observation, record: &PurchaseRecord) -> bool {
    let attempt = seen.memory.calls.attempts.get(&record.attempt);
    attempt.is_some_and(|attempt| matches!(attempt.post, Post::Accepted { .. }))
}

fn holds(seen: &Observation) -> Readiness {
    let until = seen.facts.spec.pause.as_ref();
    let until = until.and_then(|pause| pause.until.as_deref());
    let what = if seen.facts.deleting {
        "its deletion waits, and nothing is released"
    } else {
        "nothing is begun, bought or changed"
    };
    let end = match until {
        Some(until) => format!("until {until}, or until spec.pause is taken out"),
        None => "until spec.pause is taken out".to_owned(),
    };
    let message = format!("this Instance is paused: {what} {end}");
    Readiness::reconciling(Reason::Paused, message)
}

/// Nothing is done, and this is said about it.
fn instead(plan: Plan, readiness: Readiness) -> Plan {
    // A server that was found and is not recorded is not told: status.id speaks of the recorded one.
    let is_found = matches!(plan.step, Step::Record { .. });
    let told = plan.tell;
    let tell = Tell {
        readiness: Some(readiness),
        id: told.id.filter(|_| !is_found),
        detail: told.detail,
        operation: told.operation,
        applied: told.applied,
        reconciled: told.reconciled,
        ..Tell::default()
    };
    Plan::rest(tell, times::IDLE_REQUEUE)
}

/// What spec.resyncPeriod and spec.reconcile ask of the looks: when the next one is due, and that a token was carried out.
pub(super) fn looking(seen: &Observation, mut plan: Plan) -> Plan {
    let has_account_session = matches!(seen.account, AccountFact::AccountSession(_));
    if seen.facts.deleting || !has_account_session {
        return plan;
    }
    let (memory, id) = (&seen.memory, seen.facts.id());
    let period = seen.facts.spec.resync_period.as_deref();
    // What is open is read at its own pace, and what is gone is not read at all.
    let is_read = |id: &ServerId| !seen.is_open() && !memory.calls.gone.contains_key(id);
    if let (Some(period), true) = (
        period.and_then(resync_period),
        id.as_ref().is_some_and(is_read),
    ) {
        let due = memory.looks.looked.unwrap_or(memory.origin.first_seen) + period;
        let left = due.saturating_duration_since(seen.now);
        plan = plan.within(left.max(Duration::from_secs(1)));
    }
    let Some((token, since)) = &memory.looks.reconcile else {
        return plan;
    };
    if seen.is_open() && plan.tell.ended.is_none() && plan.tell.progress {
        // What is in flight ends with a look of its own. What does not go on by itself has no end that would tell.
        return plan;
    }
    let listing = seen.listing.as_ref();
    let is_listed = listing.is_some_and(|listing| listing.began_after(*since));
    let is_looked =
        memory.looks.looked.is_some_and(|looked| looked >= *since) && !memory.looks.unread;
    match (is_listed, is_looked || id.is_none()) {
        (true, true) => {
            plan.tell.reconciled = Some(token.clone());
            plan
        }
        (false, _) if plan.wants.pass_after.is_none() => {
            plan.within(times::PASS_RECHECK).wanting(*since, 1)
        }
        _ => plan.within(times::PASS_RECHECK),
    }
}
