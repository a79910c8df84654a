//! While the object is being deleted: release what is recorded, then everything with the marker, then prove that nothing
//! is left, then let the object go (design section 4, rule 8).

use crate::api::conditions::{Readiness, Reason};
use crate::api::{DeletionPolicy, PurchaseRecord};
use crate::cloud::{Detail, ServerId, TaskState};
use crate::instance::fact::Fact;
use crate::instance::facts::Record;
use crate::instance::memory::kinds::{Gone, Post, ReleaseCall};
use crate::instance::observation::{Observation, SessionFacts, is_idle};
use crate::instance::plan::evidence::{frozen, is_our_account};
use crate::instance::plan::step::{Plan, ReleaseReason, Step, Tell};
use crate::instance::plan::{policy, words};
use crate::instance::times;
use crate::inventory::Absence;
use crate::runtime::events::EventNote;
use std::time::Duration;
use tokio::time::Instant;

/// The object is being deleted and our finalizer holds it.
pub(super) fn plan(seen: &Observation, session: &SessionFacts) -> Plan {
    if let Some(plan) = frozen(seen) {
        return plan;
    }
    if is_kept(seen) {
        return find_out(seen, session);
    }
    match seen.release_target() {
        Some(id) => release(seen, &id),
        None => prove(seen, session),
    }
}

/// Whether the server stays at the service when its Instance goes.
fn is_kept(seen: &Observation) -> bool {
    seen.facts.spec.deletion_policy == DeletionPolicy::Retain || policy::is_observed(seen)
}

/// What needs no look at the service: a protected Instance stays, one that bought nothing goes, and so does one whose server is known
/// and kept.
pub(super) fn without_the_service(seen: &Observation) -> Option<Plan> {
    if !seen.facts.deleting {
        return None;
    }
    if seen.facts.spec.deletion_protection {
        return Some(Plan::rest(Tell::of(protected()), times::IDLE_REQUEUE));
    }
    let bought_nothing = |record| seen.memory.nothing_bought(record);
    if seen.facts.purchase().is_some_and(bought_nothing) && seen.release_target().is_none() {
        // This process knows what became of each call: there is nothing to look for, nor a place where it could be.
        return Some(match is_kept(seen) {
            true => let_go(seen, &[]),
            false => Plan::act(Step::Finish, Tell::default()),
        });
    }
    if !is_kept(seen) || matches!(seen.facts.record, Record::Invalid(_)) {
        return None;
    }
    let given = || seen.memory.given().map(|(_, id, _)| id.clone());
    // Of a record without a server status tells nothing: the attempt is newer.
    let told = || {
        let id = seen.facts.status.id.as_deref();
        id.map(ServerId::from)
            .filter(|_| seen.facts.purchase().is_none())
    };
    let known = seen.facts.id().or_else(given).or_else(told)?;
    Some(let_go(seen, &[known]))
}

/// The answer to a deletion that releases nothing.
pub(in crate::instance) fn protected() -> Readiness {
    let message = "this Instance was deleted while spec.deletionProtection is true, so nothing is released: set \
                   spec.deletionProtection to false to have its server released; to keep the server, set \
                   spec.deletionPolicy to Retain before that";
    Readiness::stalled(Reason::DeletionProtected, message)
}

/// A server is to be kept and none is known, though one may have been bought: it is looked for, so that it can be told.
fn find_out(seen: &Observation, session: &SessionFacts) -> Plan {
    let listing = seen.listing.as_ref();
    let found: Vec<ServerId> = listing
        .iter()
        .flat_map(|listing| listing.bearing(&seen.facts.marker))
        .collect();
    if !found.is_empty() {
        return let_go(seen, &found);
    }
    let since = clock(seen, session);
    let bought_nothing = seen
        .facts
        .purchase()
        .is_some_and(PurchaseRecord::bought_nothing);
    match listing.map(|listing| listing.proven_absent(&seen.facts.marker, None, since)) {
        Some(Absence::Proven) if is_our_account(seen, session) || bought_nothing => {
            let_go(seen, &[])
        }
        Some(Absence::Proven) => unconfirmed(),
        Some(Absence::NotYet(_) | Absence::Present(_)) | None => {
            let (reason, why) = match bought_nothing {
                true => (Reason::LookingForServer, "the service refused the create"),
                false => (
                    Reason::CreateUnconfirmed,
                    "a create may have bought a server",
                ),
            };
            let message = format!(
                "{why}: a server with the name of this Instance is looked for{}, so that it can be told before this Instance goes; \
                 nothing is released",
                words::until(seen, since)
            );
            let tell = words::anew(seen, Tell::progress(reason, message));
            Plan::until_proven(tell, seen, since)
        }
    }
}

