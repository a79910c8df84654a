//! A recorded server that somebody else released, where the spec wants another one in its place.
//!
//! Missing is not gone (design section 4, rule 7): the same proof is asked for as after a release. The service itself says in
//! this turn that there is no such server, and after the settling time, counted from the first time it said so, two listing
//! passes in a row of the account that bought it show neither the server nor another with the marker. What comes then is an
//! attempt like any other, under a higher number; should the old server show again, it is surplus (rule 9).
//!
//! Another server with the marker (a request was doubled) is ours already: it takes the place of the one that is proven gone, and
//! nothing is bought. An attempt that could not be had yet is called off once the spec does not want it any more.

use super::{
    LONG, NEXT, Needs, Plan, SOON, Tell, UNREAD, buy, found, frozen, keep, restraint, words,
};
use crate::api::conditions::{Reason, Verdict};
use crate::api::{Binding, EndReason, HistoryEntry, OnExternalDeletion, Verb};
use crate::cloud::{ServerId, TaskState};
use crate::instance::observe::{Fact, Observation, SeatFacts};
use crate::inventory::Absence;
use tokio::time::Instant;

/// What the purchase of another server waits for, in the words of [`buy::after_loss`], and that it is not proven yet. What else
/// may stand in status is from before the loss, or says nothing about a purchase (a pause, an Account that cannot be used).
const WAITS_FOR: [Reason; 17] = [
    Reason::ServerMissing,
    Reason::PurchaseDiffers,
    Reason::AccountLimitReached,
    Reason::CreateRateReached,
    Reason::LoginSecretNotFound,
    Reason::LoginPasswordInvalid,
    Reason::SecretUnread,
    Reason::SecretNotOurs,
    Reason::SecretNotWritable,
    Reason::ReferenceNotFound,
    Reason::ReferenceAmbiguous,
    Reason::ReferenceUnread,
    Reason::Importing,
    Reason::ImportNotFound,
    Reason::ImportAmbiguous,
    Reason::ImportConflict,
    Reason::ImportDiffers,
];

/// Whether the answers come from the account that bought this very server: by the token of the purchase, or by one that has
/// listed it. That another Instance's server was listed is no proof: an Account may have got the token of another account.
fn is_its_account(seen: &Observation, seat: &SeatFacts) -> bool {
    let bought_with = seen.facts.binding().map(|binding| &binding.credential);
    bought_with == Some(&seat.credential) || seen.memory.shown_by.as_ref() == Some(&seat.credential)
}

/// Whether an operation on it is not known to have ended, though status was never told so: a server in the making may well not
/// show yet. What its task says ends it; where there is no task its call was lost, and is over with the settling time. So is one
/// whose task the service forgot: nothing that it did to a server which is gone could come to another one. A server that was
/// taken over was made long before, by nobody of us: of its record no call is under way.
fn is_in_flight(seen: &Observation) -> bool {
    let open = seen.facts.binding().filter(|_| seen.facts.is_open());
    let Some(binding) = open else { return false };
    let is_create = binding.operation.verb == Verb::Create;
    match &seen.task {
        Fact::Known(state) => !state.is_final(),
        Fact::Absent => is_create,
        Fact::NotAsked if seen.task_id().is_some() => true,
        Fact::NotAsked => is_create && binding.imported.is_none(),
        Fact::Unknown(_) => true,
    }
}

/// The way to another server; none where the spec, a pause or a doubt keeps it from being bought.
pub(super) fn plan(seen: &Observation, seat: &SeatFacts, id: &ServerId) -> Option<Plan> {
    let spec = &seen.facts.spec;
    let is_asked_for = spec.on_external_deletion == OnExternalDeletion::Recreate
        && restraint::restraint(seen).is_none()
        && is_its_account(seen, seat)
        && !is_in_flight(seen);
    let binding = seen.facts.binding().filter(|_| is_asked_for)?;
    if let Some(mut plan) = frozen(seen) {
        plan.tell.id = seen.facts.told_id();
        return Some(plan);
    }
    let has_sibling = found::bearing(seen).iter().any(|other| other != id);
    let recreated = binding.recreated.max(seen.memory.recreated);
    if !has_sibling && i64::from(recreated) >= i64::from(spec.recreate_limit) {
        let message = format!(
            "server {id} is not at the service any more, and spec.recreateLimit ({}) allows no further purchase in its place: \
             find out who released it, then raise spec.recreateLimit, or {}",
            spec.recreate_limit,
            words::another(spec)
        );
        let verdict = Verdict::stalled(Reason::RecreateLimitReached, message);
        let tell = Tell::of(verdict).with_id(seen.facts.told_id());
        return Some(Plan::rest(tell, LONG));
    }
    let settled = seen.memory.missing_since? + seat.settle;
    let absence = seen.listing.as_ref().map(|listing| match has_sibling {
        true => listing.proven_gone(id, settled),
        false => listing.proven_absent(&seen.facts.marker, Some(id), settled),
    });
    match (absence, &seen.detail) {
        // First the status forgets it: what was applied to it says nothing about another one.
        (Some(Absence::Proven), _) if seen.facts.status.id.is_some() => {
            let mut plan = Plan::rest(proving(seen, id, settled), NEXT);
            plan.tell.id = None;
            plan.tell.forget_server = true;
            // Nothing tells it later: the server would be named again with each turn that proves less.
            plan.tell.ended = untold_end(seen, binding);
            Some(plan)
        }
        (Some(Absence::Proven), Fact::Absent) => {
            let adopted = found::adopt(seen, seat, None).filter(|_| has_sibling);
            let mut plan = adopted.unwrap_or_else(|| buy::after_loss(seen, seat, binding));
            plan.tell.forget_server = true;
            Some(plan)
        }
        // No server is bought after a look of yesterday. Status has let it go: it is not named again because the service does not
        // answer, or each turn would take back what the other one said.
        (Some(Absence::Proven), _) => {
            let mut plan = Plan::rest(proving(seen, id, settled), UNREAD);
            plan.tell.id = None;
            if !seen.memory.unread || seen.has_not_looked_for(UNREAD) {
                plan.needs = Needs::Detail;
            }
            Some(plan)
        }
        _ => {
            let rest = settled.saturating_duration_since(seen.now);
            let plan = Plan::rest(proving(seen, id, settled), SOON);
            Some(if rest.is_zero() {
                plan.wanting(settled, 2)
            } else {
                plan.within(rest).in_flight()
            })
        }
    }
}

