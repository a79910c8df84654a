//! Performs one read, and stores its answer in the observation and the memory.

use super::{reads, selectors};
use crate::api::{Marker, Verb};
use crate::cloud::{CallPriority, Detail, Error, ServerId, TaskState};
use crate::credentials::LoginFact;
use crate::instance::context::Context;
use crate::instance::fact::Fact;
use crate::instance::memory::call::{Gone, Release};
use crate::instance::memory::look::{LastAnswer, Look, RowDigest};
use crate::instance::observation::{Observation, is_idle};
use crate::instance::plan::step::NeededRead;
use crate::instance::temporary_state::Temporary;
use crate::instance::{expiry, times};
use crate::session::{AccountSession, ConflictingOwner, ReconcileSession};

/// Performs a read, each at most once per reconcile. Returns whether there is something new.
pub(super) async fn perform(
    context: &Context,
    observed: &mut Observation,
    read: &NeededRead,
    priority: CallPriority,
    session: &ReconcileSession,
) -> bool {
    // Without a slot the object waits in the queue for calls, and is reconciled when it gets one.
    if is_answered(observed, read) || (read.is_call() && !session.may_call(priority)) {
        return false;
    }
    match read {
        NeededRead::Task => query_task(context, observed, session).await,
        NeededRead::Detail => read_detail(context, observed, priority, session).await,
        NeededRead::Login => read_login(context, observed, session).await,
        NeededRead::Candidate(id) => {
            let (account, operation) = (&observed.account_key, CallPriority::Operation);
            let read = context.server(session, account, id, operation, times::OBSERVE_DEADLINE);
            observed.candidate = read.await;
            selectors::package_on_sale(observed, session, context).await;
            observed.conflicting_owner = owner_before_import(context, observed, session, id);
        }
        NeededRead::References(scope) => {
            return selectors::in_scope(observed, *scope, session, context).await;
        }
    }
    true
}

/// Whether this reconcile has the answer already. For references, [`selectors::in_scope`] checks that.
fn is_answered(observed: &Observation, read: &NeededRead) -> bool {
    match read {
        NeededRead::Task | NeededRead::References(_) => false,
        NeededRead::Detail => !matches!(observed.detail, Fact::NotRead),
        NeededRead::Login => !matches!(observed.login, LoginFact::NotRead),
        NeededRead::Candidate(_) => !matches!(observed.candidate, Fact::NotRead),
    }
}

async fn read_login(context: &Context, observed: &mut Observation, session: &AccountSession) {
    let Some(login) = observed.facts.login() else {
        return;
    };
    let specials = session.spec().password_special_characters;
    let (login, metadata) = login.observe(&context.client, specials).await;
    observed.login = login;
    if let Some(metadata) = metadata {
        observed.memory.secrets.login = Some(Box::new(metadata));
    }
}

/// The other Instance that already has the server to import, if any.
fn owner_before_import(
    context: &Context,
    observed: &Observation,
    session: &AccountSession,
    id: &ServerId,
) -> ConflictingOwner {
    let name = observed.candidate.known().and_then(Detail::name);
    let marker = name.and_then(Marker::in_name);
    // The Instance's own marker needs no check.
    let marker = marker.filter(|marker| *marker != observed.facts.marker);
    let (uid, sessions) = (&observed.facts.uid, &context.sessions);
    sessions.owner_before_import(uid, id, marker.as_ref(), session)
}