/// The object goes, and these servers stay.
fn let_go(seen: &Observation, servers: &[ServerId]) -> Plan {
    let why = match seen.facts.spec.deletion_policy {
        DeletionPolicy::Retain => "spec.deletionPolicy is Retain",
        DeletionPolicy::Release => "spec.managementPolicy is Observe",
    };
    let names: Vec<String> = servers.iter().map(ToString::to_string).collect();
    let was_released = |id| {
        let call = seen.memory.calls.releases.get(id);
        call.is_some_and(|call: &ReleaseCall| call.accepted)
    };
    let open = seen.open().map(|open| open.verb);
    let rest = match open {
        _ if servers.iter().any(was_released) => {
            "; but its release was called before that: look at the service's console".to_owned()
        }
        _ if seen.memory.looks.not_found => {
            "; but the service knew no such server at the last look".to_owned()
        }
        Some(verb) => format!("; its {verb} was not seen to end"),
        None => String::new(),
    };
    let password = match seen.facts.spec.login.generate {
        Some(_) => "; the Secret with its generated password goes with this Instance",
        None => "",
    };
    let note = format!(
        "server {} is kept at the service and goes on being billed, since {why}{rest}{password}",
        names.join(", ")
    );
    let event = (!servers.is_empty()).then(|| EventNote::normal("Retained", note));
    let tell = Tell::default().with_id(seen.facts.id());
    Plan::act(Step::LetGo { event }, tell)
}

/// A server of ours is not known to be gone.
fn release(seen: &Observation, id: &ServerId) -> Plan {
    let Some(call) = seen.memory.calls.releases.get(id) else {
        return call_release(id, releasing(seen, format!("releasing server {id}")));
    };
    let waits = call
        .not_before
        .map_or(Duration::ZERO, |at| at.saturating_duration_since(seen.now));
    match (call, &seen.task) {
        // The task failed, or the service refused: in its time, again. Releasing one server twice does no harm.
        (ReleaseCall { accepted: true, .. }, Fact::Known(TaskState::Failed { reason })) => {
            let words = reason
                .clone()
                .unwrap_or_else(|| "the service gave no reason".to_owned());
            repeat(
                id,
                trouble(
                    seen,
                    format!("the service failed to release server {id}: {words}"),
                ),
                waits,
            )
        }
        (
            ReleaseCall {
                accepted: false,
                trouble: why,
                ..
            },
            _,
        ) => {
            let words = why.clone().unwrap_or_else(|| "no answer".to_owned());
            repeat(
                id,
                trouble(seen, format!("releasing server {id}: {words}")),
                waits,
            )
        }
        // Taken, not known to have ended, and silent for long.
        (call, _) if seen.now > call.at + times::RELEASE_RETRY && is_at_rest(&seen.detail) => {
            repeat(
                id,
                releasing(seen, format!("releasing server {id}, once more")),
                waits,
            )
        }
        _ => {
            let tell = releasing(seen, format!("the service is releasing server {id}"));
            Plan::rest(tell, times::PASS_RECHECK).in_flight()
        }
    }
}

/// The service shows the server, and no operation on it.
fn is_at_rest(detail: &Fact<Detail>) -> bool {
    matches!(detail, Fact::Known(detail) if is_idle(detail.pending()))
}

fn releasing(seen: &Observation, note: String) -> Tell {
    let since = seen.memory.origin.releasing_since.unwrap_or(seen.now);
    if seen.now >= since + times::RELEASE_OVERDUE {
        return Tell::of(words::overdue(&note)).with_id(seen.facts.id());
    }
    Tell::progress(Reason::Releasing, note).with_id(seen.facts.id())
}

fn trouble(seen: &Observation, note: String) -> Tell {
    Tell::of(Readiness::reconciling(Reason::Releasing, note)).with_id(seen.facts.id())
}

fn call_release(id: &ServerId, tell: Tell) -> Plan {
    Plan::act(
        Step::Release {
            id: id.clone(),
            why: ReleaseReason::Deleted,
        },
        tell,
    )
}

