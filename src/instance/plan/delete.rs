//! The object is being deleted: release the recorded server, then every server with the marker, then prove that none is left,
//! then remove the finalizer (rule 8 of `docs/maintainers/proof.md`). Or keep the server, if the spec requires that.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{DeletionPolicy, PurchaseRecord};
use crate::cloud::{ServerId, TaskState};
use crate::instance::fact::Fact;
use crate::instance::facts::Record;
use crate::instance::memory::call::{CallState, Gone, Release, ReleaseCall};
use crate::instance::observation::{Observation, is_idle};
use crate::instance::plan::evidence::{Proof, plan_while_breaker_open};
use crate::instance::plan::observed::InSession;
use crate::instance::plan::step::{OrPlan, Plan, ReleaseReason, Step, first};
use crate::instance::plan::{adopt, evidence, policy, recreate, words};
use crate::instance::times;
use crate::runtime::events::EventNote;
use std::time::Duration;
use tokio::time::Instant;

/// The object is being deleted and has our finalizer.
pub(super) fn plan(observed: &InSession<'_>) -> OrPlan<Plan> {
    first(plan_while_breaker_open(observed))?;
    if is_kept(observed) {
        // None is on record, but one may have been bought: look for it, so that the Event can name it.
        let found = adopt::bearing(observed);
        if !found.is_empty() {
            return Ok(retain(observed, &found));
        }
    } else if let Some(id) = observed.release_target() {
        return Ok(release(observed, &id));
    }
    Ok(prove(observed))
}

/// Whether the server stays at the service when its Instance is deleted.
fn is_kept(observed: &Observation) -> bool {
    observed.facts.spec.deletion_policy == DeletionPolicy::Retain || policy::is_observed(observed)
}

/// The deletions that need no read of the service: of an Instance that bought nothing, and of one whose server is known and kept.
pub(super) fn without_the_service(observed: &Observation) -> Option<Plan> {
    if !observed.facts.deleting {
        return None;
    }
    let bought_nothing = |record: &_| {
        observed.memory.nothing_bought(record)
            && (is_kept(observed) || !recreate::needs_proof_again(observed, record))
    };
    if observed.facts.purchase().is_some_and(bought_nothing) && observed.release_target().is_none()
    {
        // This process knows the outcome of each call, so there is no server to look for.
        return Some(finish(observed));
    }
    if !is_kept(observed) || matches!(observed.facts.record, Record::Invalid(_)) {
        return None;
    }
    let memory = &observed.memory;
    let given = || memory.accepted_server().map(|(_, id, _)| id.clone());
    // If there is a record without a server, the server in status is older than the attempt, and does not count.
    let shown = || match observed.facts.purchase() {
        Some(_) => None,
        None => observed.facts.status.id.as_deref().map(ServerId::from),
    };
    let known = observed.facts.id().or_else(given).or_else(shown)?;
    Some(retain(observed, &[known]))
}

/// Removes the finalizer and keeps these servers.
fn retain(observed: &Observation, servers: &[ServerId]) -> Plan {
    let why = match observed.facts.spec.deletion_policy {
        DeletionPolicy::Retain => "spec.deletionPolicy is Retain",
        DeletionPolicy::Release => "spec.managementPolicy is Observe",
    };
    let names: Vec<String> = servers.iter().map(ToString::to_string).collect();
    let was_released = |id| {
        let call = observed.memory.release_call(id);
        call.is_some_and(|call| call.accepted)
    };
    let is_in_doubt = observed.open().is_some()
        || observed.look().is_absent()
        || servers.iter().any(was_released);
    let doubt = match is_in_doubt {
        true => {
            "; but a call for it may still run, or the service did not show it: look at the service's console"
        }
        false => "",
    };
    let password = match observed.facts.spec.login.generate {
        Some(_) => "; the Secret with its generated password is deleted with this Instance",
        None => "",
    };
    let note = format!(
        "server {} is kept at the service and is still billed, since {why}{doubt}{password}",
        names.join(", ")
    );
    let event = (!servers.is_empty()).then(|| EventNote::normal("Retained", note));
    Plan::act(Step::Retain { event })
}

/// Releases a server of ours that is not known to be gone, or waits for its release.
fn release(observed: &Observation, id: &ServerId) -> Plan {
    let call = observed.memory.release_call(id);
    let is_idle = matches!(&observed.detail, Fact::Known(detail) if is_idle(detail.pending()));
    let has_failed = matches!(observed.task, Fact::Known(TaskState::Failed { .. }));
    let was_idle = observed.look().idle_since().is_some();
    // The task failed, or the service refused: retry after a pause. Releasing a server twice does no harm.
    let failure = match (call, &observed.task) {
        // The last call was not accepted, and nothing shows that an earlier one is still carried out.
        (
            Some(ReleaseCall {
                failure: Some(failure),
                accepted,
                ..
            }),
            _,
        ) if !accepted || was_idle || has_failed => {
            Some(format!("releasing server {id}: {}", failure.message))
        }
        (Some(_), Fact::Known(TaskState::Failed { reason })) => {
            let words = reason.as_deref().unwrap_or("the service gave no reason");
            Some(format!(
                "the service failed to release server {id}: {words}"
            ))
        }
        _ => None,
    };
    // A call that was accepted long ago and did not end is repeated once the service reports no operation on the server.
    let may_end = |call: &ReleaseCall| !is_idle || observed.now <= call.at + times::RELEASE_RETRY;
    if failure.is_none() && call.is_some_and(may_end) {
        let why = releasing(observed, format!("the service is releasing server {id}"));
        return Plan::rest(why, times::PASS_RECHECK).listing_often();
    }
    let is_failure = failure.is_some();
    let note = failure.unwrap_or_else(|| format!("releasing server {id}"));
    let why = releasing(observed, note).at_once_if(is_failure);
    let may_be_carried_out = call.is_some_and(|call| call.accepted) && !has_failed && !is_idle;
    let not_before = call.and_then(|call| call.not_before);
    match not_before.filter(|at| *at > observed.now) {
        Some(at) => Plan::rest(why, at - observed.now),
        None if may_be_carried_out => Plan::rest(why, times::PASS_RECHECK).listing_often(),
        None => {
            let (id, reason) = (id.clone(), ReleaseReason::Deleted);
            Plan::act(Step::Release { id, why: reason }).because(Some(why))
        }
    }
}

