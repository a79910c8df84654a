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
use crate::cloud::{ServerId, TaskState};
use crate::instance::fact::Fact;
use crate::instance::observation::{Observation, SessionFacts, of_purchase};
use crate::instance::plan::evidence::{breaker_open, is_our_account};
use crate::instance::plan::purchase::Former;
use crate::instance::plan::step::{Plan, Read, either};
use crate::instance::plan::why::Why;
use crate::instance::plan::{adopt, ended, evidence, policy, purchase, recreate, words};
use crate::instance::times;
use crate::inventory::Absence;
use tokio::time::Instant;

/// Whether the answers come from the account that bought this server: the token is the one of the purchase, or it has listed this
/// server. A listing of another Instance's server proves nothing, since an Account may have received the token of another
/// account.
pub(super) fn is_its_account(observed: &Observation, session: &SessionFacts) -> bool {
    let bought_with = observed.facts.purchase();
    bought_with.is_some_and(|record| session.made(record))
        || observed.memory.observations.shown_by.as_ref() == Some(&session.credential)
}

/// Whether an operation on the server may still be in progress, although status never showed its end; a server under construction
/// may not show yet. The state of the task decides. Without a task, the call's answer was lost, and the call is over after the
/// settling time. If the service forgot the task of another operation than a create, that operation is over too: an effect on a
/// server that is gone cannot reach another server. An imported server was created long before and not by this operator, so none
/// of its calls is in progress.
pub(super) fn is_in_flight(observed: &Observation) -> bool {
    let Some(open) = observed.open() else {
        return false;
    };
    let is_create = open.verb == Verb::Create;
    match &observed.task {
        Fact::Known(state) => !state.is_final(),
        Fact::Absent => is_create,
        Fact::NotAsked if open.task_id.is_some() => true,
        Fact::NotAsked => is_create && observed.facts.imported().is_none(),
        Fact::Unknown(_) => true,
    }
}

/// The steps to another server; None if the spec, a pause or a doubt prevents the purchase.
pub(super) fn plan(observed: &Observation, session: &SessionFacts, id: &ServerId) -> Option<Plan> {
    let spec = &observed.facts.spec;
    let is_asked_for = spec.on_external_deletion == OnExternalDeletion::Recreate
        && policy::restriction(observed).is_none()
        && is_its_account(observed, session)
        && !is_in_flight(observed);
    let record = observed.facts.purchase().filter(|_| is_asked_for)?;
    if let Some(plan) = breaker_open(observed) {
        return Some(plan.with_id(observed.facts.status_id()));
    }
    let has_sibling = adopt::bearing(observed).iter().any(|other| other != id);
    let recreated = record.recreated.max(observed.memory.origin.recreated);
    let over = recreate::called_off(observed, recreated.saturating_add(1));
    if let Some(readiness) = over.filter(|_| !has_sibling) {
        let plan = Plan::rest(readiness, times::IDLE_REQUEUE);
        return Some(plan.with_id(observed.facts.status_id()));
    }
    let settled = observed.look().absent_since()? + session.settle;
    let absence = observed.listing.as_ref().map(|listing| match has_sibling {
        true => listing.proven_gone(id, settled),
        false => listing.proven_absent(&observed.facts.marker, Some(id), settled),
    });
    match (absence, &observed.detail) {
        // First, status drops the server: what was applied to it does not apply to another one.
        (Some(Absence::Proven), _) if observed.facts.status.id.is_some() => {
            let why = proving(observed, id, settled);
            let mut plan = Plan::wait(times::AFTER_OWN_WRITE).because(why);
            plan.changes.forget_server = true;
            plan.changes.ended = unreported_end(observed);
            // With this end of the create, no process names the server again while another one is not available.
            let (reason, times) = (EndReason::ServerGone, recreated.saturating_add(1));
            let create = ended::with_end(observed, of_purchase(record), reason, None, times);
            Some(plan.with_operation(Some(create)))
        }
        (Some(Absence::Proven), Fact::Absent) => {
            let adopted = adopt::adopt(observed, session, None).filter(|_| has_sibling);
            let mut plan = adopted.unwrap_or_else(|| {
                either(purchase::create(
                    observed,
                    session,
                    Former::Released(record),
                ))
            });
            plan.changes.forget_server = true;
            Some(plan)
        }
        // Never buy based on an old observation. Status has dropped the server: do not name it again only because the service
        // does not answer, or reconciles would revert each other's status.
        (Some(Absence::Proven), _) => {
            let why = proving(observed, id, settled);
            let mut plan = Plan::wait(times::UNREADABLE_RETRY).because(why);
            if !observed.look().is_unreadable()
                || observed.is_look_older_than(times::UNREADABLE_RETRY)
            {
                plan.needs = Some(Read::Detail);
            }
            Some(plan)
        }
        _ => {
            let why = proving(observed, id, settled);
            let shown = observed.facts.status_id().filter(|_| why.is_some());
            Some(Plan::until_proven(why, observed, settled).with_id(shown))
        }
    }
}

