//! A recorded server that somebody else released, where the spec wants another one in its place.
//!
//! Missing is not gone (design section 4, rule 7): the same proof is asked for as after a release. The service itself says in
//! this turn that there is no such server, and after the settling time, counted from the first time it said so, two listing
//! passes in a row of the account that bought it show neither the server nor another with the marker. What comes then is an
//! attempt like any other, under a higher number; should the old server show again, it is surplus (rule 9).
//!
//! Another server with the marker (a request was doubled) is ours already: it takes the place of the one that is proven gone, and
//! nothing is bought. An attempt that could not be had yet is called off once the spec does not want it any more.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{
    EndReason, HistoryEntry, OnExternalDeletion, Operation, OperationEnd, PurchaseRecord, Verb,
};
use crate::cloud::{ServerId, TaskState};
use crate::instance::fact::Fact;
use crate::instance::observation::{Observation, SessionFacts, of_purchase};
use crate::instance::plan::evidence::{breaker_open, is_our_account};
use crate::instance::plan::step::{Needs, Plan, StatusUpdate};
use crate::instance::plan::{adopt, buy, ended, evidence, policy, words};
use crate::instance::times;
use crate::inventory::Absence;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;

/// Whether the answers come from the account that bought this very server: by the token of the purchase, or by one that has
/// listed it. That another Instance's server was listed is no proof: an Account may have got the token of another account.
pub(super) fn is_its_account(observed: &Observation, session: &SessionFacts) -> bool {
    let bought_with = observed.facts.purchase();
    bought_with.is_some_and(|record| *record.credential == *session.credential)
        || observed.memory.observations.shown_by.as_ref() == Some(&session.credential)
}

/// Whether an operation on it is not known to have ended, though status was never told so: a server in the making may well not
/// show yet. What its task says ends it; where there is no task its call was lost, and is over with the settling time. So is one
/// whose task the service forgot: nothing that it did to a server which is gone could come to another one. A server that was
/// taken over was made long before, by nobody of us: of its record no call is under way.
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

/// The way to another server; none where the spec, a pause or a doubt keeps it from being bought.
pub(super) fn plan(observed: &Observation, session: &SessionFacts, id: &ServerId) -> Option<Plan> {
    let spec = &observed.facts.spec;
    let is_asked_for = spec.on_external_deletion == OnExternalDeletion::Recreate
        && policy::restriction(observed).is_none()
        && is_its_account(observed, session)
        && !is_in_flight(observed);
    let record = observed.facts.purchase().filter(|_| is_asked_for)?;
    if let Some(mut plan) = breaker_open(observed) {
        plan.update.id = observed.facts.status_id();
        return Some(plan);
    }
    let has_sibling = adopt::bearing(observed).iter().any(|other| other != id);
    let recreated = record.recreated.max(observed.memory.origin.recreated);
    if !has_sibling && i64::from(recreated) >= i64::from(spec.recreate_limit) {
        let message = format!(
            "server {id} is not at the service any more, and spec.recreateLimit ({}) allows no further purchase in its place: \
             find out who released it, then raise spec.recreateLimit, or {}",
            spec.recreate_limit,
            words::another(spec)
        );
        let readiness = Readiness::stalled(Reason::RecreateLimitReached, message);
        let update = StatusUpdate::of(readiness).with_id(observed.facts.status_id());
        return Some(Plan::rest(update, times::IDLE_REQUEUE));
    }
    let settled = observed.memory.observations.missing_since? + session.settle;
    let absence = observed.listing.as_ref().map(|listing| match has_sibling {
        true => listing.proven_gone(id, settled),
        false => listing.proven_absent(&observed.facts.marker, Some(id), settled),
    });
    match (absence, &observed.detail) {
        // First the status forgets it: what was applied to it says nothing about another one.
        (Some(Absence::Proven), _) if observed.facts.status.id.is_some() => {
            let mut plan = Plan::rest(proving(observed, id, settled), times::AFTER_OWN_WRITE);
            plan.update.id = None;
            plan.update.forget_server = true;
            plan.update.ended = untold_end(observed);
            plan.update.operation = Some(let_go(observed, record, recreated));
            Some(plan)
        }
        (Some(Absence::Proven), Fact::Absent) => {
            let adopted = adopt::adopt(observed, session, None).filter(|_| has_sibling);
            let mut plan = adopted.unwrap_or_else(|| buy::after_loss(observed, session, record));
            plan.update.forget_server = true;
            Some(plan)
        }
        // No server is bought after a look of yesterday. Status has let it go: it is not named again because the service does not
        // answer, or each reconcile would take back what the other one said.
        (Some(Absence::Proven), _) => {
            let mut plan = Plan::rest(proving(observed, id, settled), times::UNREADABLE_RETRY);
            plan.update.id = None;
            if !observed.memory.observations.unread
                || observed.has_not_looked_for(times::UNREADABLE_RETRY)
            {
                plan.needs = Needs::Detail;
            }
            Some(plan)
        }
        _ => Some(Plan::until_proven(
            proving(observed, id, settled),
            observed,
            settled,
        )),
    }
}

