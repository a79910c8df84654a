//! Restrictions in the spec: a pause, or the policy `Observe`. Every plan passes through here last, so that no decision of
//! another file escapes them.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{Lasts, ManagementPolicy, PurchaseRecord};
use crate::cloud::ServerId;
use crate::credentials::Chore;
use crate::instance::observation::{AccountFact, Observation};
use crate::instance::plan::step::{Plan, StatusChanges, Step};
use crate::instance::plan::words;
use crate::instance::times;
use std::time::Duration;

/// Why nothing may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restriction {
    /// The Instance is paused, for this time if the pause has an end; or it was deleted and is protected.
    Paused(Option<Duration>),
    Observed,
}

/// The restriction that applies in this reconcile.
pub(super) fn restriction(observed: &Observation) -> Option<Restriction> {
    let spec = &observed.facts.spec;
    let pause = spec.pause.as_ref();
    let paused = pause.map(|pause| pause.lasts(observed.wall_clock));
    match (paused, spec.management_policy) {
        _ if observed.facts.is_protected() => Some(Restriction::Paused(None)),
        (Some(Lasts::Open), _) => Some(Restriction::Paused(None)),
        (Some(Lasts::For(left)), _) => Some(Restriction::Paused(Some(left))),
        (Some(Lasts::Over) | None, ManagementPolicy::Observe) => Some(Restriction::Observed),
        (Some(Lasts::Over) | None, ManagementPolicy::Manage) => None,
    }
}

/// Whether `spec.managementPolicy` is `Observe`.
pub(super) fn is_observed(observed: &Observation) -> bool {
    observed.facts.spec.management_policy == ManagementPolicy::Observe
}

/// The readiness of a server under `Observe` that differs from the spec.
pub(super) fn differs(what: &str) -> Readiness {
    let message = format!(
        "{what}; spec.managementPolicy is Observe, so nothing is changed: set the spec to what the server is, or set \
         spec.managementPolicy to Manage"
    );
    Readiness::drifted(Reason::ObservedOnly, message)
}

/// The readiness under `Observe` if there is a surplus server.
pub(super) fn surplus(other: &ServerId) -> Readiness {
    let message = format!(
        "server {other} was bought for this Instance as well, and is not released, since spec.managementPolicy is Observe: \
         release it at the service, or set spec.managementPolicy to Manage"
    );
    Readiness::drifted(Reason::ObservedOnly, message)
}

/// The readiness of an Instance without a server that may not have one bought.
pub(super) fn not_bought() -> Readiness {
    let message = "this Instance has no server, and none is bought, since spec.managementPolicy is Observe: set it to Manage to \
                   have one bought";
    Readiness::stalled(Reason::NoServer, message)
}

/// The plan without steps that the spec forbids.
pub(super) fn restrained(observed: &Observation, plan: Plan) -> Plan {
    if observed.facts.deleted_at.is_some() && !observed.facts.is_held() {
        return plan;
    }
    match restriction(observed) {
        None => plan,
        Some(Restriction::Observed) => only_observed(plan),
        Some(Restriction::Paused(left)) => paused(observed, plan, left),
    }
}

/// The plan without mutating calls and new passwords. Records and the other values of Secrets are still written, and a deletion
/// removes the finalizer.
fn only_observed(plan: Plan) -> Plan {
    let readiness = match &plan.step {
        Step::Rest
        | Step::Record { .. }
        | Step::Finish
        | Step::Retain { .. }
        | Step::Secret(Chore::Connect(_) | Chore::Settle { .. } | Chore::Keep { .. }) => {
            return plan;
        }
        Step::Buy { .. } => not_bought(),
        // No call would set a new password on the server.
        Step::Operate { .. } | Step::Secret(Chore::Generate | Chore::Renew { .. }) => {
            differs("an operation is due")
        }
        Step::Release { id, .. } => differs(&format!("server {id} is to be released")),
    };
    instead(plan, readiness)
}