fn repeat(id: &ServerId, tell: Tell, waits: Duration) -> Plan {
    if waits.is_zero() {
        call_release(id, tell)
    } else {
        Plan::rest(tell, waits)
    }
}

/// Everything that is known is gone: prove that nothing else is there.
fn prove(seen: &Observation, session: &SessionFacts) -> Plan {
    let id = seen.own_id();
    let since = clock(seen, session);
    let absence = seen
        .listing
        .as_ref()
        .map(|listing| listing.proven_absent(&seen.facts.marker, id.as_ref(), since));
    let how = id
        .as_ref()
        .and_then(|id| seen.memory.calls.gone.get(id))
        .map(|(how, _)| *how);
    let bought_nothing = seen
        .facts
        .purchase()
        .is_some_and(PurchaseRecord::bought_nothing);
    let told_by_task = how == Some(Gone::Released) && is_clean(seen);
    match absence {
        // The service's word on our own release, or a listing of the account that bought it.
        Some(Absence::Proven)
            if told_by_task || bought_nothing || is_our_account(seen, session) =>
        {
            Plan::act(Step::Finish, Tell::default().with_id(id))
        }
        Some(Absence::Proven) => {
            let mut plan = unconfirmed();
            plan.tell.id = id;
            plan
        }
        Some(Absence::NotYet(_) | Absence::Present(_)) | None => {
            let trouble = words::unlisted(seen);
            let rest = since.saturating_duration_since(seen.now);
            // What is gone by now was known to be after this turn began.
            let is_settling = rest > times::PASS_RECHECK;
            let note = match &trouble {
                Some(unlisted) => format!("confirming that no server is left: {unlisted}"),
                None if !is_settling => "confirming that no server is left".to_owned(),
                None => format!(
                    "confirming that no server is left{}, since an earlier create may still be carried out (settleSeconds)",
                    words::until(seen, since)
                ),
            };
            let is_awaited = trouble.is_some() || is_settling;
            let mut tell = releasing(seen, note);
            tell.progress &= !is_awaited;
            Plan::until_proven(tell, seen, since)
        }
    }
}

/// Nothing shows that it is our account whose listing lacks the server.
fn unconfirmed() -> Plan {
    let message = "the service knows no such server, but the token was changed since it was bought and nothing shows that it \
                   belongs to the same account: give the Account a token of the account that bought the server, or, if the \
                   console shows it gone, remove the finalizer by hand";
    let readiness = Readiness::reconciling(Reason::ReleaseUnconfirmed, message);
    Plan::rest(Tell::of(readiness), times::IDLE_REQUEUE)
}

/// The instant after which both passes of the proof must begin.
///
/// Where every attempt has its receipt from our own POST: when the last server was known to be gone. Otherwise a request
/// may still be executed, or a server that nobody has seen yet may still appear: not before the settling time is over.
fn clock(seen: &Observation, session: &SessionFacts) -> Instant {
    let memory = &seen.memory;
    let gone = memory.calls.gone.values().map(|(_, since)| *since).max();
    let is_told = seen.facts.id().is_some_and(|id| seen.facts.tells_of(&id));
    let never_seen = !is_told || seen.facts.status.detail.is_empty();
    let unseen = never_seen
        && memory
            .calls
            .gone
            .values()
            .any(|(how, _)| *how == Gone::NotFound);
    if is_clean(seen) && !unseen {
        return gone
            .or_else(|| memory.newest_attempt())
            .unwrap_or(memory.origin.first_seen);
    }
    let doubt = memory
        .newest_attempt()
        .into_iter()
        .chain(memory.origin.recordless_since)
        .max();
    let doubt = doubt.unwrap_or(memory.origin.first_seen);
    (doubt + session.settle).max(gone.unwrap_or(doubt))
}

/// Whether every attempt has its receipt, or is known to have bought nothing.
fn is_clean(seen: &Observation) -> bool {
    let Some(record) = seen.facts.purchase() else {
        return false;
    };
    let answered = record.id.is_some() && (record.task.is_some() || record.imported.is_some());
    let known = seen
        .memory
        .attempt(record)
        .is_some_and(|attempt| !matches!(attempt.post, Post::Unknown));
    let is_newest = seen.memory.in_doubt_since(record).is_none();
    record.lost == 0 && is_newest && (answered || known)
}