/// The end of the recorded operation, if that was not told: nothing of it is under way, and its server is gone. What erases
/// a disk counts as done unless the service says otherwise: should the server show again, it is not done once more.
fn untold_end(seen: &Observation, binding: &Binding) -> Option<HistoryEntry> {
    if !seen.facts.is_open() {
        return None;
    }
    let verb = binding.operation.verb;
    let (reason, words) = match &seen.task {
        Fact::Known(TaskState::Failed { reason }) => (Some(EndReason::Failed), reason.clone()),
        Fact::Known(TaskState::Succeeded) => (None, None),
        _ if matches!(verb, Verb::Create | Verb::Reinstall) => (None, None),
        _ => {
            let words = "the server was gone before it was known to be done";
            (Some(EndReason::Superseded), Some(words.to_owned()))
        }
    };
    Some(keep::ended(seen, binding, reason, words))
}

/// What stands instead of a purchase that was announced in the place of a server, once the spec does not want it any more.
/// So many were announced.
pub(super) fn withdrawn(seen: &Observation, recreated: u32) -> Option<Plan> {
    let verdict = called_off(seen, recreated)?;
    Some(Plan::rest(Tell::of(verdict), LONG))
}

/// Status says so, of the spec as it is: a turn that proves less than the one which said it has nothing to add.
pub(super) fn is_told_withdrawn(seen: &Observation) -> bool {
    let recorded = seen.facts.binding().map(|binding| binding.recreated);
    let recreated = recorded.unwrap_or(0).max(seen.memory.recreated);
    let recreated = recreated.max(told(seen));
    called_off(seen, recreated).is_some_and(|verdict| keep::is_told(seen, verdict.reason))
}

/// How many servers are to be bought in the place of others, by what status tells: those that were whole, and are let go.
pub(super) fn told(seen: &Observation) -> u32 {
    let history = seen.facts.status.history.iter();
    let whole = history.filter(|entry| entry.verb == Verb::Create && entry.succeeded);
    u32::try_from(whole.count()).unwrap_or(u32::MAX)
}

fn called_off(seen: &Observation, recreated: u32) -> Option<Verdict> {
    let spec = &seen.facts.spec;
    if recreated == 0 {
        return None;
    }
    let another = words::another(spec);
    if spec.on_external_deletion != OnExternalDeletion::Recreate {
        let message = format!(
            "the server that this Instance had is gone, and nothing is bought in its place, since spec.onExternalDeletion is \
             Fail: set it to Recreate, or {another}"
        );
        return Some(Verdict::stalled(Reason::ServerMissing, message));
    }
    let is_over = i64::from(recreated) > i64::from(spec.recreate_limit);
    is_over.then(|| {
        let message = format!(
            "the server that this Instance had is gone, and spec.recreateLimit ({}) allows no further purchase in its place: \
             raise it, or {another}",
            spec.recreate_limit
        );
        Verdict::stalled(Reason::RecreateLimitReached, message)
    })
}

fn proving(seen: &Observation, id: &ServerId, settled: Instant) -> Tell {
    if is_told(seen) {
        return Tell::default();
    }
    let another = match seen.facts.spec.import {
        Some(_) => "the one that spec.import names",
        None => "another one",
    };
    let message = format!(
        "server {id} is not at the service any more: it is looked for{}, and once it is proven gone {another} takes its place, \
         since spec.onExternalDeletion is Recreate",
        words::until(seen, settled)
    );
    let verdict = Verdict::reconciling(Reason::ServerMissing, message);
    Tell::of(verdict).with_id(seen.facts.told_id())
}

/// Status has let the server go and says of this very spec why no other one is there yet. A turn that proves less than the one
/// which said so has nothing to add: a listing that moved must not have status written to and fro for as long as another
/// server cannot be had.
fn is_told(seen: &Observation) -> bool {
    let status = &seen.facts.status;
    let mut told = status.conditions.iter().map(|told| told.reason.as_str());
    seen.facts.told_id().is_none()
        && status.observed_generation == seen.facts.generation
        && told.any(|told| WAITS_FOR.iter().any(|why| why.as_str() == told))
}