fn releasing(observed: &Observation, note: String) -> Readiness {
    let since = observed.facts.deleted_at.unwrap_or(observed.wall_clock);
    let age = observed.wall_clock.duration_since(since);
    match Duration::try_from(age).is_ok_and(|age| age >= times::RELEASE_OVERDUE) {
        true => words::overdue(&note),
        false => Readiness::progress(Reason::Releasing, note),
    }
}

/// All known servers are gone, or none is known: prove that no other is left.
fn prove(observed: &InSession<'_>) -> Plan {
    let id = observed.own_id();
    let since = proof_since(observed);
    let gone = id.as_ref().and_then(|id| observed.memory.gone(id));
    let was_released = gone.is_some_and(|(how, _)| how == Gone::Released) && is_clean(observed);
    match evidence::proof(observed, id.as_ref(), since) {
        Proof::Absent => finish(observed),
        // The service confirmed our own release, or there was nothing to release.
        Proof::AbsentInUnverifiedAccount if was_released || bought_nothing(observed) => {
            finish(observed)
        }
        Proof::AbsentInUnverifiedAccount => evidence::wait_for_our_account(
            Reason::ReleaseUnconfirmed,
            "the service knows no server of this Instance",
            "if the console shows that it is gone, remove the finalizer by hand",
        ),
        Proof::Open => confirming(observed, since),
    }
}

/// No server is left: removes the finalizer.
fn finish(observed: &Observation) -> Plan {
    match is_kept(observed) {
        true => retain(observed, &[]),
        false => Plan::act(Step::Finish),
    }
}

/// Whether the record shows that the service refused every create since a server was proven gone.
fn bought_nothing(observed: &Observation) -> bool {
    let record = observed.facts.purchase();
    record.is_some_and(PurchaseRecord::bought_nothing)
}

/// Waits for the proof by listings that begin after `since`.
fn confirming(observed: &Observation, since: Instant) -> Plan {
    let unlisted = words::unlisted(observed);
    // If this reconcile found the server gone, `since` is a moment later than `now`, and no settling time is involved.
    let is_settling = since.saturating_duration_since(observed.now) > times::PASS_RECHECK;
    let is_awaited = !unlisted.is_empty() || is_settling;
    let obstacle = match is_settling && unlisted.is_empty() {
        true => format!(
            "{}, since an earlier create may still be carried out (settleSeconds)",
            words::until(observed, since)
        ),
        false => unlisted,
    };
    let why = if is_kept(observed) {
        let reason = match bought_nothing(observed) {
            true => Reason::CheckingForExistingServer,
            false => Reason::CreateUnconfirmed,
        };
        let note =
            format!("looking for a server with the name of this Instance, to keep it{obstacle}");
        Readiness::progress(reason, note)
    } else {
        let note = format!("confirming that no server is left{obstacle}");
        releasing(observed, note)
    };
    Plan::until_proven(Some(why.at_once_if(is_awaited)), observed, since)
}

/// The instant after which both passes of the proof must begin.
///
/// If the outcome of every attempt is known, and every server that was reported as not found had been observed before, this is
/// when the last server was known to be gone, or else when the last call ended. Otherwise a request may still take effect, or a
/// server that no listing has shown may still appear, so the passes begin after the settling time.
fn proof_since(observed: &InSession<'_>) -> Instant {
    let memory = &observed.memory;
    let gone = || memory.releases.values().filter_map(Release::gone);
    let last = gone().map(|(_, since)| since).max();
    let id = observed.facts.id();
    let was_seen = id.is_some_and(|id| evidence::was_seen(observed, &id));
    let unseen = !was_seen && gone().any(|(how, _)| how == Gone::NotFound);
    if is_clean(observed) && !unseen {
        return last
            .or_else(|| memory.settling_since())
            .unwrap_or(memory.origin.since);
    }
    let since = memory.origin.since;
    let doubt = memory.settling_since().map_or(since, |at| at.max(since));
    (doubt + observed.session.settle).max(last.unwrap_or(doubt))
}

/// Whether every attempt has a receipt or certainly bought nothing.
fn is_clean(observed: &Observation) -> bool {
    let Some(record) = observed.facts.purchase() else {
        return false;
    };
    let answered = record.id.is_some() && (record.task.is_some() || record.imported.is_some());
    let attempt = observed.memory.attempt(record);
    let known = attempt.is_some_and(|attempt| attempt.state != CallState::Unknown);
    let none_later_in_doubt = observed.memory.in_doubt_since(record).is_none();
    record.lost == 0 && none_later_in_doubt && (answered || known)
}
