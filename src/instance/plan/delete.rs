//! The object is being deleted: release the recorded server, then every server with the marker, then prove that none is left,
//! then remove the finalizer (rule 8).

use crate::api::conditions::{Readiness, Reason};
use crate::api::{DeletionPolicy, PurchaseRecord};
use crate::cloud::{Detail, ServerId, TaskState};
use crate::instance::fact::Fact;
use crate::instance::facts::Record;
use crate::instance::memory::call::{CallState, Release, ReleaseCall};
use crate::instance::memory::kinds::Gone;
use crate::instance::observation::{Observation, SessionFacts, is_idle};
use crate::instance::plan::evidence::{Proof, breaker_open};
use crate::instance::plan::step::{Plan, ReleaseReason, Step};
use crate::instance::plan::why::Why;
use crate::instance::plan::{evidence, policy, words};
use crate::instance::times;
use crate::runtime::events::EventNote;
use std::time::Duration;
use tokio::time::Instant;

/// The object is being deleted and has our finalizer.
pub(super) fn plan(observed: &Observation, session: &SessionFacts) -> Plan {
    if let Some(plan) = breaker_open(observed) {
        return plan;
    }
    if is_kept(observed) {
        return find_out(observed, session);
    }
    match observed.release_target() {
        Some(id) => release(observed, &id),
        None => prove(observed, session),
    }
}

/// Whether the server stays at the service when its Instance is deleted.
fn is_kept(observed: &Observation) -> bool {
    observed.facts.spec.deletion_policy == DeletionPolicy::Retain || policy::is_observed(observed)
}

/// The deletions that need no read of the service: a protected Instance stays, one that bought nothing goes, and one whose server
/// is known and kept goes, too.
pub(super) fn without_the_service(observed: &Observation) -> Option<Plan> {
    if !observed.facts.deleting {
        return None;
    }
    if observed.facts.spec.deletion_protection {
        return Some(Plan::rest(protected(), times::IDLE_REQUEUE));
    }
    let bought_nothing = |record| observed.memory.nothing_bought(record);
    if observed.facts.purchase().is_some_and(bought_nothing) && observed.release_target().is_none()
    {
        // This process knows the outcome of each call, so there is no server to look for and no place to look in.
        return Some(match is_kept(observed) {
            true => retain(observed, &[]),
            false => Plan::act(Step::Finish),
        });
    }
    if !is_kept(observed) || matches!(observed.facts.record, Record::Invalid(_)) {
        return None;
    }
    let given = || {
        observed
            .memory
            .accepted_server()
            .map(|(_, id, _)| id.clone())
    };
    // If there is a record without a server, the server in status is older than the attempt, and does not count.
    let reported = || {
        let id = observed.facts.status.id.as_deref();
        id.map(ServerId::from)
            .filter(|_| observed.facts.purchase().is_none())
    };
    let known = observed.facts.id().or_else(given).or_else(reported)?;
    Some(retain(observed, &[known]))
}

/// The readiness for a deletion that releases nothing.
pub(in crate::instance) fn protected() -> Readiness {
    let message = "this Instance was deleted while spec.deletionProtection is true, so nothing is released: set \
                   spec.deletionProtection to false to have its server released; to keep the server, set \
                   spec.deletionPolicy to Retain before that";
    Readiness::stalled(Reason::DeletionProtected, message)
}