/// The end of the open operation, for the history: it is no longer in progress, and its server is gone.
fn unreported_end(observed: &Observation) -> Option<HistoryEntry> {
    let open = observed.open()?;
    let verb = open.verb;
    let (reason, words) = match &observed.task {
        Fact::Known(TaskState::Failed { reason }) => (Some(EndReason::Failed), reason.clone()),
        Fact::Known(TaskState::Succeeded) if open.call() == verb => (None, None),
        _ if matches!(verb, Verb::Create | Verb::Reinstall) => (None, None),
        _ => {
            let words = "the server was gone before it was known to be done";
            (Some(EndReason::Superseded), Some(words.to_owned()))
        }
    };
    Some(ended::ended(observed, &open, reason, words))
}

fn proving(observed: &Observation, id: &ServerId, settled: Instant) -> Option<Why> {
    if is_dropped(observed) {
        return None;
    }
    let another = match observed.facts.spec.import {
        Some(_) => "the one that spec.import names",
        None => "another one",
    };
    let message = format!(
        "server {id} is not at the service any more: it is looked for{}, and once it is proven gone {another} takes its place, \
         since spec.onExternalDeletion is Recreate",
        words::until(observed, settled)
    );
    Some(Readiness::reconciling(Reason::ServerMissing, message).into())
}

/// Whether status has dropped the server and refers to the current spec. A reconcile with less proof adds nothing then: status
/// must not alternate with each listing while another server is not available.
fn is_dropped(observed: &Observation) -> bool {
    observed.facts.is_let_go() && evidence::is_current(observed)
}

/// Detail and listing agree that the recorded server does not exist. A missing server is not proven gone: without that proof it
/// is reported, and not replaced.
pub(super) fn gone(observed: &Observation, session: &SessionFacts, id: &ServerId) -> Plan {
    if let Some(plan) = plan(observed, session, id) {
        return plan;
    }
    if is_our_account(observed, session) && is_ending(observed, id) {
        return ending(observed, id);
    }
    let readiness = if is_our_account(observed, session) {
        let spec = &observed.facts.spec;
        let sibling = adopt::bearing(observed)
            .into_iter()
            .find(|other| other != id);
        let rest = match (sibling, spec.on_external_deletion) {
            (None, OnExternalDeletion::Recreate) if !is_its_account(observed, session) => format!(
                "spec.onExternalDeletion is Recreate, but the token was changed since the service showed this server last, and \
                 it may be in the account of the former token: nothing is bought in its place before that one is put back; \
                 or {}",
                words::another(spec)
            ),
            (None, _) => format!("nothing is bought in its place: {}", words::another(spec)),
            (Some(other), _) => format!(
                "server {other}, which bears its name too, is there and billed: set spec.onExternalDeletion to Recreate to have it \
                 in its place, or delete this Instance"
            ),
        };
        let message = format!("server {id} is not at the service any more; {rest}");
        Readiness::stalled(Reason::ServerMissing, message)
    } else {
        let message = format!(
            "the service does not know server {id}, but the token was changed since it was bought and nothing shows that \
             it belongs to the same account and may see the region: give the Account a token of the account that bought the \
             server, without a limit to other regions"
        );
        Readiness::reconciling(Reason::ServerReadFailed, message)
    };
    Plan::rest(readiness, times::IDLE_REQUEUE).with_id(Some(id.clone()))
}

/// Whether the task of the operation on the missing server may still report its end. A task that cannot be queried or never ends
/// is given up after a while, permanently: a process that takes over does not wait again.
fn is_ending(observed: &Observation, id: &ServerId) -> bool {
    let missing_since = observed.facts.status.missing_since.as_ref();
    let missing_since = missing_since.filter(|_| observed.facts.status_names(id));
    let is_new = missing_since.is_none_or(|since| {
        let age = observed.wall_clock.as_second() - since.0.as_second();
        u64::try_from(age).is_ok_and(|age| age < times::ENDING_FOR.as_secs())
    });
    let may_tell = match &observed.task {
        Fact::Known(state) => !state.is_final(),
        Fact::NotAsked | Fact::Unknown(_) => true,
        Fact::Absent => false,
    };
    is_new && may_tell && observed.task_id().is_some()
}

/// The next step depends on that end (a create that failed is repeated), so the task is queried soon.
fn ending(observed: &Observation, id: &ServerId) -> Plan {
    let verb = observed.open().map_or(Verb::Create, |open| open.verb);
    let message = format!(
        "server {id} is not at the service any more, and how its {verb} ended is not known yet: its task is asked for again"
    );
    let readiness = Readiness::reconciling(Reason::ServerMissing, message);
    Plan::rest(readiness, times::UNREADABLE_RETRY).with_id(Some(id.clone()))
}
