//! The recorded server was released externally, and the spec asks for another one in its place.
//!
//! A missing server is not proven gone (rule 7), so the same proof is required as after a release. The service itself must answer
//! in this reconcile that the server does not exist. And after the settling time, counted from the first such answer, two listing
//! passes in a row of the account that bought the server must show neither the server nor another one with the marker. Then
//! follows an attempt like any other, with a higher number. If the service refuses it for lack of rights, the proof is void, and
//! the next attempt needs it again. If the old server shows up again, it is a surplus server (rule 9).
//!
//! Another server with the marker, from a doubled request, is ours already: it replaces the one that is proven gone, and nothing
//! is bought. An attempt that was not possible yet is dropped once the spec no longer asks for it.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{EndReason, HistoryEntry, OnExternalDeletion, Verb};
use crate::cloud::TaskState;
use crate::instance::fact::Fact;
use crate::instance::observation::of_purchase;
use crate::instance::plan::evidence::{
    is_our_account, plan_while_breaker_open, unverified_account_message,
};
use crate::instance::plan::observed::OnRecord;
use crate::instance::plan::purchase::FormerOutcome;
use crate::instance::plan::step::{Plan, either};
use crate::instance::plan::{adopt, ended, evidence, policy, purchase, recreate, words};
use crate::instance::times;
use tokio::time::Instant;

/// Whether the answers come from the account that bought this server: the token is the one of the purchase, or it has listed this
/// server. A listing of another Instance's server proves nothing, since an Account may have received the token of another
/// account.
fn is_its_account(observed: &OnRecord<'_>) -> bool {
    let session = observed.session;
    session.made(observed.record)
        || observed.memory.observations.shown_by.as_ref() == Some(&session.credential)
}

/// Whether an operation on the server may still be in progress; a server that is being created may not show yet. The state of the
/// task decides. If the operation has no task, or the service forgot the task, a create counts as in progress. Any other operation
/// counts as over: it cannot affect another server. An imported server was not created by this operator, so no create of it is in
/// progress.
fn is_in_flight(observed: &OnRecord<'_>) -> bool {
    let Some(open) = observed.open() else {
        return false;
    };
    let is_create = open.verb == Verb::Create;
    match &observed.task {
        Fact::Known(state) => !state.is_final(),
        Fact::Absent => is_create,
        Fact::NotRead => {
            open.task_id.is_some() || (is_create && observed.record.imported.is_none())
        }
        Fact::Unknown(_) => true,
    }
}

/// The steps to another server; None if the spec, a pause or a doubt prevents the purchase.
fn plan(observed: &OnRecord<'_>) -> Option<Plan> {
    let (facts, id, record) = (&observed.facts, &observed.id, observed.record);
    let is_allowed = facts.spec.on_external_deletion == OnExternalDeletion::Recreate
        && policy::restriction(observed).is_none()
        && is_its_account(observed)
        && !is_in_flight(observed);
    if !is_allowed {
        return None;
    }
    if let Some(plan) = plan_while_breaker_open(observed) {
        return Some(plan);
    }
    let has_sibling = adopt::bearing(observed).iter().any(|other| other != id);
    let recreated = observed.memory.origin.recreated.saturating_add(1);
    let over = recreate::called_off(observed, recreated);
    if let Some(readiness) = over.filter(|_| !has_sibling) {
        return Some(Plan::rest(readiness, times::IDLE_REQUEUE));
    }
    let settled = observed.look().absent_since()? + observed.session.settle;
    let why = proving(observed, settled);
    let listing = observed.listing.as_ref();
    let is_proven = listing.is_some_and(|listing| match has_sibling {
        true => listing.proven_gone(id, settled),
        false => listing.proven_absent(&facts.marker, Some(id), settled),
    });
    if !is_proven {
        return Some(Plan::until_proven(why, observed, settled));
    }
    if facts.status.id.is_some() {
        // First, status drops the server: what was applied to it does not apply to another one.
        let mut plan = Plan::wait(times::AFTER_OWN_WRITE).because(why);
        plan.changes.forget_server = true;
        plan.changes.ended = unreported_end(observed);
        // With this end of the create, no process names the server again while another one is not available.
        let (reason, times) = (EndReason::ServerGone, recreated);
        let create = ended::with_end(observed, of_purchase(record), reason, None, times);
        return Some(plan.with_operation(Some(create)));
    }
    if !matches!(observed.detail, Fact::Absent) {
        // Never buy based on an old observation. Status has dropped the server: do not name it again only because the service
        // does not answer, or reconciles would revert each other's status.
        let plan = Plan::wait(times::UNREADABLE_RETRY).because(why);
        return Some(plan.reading_detail(observed));
    }
    let mut plan = match adopt::adopt(observed, None).filter(|_| has_sibling) {
        Some(adopted) => adopted,
        None => either(purchase::create(observed, Some(FormerOutcome::Released))),
    };
    plan.changes.forget_server = true;
    Some(plan)
}