/// The server should be kept, and none is known, but one may have been bought: look for it, so that the Event can name it.
fn find_out(observed: &Observation, session: &SessionFacts) -> Plan {
    let listing = observed.listing.as_ref();
    let found: Vec<ServerId> = listing
        .iter()
        .flat_map(|listing| listing.bearing(&observed.facts.marker))
        .collect();
    if !found.is_empty() {
        return retain(observed, &found);
    }
    let since = clock(observed, session);
    let bought_nothing = observed
        .facts
        .purchase()
        .is_some_and(PurchaseRecord::bought_nothing);
    match evidence::proof(observed, session, None, since) {
        Proof::Absent => retain(observed, &[]),
        Proof::OtherAccount if bought_nothing => retain(observed, &[]),
        Proof::OtherAccount => unconfirmed(),
        Proof::Open => {
            let (reason, why) = match bought_nothing {
                true => (
                    Reason::CheckingForExistingServer,
                    "the service refused the create",
                ),
                false => (
                    Reason::CreateUnconfirmed,
                    "a create may have bought a server",
                ),
            };
            let message = format!(
                "{why}: a server with the name of this Instance is looked for{}, so that it can be told before this Instance goes; \
                 nothing is released",
                words::until(observed, since)
            );
            let why = Why::progress(reason, message).at_once_if(!bought_nothing);
            Plan::until_proven(Some(why), observed, since)
        }
    }
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
        call.is_some_and(|call: &ReleaseCall| call.accepted)
    };
    let open = observed.open().map(|open| open.verb);
    let rest = match open {
        _ if servers.iter().any(was_released) => {
            "; but its release was called before that: look at the service's console".to_owned()
        }
        _ if observed.look().is_absent() => {
            "; but the service knew no such server at the last look".to_owned()
        }
        Some(verb) => format!("; its {verb} was not seen to end"),
        None => String::new(),
    };
    let password = match observed.facts.spec.login.generate {
        Some(_) => "; the Secret with its generated password goes with this Instance",
        None => "",
    };
    let note = format!(
        "server {} is kept at the service and goes on being billed, since {why}{rest}{password}",
        names.join(", ")
    );
    let event = (!servers.is_empty()).then(|| EventNote::normal("Retained", note));
    Plan::act(Step::Retain { event }).with_id(observed.facts.id())
}

/// Releases a server of ours that is not known to be gone.
fn release(observed: &Observation, id: &ServerId) -> Plan {
    let call = observed.memory.release_call(id);
    let (why, waits) = match (call, &observed.task) {
        (None, _) => {
            let note = format!("releasing server {id}");
            (releasing(observed, note), Duration::ZERO)
        }
        // The task failed, or the service refused: retry after a pause. Releasing a server twice does no harm.
        (Some(call), Fact::Known(TaskState::Failed { reason })) if call.accepted => {
            let words = reason.as_deref().unwrap_or("the service gave no reason");
            let note = format!("the service failed to release server {id}: {words}");
            (trouble(note), left(observed, call))
        }
        (Some(call), _) if !call.accepted => {
            let words = call.trouble.as_deref().unwrap_or("no answer");
            let note = format!("releasing server {id}: {words}");
            (trouble(note), left(observed, call))
        }
        // Accepted, not known to have ended, and without an answer for long.
        (Some(call), _)
            if observed.now > call.at + times::RELEASE_RETRY && is_at_rest(&observed.detail) =>
        {
            let note = format!("releasing server {id}, once more");
            (releasing(observed, note), left(observed, call))
        }
        (Some(_), _) => {
            let why = releasing(observed, format!("the service is releasing server {id}"));
            let plan = Plan::rest(why, times::PASS_RECHECK).in_flight();
            return plan.with_id(observed.facts.id());
        }
    };
    let plan = if waits.is_zero() {
        let (id, reason) = (id.clone(), ReleaseReason::Deleted);
        Plan::act(Step::Release { id, why: reason }).because(Some(why))
    } else {
        Plan::rest(why, waits)
    };
    plan.with_id(observed.facts.id())
}

/// The rest of the pause before the release is called again.
fn left(observed: &Observation, call: &ReleaseCall) -> Duration {
    call.not_before.map_or(Duration::ZERO, |at| {
        at.saturating_duration_since(observed.now)
    })
}

/// The server exists, and the service reports no operation on it.
fn is_at_rest(detail: &Fact<Detail>) -> bool {
    matches!(detail, Fact::Known(detail) if is_idle(detail.pending()))
}

fn releasing(observed: &Observation, note: String) -> Why {
    let since = observed.facts.deleted_at.unwrap_or(observed.wall_clock);
    let age = observed.wall_clock.duration_since(since);
    match Duration::try_from(age).is_ok_and(|age| age >= times::RELEASE_OVERDUE) {
        true => words::overdue(&note).into(),
        false => Why::progress(Reason::Releasing, note),
    }
}