/// Nothing new is begun. A call that the service accepted is followed to its end, for which its receipt and the password that it
/// set are still recorded. A missing finalizer is added again.
fn paused(observed: &Observation, plan: Plan, left: Option<Duration>) -> Plan {
    let is_allowed = match &plan.step {
        Step::Rest => true,
        // A missing finalizer is added again, or a deletion would not wait.
        Step::Record { record } => {
            is_receipt(observed, record)
                || (!observed.facts.is_held() && observed.facts.purchase().is_some())
        }
        // An operation that has set a password is followed to its end.
        Step::Secret(Chore::Settle { .. }) => observed.is_open(),
        Step::Buy { .. }
        | Step::Operate { .. }
        | Step::Release { .. }
        | Step::Secret(_)
        | Step::Finish
        | Step::Retain { .. } => false,
    };
    let reason = plan.why.as_ref().map(|why| why.reason);
    let is_in_doubt = reason == Some(Reason::OutcomeUnknown) && !observed.facts.is_protected();
    let plan = match is_allowed {
        // The edit that ends the pause would count as made by a user who has seen the doubt.
        true if is_in_doubt => plan,
        true => plan.because(Some(holds(observed))),
        false => instead(plan, holds(observed)),
    };
    plan.within(left.unwrap_or(times::IDLE_REQUEUE))
}

/// Whether this record only adds the service's answer to a call of this process.
fn is_receipt(observed: &Observation, record: &PurchaseRecord) -> bool {
    let call = observed.memory.call.as_deref();
    call.is_some_and(|call| call.number == record.attempt && call.state.is_accepted())
}

fn holds(observed: &Observation) -> Readiness {
    if observed.facts.is_protected() {
        return words::protected();
    }
    let until = observed.facts.spec.pause.as_ref();
    let until = until.and_then(|pause| pause.until.as_deref());
    let what = match observed.facts.deleting {
        true => "its deletion waits, and nothing is released",
        false => "nothing new is begun, bought or changed",
    };
    let end = match until {
        Some(until) => format!("until {until}, or until spec.pause is taken out"),
        None => "until spec.pause is taken out".to_owned(),
    };
    let message = format!("this Instance is paused: {what} {end}");
    Readiness::reconciling(Reason::Paused, message)
}

/// Does nothing, and reports this readiness instead.
fn instead(plan: Plan, readiness: Readiness) -> Plan {
    // Do not report a server that was found and is not recorded: `status.id` is the recorded one.
    let is_found = matches!(plan.step, Step::Record { .. });
    let changes = StatusChanges {
        id: plan.changes.id.filter(|_| !is_found),
        forget_server: false,
        ended: None,
        ..plan.changes
    };
    Plan {
        changes,
        ..Plan::rest(readiness, times::IDLE_REQUEUE)
    }
}

/// Applies `spec.reconcile`: requests a listing, and notes the token once listing and detail are newer than the token.
pub(super) fn with_requested_reads(observed: &Observation, mut plan: Plan) -> Plan {
    let has_account_session = matches!(observed.account, AccountFact::AccountSession(_));
    if observed.facts.deleted_at.is_some() || !has_account_session {
        return plan;
    }
    let (memory, id) = (&observed.memory, observed.facts.id());
    let Some((token, since)) = memory.observations.reconcile.as_deref() else {
        return plan;
    };
    let is_progress = plan.why.as_ref().is_some_and(|why| why.is_progress);
    if observed.is_open() && plan.changes.ended.is_none() && is_progress {
        // An operation that makes progress ends with a read of its own. An operation that needs action has no such end.
        return plan;
    }
    let listing = observed.listing.as_ref();
    let is_listed = listing.is_some_and(|listing| listing.began_after(*since));
    let is_read = observed.look().was_answered_since(*since);
    match (is_listed, is_read || id.is_none()) {
        (true, true) => {
            plan.changes.reconciled = Some(token.clone());
            plan
        }
        (false, _) if plan.wants.pass_after.is_none() => plan
            .within(times::PASS_RECHECK)
            .requesting_passes(*since, 1),
        _ => plan.within(times::PASS_RECHECK),
    }
}