async fn query_task(context: &Context, observed: &mut Observation, session: &AccountSession) {
    let Some(poll) = &mut observed.memory.observations.poll else {
        return;
    };
    let (due, now) = (observed.schedule.due_at(poll), observed.now);
    poll.last = Some(now);
    let asked = session
        .shared
        .client
        .task(CallPriority::Operation, &poll.task);
    // A query without an answer in time shows nothing about the task: the request limit may have delayed it.
    let Ok(answer) = tokio::time::timeout(times::OBSERVE_DEADLINE, asked).await else {
        return;
    };
    let state = context.fact(&observed.account_key, answer, Error::is_no_such_task);
    poll.answered(state.clone(), now);
    if poll.seen_begin && matches!(state, Fact::Known(TaskState::Succeeded)) {
        // The wait for the request limit does not count: it would make the next queries of this verb later and later.
        session.shared.task_took(poll.verb, due - poll.since);
    }
    let (verb, target) = (poll.verb, observed.release_target());
    let memory = &mut observed.memory;
    match (verb, &state, target) {
        // The create still runs, so no operation has followed it.
        (Verb::Create, Fact::Known(TaskState::Running), _) => {
            let record = observed.facts.purchase();
            let is_it = record.is_some_and(|record| memory.attempt(record).is_some());
            if let Some(call) = memory.call.as_mut().filter(|_| is_it) {
                call.is_newest = true;
            }
        }
        (Verb::Release, Fact::Known(TaskState::Succeeded), Some(id)) => {
            memory.found_gone(id, Gone::Released);
        }
        (Verb::Release, Fact::Known(TaskState::Failed { .. }), Some(id)) => {
            let wait = memory.pace.backoff.fail();
            if let Some(Release::Asked(call)) = memory.releases.get_mut(&id) {
                call.not_before = Some(now + wait);
            }
        }
        _ => {}
    }
    observed.task = state;
}

async fn read_detail(
    context: &Context,
    observed: &mut Observation,
    priority: CallPriority,
    session: &AccountSession,
) {
    let Some(id) = reads::server(observed) else {
        return;
    };
    let (account, deadline) = (&observed.account_key, times::OBSERVE_DEADLINE);
    let read = context.server(session, account, &id, priority, deadline);
    observed.detail = read.await;
    match &mut observed.detail {
        Fact::Known(detail) => {
            let listing = observed.listing.as_ref();
            let row = listing.and_then(|listing| listing.row(&detail.id));
            let row = row.as_ref().map(|(row, _)| row.as_ref());
            expiry::add(detail, row, &observed.facts.status);
        }
        Fact::Absent => {
            let uid = &observed.facts.uid;
            session.shared.inventory.confirmed_gone(uid, &id);
        }
        Fact::NotRead | Fact::Unknown(_) => {}
    }
    take_in_detail(observed, id, session);
}

/// Remembers what the detail shows. A failed read leaves the former answer.
fn take_in_detail(observed: &mut Observation, id: ServerId, session: &AccountSession) {
    let (former, now) = (*observed.look(), observed.now);
    // A listing from before the purchase cannot show the server, so its absence there shows nothing.
    let bought = observed.memory.settling_since();
    let listed = observed
        .listed(&id)
        .filter(|(at, row)| *row != RowDigest::Absent || bought.is_none_or(|bought| *at > bought));
    let mut look = Look {
        at: Some(now),
        is_unreadable: false,
        answer: former.answer,
        row: listed.map(|(_, row)| row),
    };
    match &observed.detail {
        Fact::Known(detail) => {
            let is_idle = is_idle(detail.pending());
            let (temporary, status) = (observed.temporary(), &observed.facts.status);
            look.answer = LastAnswer::Exists {
                idle_since: is_idle.then(|| former.idle_since().unwrap_or(now)),
                temporary: Temporary::next(temporary, status, &detail.fields, now),
            };
            if !is_idle && let Some(open) = observed.open() {
                observed.memory.busy_after_call(&open, session.settle, now);
            }
        }
        Fact::Absent => {
            let since = former.absent_since().unwrap_or(now);
            look.answer = LastAnswer::Absent { since };
            let is_leftover =
                observed.create_failed().is_some() && now >= reads::leftover_shown_by(observed);
            if observed.facts.deleting || is_leftover {
                observed.memory.found_gone(id, Gone::NotFound);
            }
        }
        Fact::NotRead | Fact::Unknown(_) => {
            (look.is_unreadable, look.row) = (true, former.row);
        }
    }
    observed.memory.observations.look = look;
}