/// What status keeps of a server that is let go: it is not named again as long as another one cannot be had, by whatever process.
pub(super) fn let_go(observed: &Observation, record: &PurchaseRecord, recreated: u32) -> Operation {
    Operation {
        end: Some(OperationEnd {
            reason: EndReason::ServerGone,
            message: None,
            times: recreated.saturating_add(1),
            finished_at: Time(observed.wall_clock),
        }),
        ..of_purchase(record)
    }
}

/// The end of what is open at the server, for the history: nothing of it is under way, and its server is gone.
pub(super) fn untold_end(observed: &Observation) -> Option<HistoryEntry> {
    let open = observed.open()?;
    let verb = open.verb;
    let (reason, words) = match &observed.task {
        Fact::Known(TaskState::Failed { reason }) => (Some(EndReason::Failed), reason.clone()),
        Fact::Known(TaskState::Succeeded) => (None, None),
        _ if matches!(verb, Verb::Create | Verb::Reinstall) => (None, None),
        _ => {
            let words = "the server was gone before it was known to be done";
            (Some(EndReason::Superseded), Some(words.to_owned()))
        }
    };
    Some(ended::ended(observed, &open, reason, words))
}

pub(super) fn proving(observed: &Observation, id: &ServerId, settled: Instant) -> StatusUpdate {
    if is_told(observed) {
        return StatusUpdate::default();
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
    let readiness = Readiness::reconciling(Reason::ServerMissing, message);
    StatusUpdate::of(readiness).with_id(observed.facts.status_id())
}

/// Status has let the server go and has spoken of this very spec since. A reconcile that proves less than the one which did has
/// nothing to add: a listing that moved must not have status written to and fro for as long as another server cannot be had.
pub(super) fn is_told(observed: &Observation) -> bool {
    observed.facts.is_let_go() && evidence::is_told(observed)
}

/// Detail and listing agree that the recorded server is not there. Missing is not gone: it is reported, never bought again.
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
            (Some(other), OnExternalDeletion::Fail) => format!(
                "server {other}, which bears its name too, is there and billed: set spec.onExternalDeletion to Recreate to have it \
                 in its place, or delete this Instance, and spec.deletionPolicy says what becomes of it"
            ),
            (Some(other), OnExternalDeletion::Recreate) => format!(
                "server {other}, which bears its name too, is there and billed: delete this Instance, and spec.deletionPolicy \
                 says what becomes of it"
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
        Readiness::reconciling(Reason::ServerUnobserved, message)
    };
    Plan::rest(
        StatusUpdate::of(readiness).with_id(Some(id.clone())),
        times::IDLE_REQUEUE,
    )
}

/// The operation on a server that is gone has a task that may yet say how it ended. One that cannot be asked for, or runs for
/// ever, is given up after a while, and stays so: a process that takes over begins no while of its own.
fn is_ending(observed: &Observation, id: &ServerId) -> bool {
    if evidence::is_told_given_up(observed, id) {
        return false;
    }
    let missing_since = observed.memory.observations.missing_since;
    let is_new = missing_since.is_none_or(|since| observed.now < since + times::ENDING_FOR);
    let may_tell = match &observed.task {
        Fact::Known(state) => !state.is_final(),
        Fact::NotAsked | Fact::Unknown(_) => true,
        Fact::Absent => false,
    };
    is_new && may_tell && observed.task_id().is_some()
}

/// What follows depends on that end (a create that failed is made again), so it is asked for soon.
fn ending(observed: &Observation, id: &ServerId) -> Plan {
    let verb = observed.open().map_or(Verb::Create, |open| open.verb);
    let message = format!(
        "server {id} is not at the service any more, and how its {verb} ended is not known yet: its task is asked for again"
    );
    let readiness = Readiness::reconciling(Reason::ServerMissing, message);
    let update = StatusUpdate::of(readiness).with_id(Some(id.clone()));
    Plan::rest(update, times::UNREADABLE_RETRY)
}