/// The end of the open operation, for the history: it is no longer in progress, and its server is gone.
fn unreported_end(observed: &OnRecord<'_>) -> Option<HistoryEntry> {
    let open = observed.open()?;
    let verb = open.verb;
    let (reason, words) = match &observed.task {
        Fact::Known(TaskState::Failed { reason }) => (Some(EndReason::Failed), reason.clone()),
        Fact::Known(TaskState::Succeeded) if open.call() == verb => (None, None),
        _ if open.call() == Verb::Create || (open.call() == Verb::Reinstall && open.accepted) => {
            (None, None)
        }
        _ => {
            let words = "the server was gone before it was known to be done";
            (Some(EndReason::Superseded), Some(words.to_owned()))
        }
    };
    Some(ended::ended(observed, &open, reason, words))
}

/// None if status has dropped the server and refers to the current spec. A reconcile with less proof adds nothing then: status
/// must not alternate with each listing while another server is not available.
fn proving(observed: &OnRecord<'_>, settled: Instant) -> Option<Readiness> {
    if observed.facts.is_dropped_from_status() && evidence::is_current(observed) {
        return None;
    }
    let another = match observed.facts.spec.import {
        Some(_) => "the one that spec.import names",
        None => "another one",
    };
    let message = format!(
        "server {} is no longer at the service: the operator looks for it{}, and once it is proven gone {another} replaces it, \
         since spec.onExternalDeletion is Recreate",
        observed.id,
        words::until(observed, settled)
    );
    Some(Readiness::reconciling(Reason::ServerMissing, message))
}

/// Detail and listing agree that the recorded server does not exist. A missing server is not proven gone: without that proof it
/// is reported, and not replaced.
pub(super) fn gone(observed: &OnRecord<'_>) -> Plan {
    if let Some(plan) = plan(observed) {
        return plan;
    }
    let (id, spec) = (&observed.id, &observed.facts.spec);
    let recreates = spec.on_external_deletion == OnExternalDeletion::Recreate;
    let missing = format!("server {id} is no longer at the service");
    let siblings = adopt::bearing(observed);
    let sibling = siblings.iter().find(|other| *other != id);
    let mut again = times::IDLE_REQUEUE;
    let readiness = if !is_our_account(observed) {
        let message = unverified_account_message(&missing, "delete this Instance");
        Readiness::reconciling(Reason::ServerReadFailed, message)
    } else if is_ending(observed) {
        // The next step depends on that end (a create that failed is repeated), so the task is queried soon.
        again = times::UNREADABLE_RETRY;
        let verb = observed.open().map_or(Verb::Create, |open| open.verb);
        let message = format!(
            "{missing}, and how its {verb} ended is not known yet: the operator queries its task again"
        );
        Readiness::reconciling(Reason::ServerMissing, message)
    } else if recreates && !is_its_account(observed) {
        let message = unverified_account_message(&missing, &words::another(spec));
        Readiness::stalled(Reason::ServerMissing, message)
    } else if let Some(other) = sibling {
        let remedy = match recreates {
            true => "delete this Instance",
            false => {
                "set spec.onExternalDeletion to Recreate to have it in its place, or delete this Instance"
            }
        };
        let message = format!(
            "{missing}; server {other}, which bears its name too, is there and billed: {remedy}"
        );
        Readiness::stalled(Reason::ServerMissing, message)
    } else {
        let another = words::another(spec);
        let message = format!("{missing}; nothing is bought in its place: {another}");
        Readiness::stalled(Reason::ServerMissing, message)
    };
    Plan::rest(readiness, again).with_id(id.clone())
}

/// Whether the task of the operation on the missing server may still report its end. A task that cannot be queried or never ends
/// is given up after a while, permanently: a process that takes over does not wait again.
fn is_ending(observed: &OnRecord<'_>) -> bool {
    let missing_since = observed.facts.status.missing_since.as_ref();
    let missing_since = missing_since.filter(|_| observed.facts.status_names(&observed.id));
    let is_new = missing_since.is_none_or(|since| {
        let age = observed.wall_clock.as_second() - since.0.as_second();
        u64::try_from(age.max(0)).is_ok_and(|age| age < times::ENDING_FOR.as_secs())
    });
    let may_end = match &observed.task {
        Fact::Known(state) => !state.is_final(),
        Fact::NotRead | Fact::Unknown(_) => true,
        Fact::Absent => false,
    };
    is_new && may_end && observed.task_id().is_some()
}