fn trouble(note: String) -> Why {
    Readiness::reconciling(Reason::Releasing, note).into()
}

/// All known servers are gone: prove that no other is left.
fn prove(observed: &Observation, session: &SessionFacts) -> Plan {
    let id = observed.own_id();
    let since = clock(observed, session);
    let gone = id.as_ref().and_then(|id| observed.memory.gone(id));
    let how = gone.map(|(how, _)| how);
    let bought_nothing = observed
        .facts
        .purchase()
        .is_some_and(PurchaseRecord::bought_nothing);
    let is_released = how == Some(Gone::Released) && is_clean(observed);
    match evidence::proof(observed, session, id.as_ref(), since) {
        Proof::Absent => Plan::act(Step::Finish).with_id(id),
        // The service confirmed our own release, or there was nothing to release.
        Proof::OtherAccount if is_released || bought_nothing => Plan::act(Step::Finish).with_id(id),
        Proof::OtherAccount => unconfirmed().with_id(id),
        Proof::Open => {
            let trouble = words::unlisted(observed);
            let rest = since.saturating_duration_since(observed.now);
            // If this reconcile found the server gone, `since` is a moment after the reconcile's own time, which is no settling
            // time.
            let is_settling = rest > times::PASS_RECHECK;
            let note = match &trouble {
                Some(unlisted) => format!("confirming that no server is left: {unlisted}"),
                None if !is_settling => "confirming that no server is left".to_owned(),
                None => format!(
                    "confirming that no server is left{}, since an earlier create may still be carried out (settleSeconds)",
                    words::until(observed, since)
                ),
            };
            let is_awaited = trouble.is_some() || is_settling;
            let why = releasing(observed, note).at_once_if(is_awaited);
            Plan::until_proven(Some(why), observed, since).with_id(observed.facts.id())
        }
    }
}

/// Nothing shows that the listing without the server belongs to our account.
fn unconfirmed() -> Plan {
    let message = "the service knows no such server, but the token was changed since it was bought and nothing shows that it \
                   belongs to the same account and may see the region: give the Account a token of the account that bought the \
                   server, without a limit to other regions, or, if the console shows it gone, remove the finalizer by hand";
    let readiness = Readiness::reconciling(Reason::ReleaseUnconfirmed, message);
    Plan::rest(readiness, times::IDLE_REQUEUE)
}

/// The instant after which both passes of the proof must begin.
///
/// If every attempt has the receipt of our own call, this is when the last server was known to be gone. Otherwise a request may
/// still take effect, or a server that no listing has shown may still appear, so the passes begin after the settling time.
fn clock(observed: &Observation, session: &SessionFacts) -> Instant {
    let memory = &observed.memory;
    let gone = || memory.calls.releases.values().filter_map(Release::gone);
    let last = gone().map(|(_, since)| since).max();
    let is_shown = observed
        .facts
        .id()
        .is_some_and(|id| observed.facts.status_names(&id));
    let never_seen = !is_shown || observed.facts.status.detail.is_empty();
    let unseen = never_seen && gone().any(|(how, _)| how == Gone::NotFound);
    if is_clean(observed) && !unseen {
        return last
            .or_else(|| memory.newest_attempt())
            .unwrap_or(memory.origin.first_seen);
    }
    let doubt = memory
        .newest_attempt()
        .into_iter()
        .chain(memory.origin.recordless_since)
        .max();
    let doubt = doubt.unwrap_or(memory.origin.first_seen);
    (doubt + session.settle).max(last.unwrap_or(doubt))
}

/// Whether every attempt has a receipt or certainly bought nothing.
fn is_clean(observed: &Observation) -> bool {
    let Some(record) = observed.facts.purchase() else {
        return false;
    };
    let answered = record.id.is_some() && (record.task.is_some() || record.imported.is_some());
    let known = observed
        .memory
        .attempt(record)
        .is_some_and(|attempt| !matches!(attempt.state, CallState::Unknown));
    let is_newest = observed.memory.in_doubt_since(record).is_none();
    record.lost == 0 && is_newest && (answered || known)
}
