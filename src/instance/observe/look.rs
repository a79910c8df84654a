//! The reads of a reconcile: the task and the server's detail, each when it is due and at most once.

use crate::api::{Operation, Verb, resync_period};
use crate::cloud::{CallPriority, Error, ServerId, TaskId, TaskState};
use crate::instance::context::Context;
use crate::instance::expiry;
use crate::instance::fact::Fact;
use crate::instance::memory::kinds::{CallState, Ended, Gone, Odd, Poll, RowDigest};
use crate::instance::observation::{Observation, is_idle, is_off};
use crate::instance::passing::Passing;
use crate::instance::poll_schedule::Schedule;
use crate::instance::times;
use crate::inventory::{Sighting, Why};
use crate::session::{Access, AccountSession};
use std::time::Duration;
use tokio::time::Instant;

/// The reason of an `Unknown` fact if other objects use up the request limit.
const NO_ROOM: &str = "the request limit left no room for a query";

/// Reads task and detail of the recorded server if they are due.
pub(super) async fn at_server(observed: &mut Observation, session: &Access, context: &Context) {
    let Some(id) = observed.facts.id() else {
        observed.memory.observations.passing = None;
        return;
    };
    if let Some(open) = observed.open() {
        at_operation(observed, session, context, id, &open).await;
    } else if observed.create_failed().is_some() {
        return at_orphan(observed, session, context, id).await;
    } else if needs_detail(observed, &id) {
        at_detail(observed, session, context, id, CallPriority::Resync).await;
    }
    note_what_passes(observed);
}

/// Remembers a temporary state of the server that is expected to pass, and when to check it again.
fn note_what_passes(observed: &mut Observation) {
    let (status, now) = (&observed.facts.status, observed.now);
    let seen = &mut observed.memory.observations;
    let is_read = matches!(observed.detail, Fact::Known(_));
    let detail = match &observed.detail {
        Fact::Known(detail) => &detail.fields,
        Fact::NotAsked if !seen.not_found => &status.detail,
        Fact::NotAsked | Fact::Unknown(_) => return,
        Fact::Absent => {
            seen.passing = None;
            return;
        }
    };
    let former = seen.passing.take().map(|passing| *passing);
    seen.passing = Passing::next(former, status, detail, now).map(Box::new);
    let passing = seen.passing.as_ref().filter(|_| !seen.unread);
    let look = passing.and_then(|passing| passing.look_again(seen.observed_at, now));
    if is_read || !observed.is_open() {
        // An open operation has its own schedule, and the read after its end comes soon.
        let looks = observed.look_again.into_iter().chain(look);
        observed.look_again = looks.min();
    }
}

/// How often to read the detail, and whether the spec sets this interval: then the detail is read regardless of the listing.
fn resync(observed: &Observation) -> (Duration, bool) {
    let period = observed.facts.spec.resync_period.as_deref();
    match period.and_then(resync_period) {
        Some(period) => (period, true),
        None => (times::RESYNC_DEFAULT, false),
    }
}

/// An operation that is not known to have ended.
async fn at_operation(
    observed: &mut Observation,
    session: &Access,
    context: &Context,
    id: ServerId,
    open: &Operation,
) {
    let verb = open.verb;
    let began = observed.memory.began(open);
    let attempt = observed.memory.call(open);
    let attempt = attempt.map(|attempt| (attempt.is_own, attempt.tries, attempt.since));
    let (idle_at, vanished) = as_listed(observed, &id, attempt.map(|(.., since)| since));
    let task = observed.task_id();
    if let Some(task) = &task {
        at_task(observed, session, context, verb, task, began).await;
    }
    let asked = observed
        .memory
        .observations
        .poll
        .as_ref()
        .and_then(|poll| poll.last);
    let ended = match &observed.task {
        Fact::Known(state) => state.is_final(),
        Fact::Absent => true,
        Fact::NotAsked | Fact::Unknown(_) => task.is_none(),
    };
    let just_ended = ended && asked == Some(observed.now);
    // A task without a useful answer must not hide that the server is done.
    let is_odd = observed
        .memory
        .observations
        .poll
        .as_ref()
        .is_some_and(|poll| poll.odd.is_some());
    // A server that was listed idle before the last query, which found its task running. For a newer row, the next query decides:
    // the task may have ended since the last one, and then the detail is read once, after that query.
    let contradicts = idle_at.is_some_and(|at| asked.is_some_and(|asked| at < asked));
    let tells = ended || vanished || is_odd || contradicts;
    let schedule = Schedule::of(session, verb);
    if just_ended || (tells && detail_is_due(observed, &id, schedule)) {
        at_detail(
            observed,
            session,
            context,
            id.clone(),
            CallPriority::Operation,
        )
        .await;
    }
    observed.look_again = look_again(observed, schedule).filter(|_| tells);
    as_shown(observed, session, id, attempt);
}

/// When a server with an open operation was listed, if the listing shows it idle, and whether the server has vanished. The
/// operation was first seen at `since`. A server that is listed as busy no longer counts as idle since an earlier time.
fn as_listed(
    observed: &mut Observation,
    id: &ServerId,
    since: Option<Instant>,
) -> (Option<Instant>, bool) {
    let listed = observed
        .listing
        .as_ref()
        .and_then(|listing| listing.row(id));
    let listed = listed.map(|(row, at)| (row.pending.clone(), at));
    if listed.as_ref().is_some_and(|(pending, at)| {
        let observed_at = observed.memory.observations.observed_at;
        !is_idle(pending.as_deref()) && observed_at.max(since).is_none_or(|known| *at > known)
    }) {
        observed.memory.observations.at_rest_since = None;
    }
    // A row without the field shows nothing, unlike a detail without it. A row from before the call does not count either.
    let idle_at = listed.and_then(|(pending, at)| {
        let is_new = since.is_none_or(|since| at > since);
        (is_new && pending.is_some() && is_idle(pending.as_deref())).then_some(at)
    });
    let vanished = is_listed_absent(observed, id, since);
    (idle_at, vanished)
}

/// Whether a listing that began after `since` lacks the server.
fn is_listed_absent(observed: &Observation, id: &ServerId, since: Option<Instant>) -> bool {
    let listed = observed.listed(id);
    listed.is_some_and(|(at, row)| row == RowDigest::Absent && since.is_none_or(|since| at > since))
}

/// Records what the detail shows of an open operation. `attempt`: whether it is ours, its number of calls, and when it was first
/// seen.
fn as_shown(
    observed: &mut Observation,
    session: &AccountSession,
    id: ServerId,
    attempt: Option<(bool, u32, Instant)>,
) {
    let (idle, busy) = match &observed.detail {
        Fact::Known(detail) => (is_idle(detail.pending()), !is_idle(detail.pending())),
        Fact::Absent => (false, false),
        Fact::NotAsked | Fact::Unknown(_) => return,
    };
    // The server is busy after our call, and no other call of ours is in progress: so the service accepted the call. A listing is
    // no evidence of that, since it may be older than it seems.
    let called = attempt.filter(|(is_own, tries, _)| *is_own && *tries > 0);
    let is_ours = observed.memory.calls.auxiliary.is_none()
        && called.is_some_and(|(.., since)| {
            observed.now > since && observed.now < since + session.settle
        });
    observed.memory.calls.pending_seen |= busy && is_ours;
    observed.memory.observations.at_rest_since = match observed.memory.observations.at_rest_since {
        Some(since) if idle => Some(since),
        _ => idle.then_some(observed.now),
    };
    if observed.create_failed().is_some()
        && matches!(observed.detail, Fact::Absent)
        && observed.now >= shown_by(observed, session)
    {
        observed.memory.is_gone(id, Gone::NotFound);
    }
}

/// From when on the service certainly shows a server of the recorded create.
fn shown_by(observed: &Observation, session: &AccountSession) -> Instant {
    let record = observed.facts.purchase();
    let attempt = record.and_then(|record| observed.memory.attempt(record));
    let since = attempt.map_or(observed.memory.origin.first_seen, |attempt| attempt.since);
    since + session.settle.min(times::FAILED_CREATE_SHOWS_WITHIN)
}

/// Reads the detail of the recorded server now.
pub(super) async fn at_recorded(observed: &mut Observation, session: &Access, context: &Context) {
    if let Some(id) = observed.facts.id() {
        at_detail(observed, session, context, id, CallPriority::Urgent).await;
    }
}

/// Reads the detail of the server that is to be imported.
pub(super) async fn at_candidate(
    observed: &mut Observation,
    session: &Access,
    context: &Context,
    id: &ServerId,
) {
    let asked = session.shared.client.detail(CallPriority::Operation, id);
    observed.candidate = match tokio::time::timeout(times::OBSERVE_DEADLINE, asked).await {
        Ok(Ok(detail)) => Fact::Known(detail),
        Ok(Err(error)) if error.is_no_such_instance() => Fact::Absent,
        Ok(Err(error)) => Fact::Unknown(trouble(observed, context, &error)),
        Err(_) => Fact::Unknown(NO_ROOM.to_owned()),
    };
}

/// Reads the leftover of a failed create until it is known to be gone.
async fn at_orphan(observed: &mut Observation, session: &Access, context: &Context, id: ServerId) {
    let shown_by = shown_by(observed, session);
    let is_shown = |at: Instant| at < shown_by && observed.now >= shown_by;
    let is_due = observed.has_not_looked_for(times::UNREADABLE_RETRY)
        || observed
            .memory
            .observations
            .observed_at
            .is_some_and(|at| is_led(observed, &id, at) || is_shown(at));
    if observed.memory.calls.gone.contains_key(&id) || !is_due {
        return;
    }
    at_detail(
        observed,
        session,
        context,
        id.clone(),
        CallPriority::Operation,
    )
    .await;
    if matches!(observed.detail, Fact::Absent) && observed.now >= shown_by {
        observed.memory.is_gone(id, Gone::NotFound);
    }
}

/// Whether to read the detail of a busy server again: on its schedule, and at once if the listing shows something new.
fn detail_is_due(observed: &Observation, id: &ServerId, schedule: Schedule) -> bool {
    let Some(observed_at) = observed.memory.observations.observed_at else {
        return true;
    };
    if tells_nothing(observed) {
        // A new listing does not make the detail readable.
        return observed.now >= observed_at + times::UNREADABLE_RETRY;
    }
    let age = observed
        .now
        .saturating_duration_since(worked_since(observed));
    is_led(observed, id, observed_at) || observed.now >= observed_at + schedule.pause(age)
}

/// Whether the detail cannot be read, or the task that would replace it gives no useful answer.
fn tells_nothing(observed: &Observation) -> bool {
    let poll = observed.memory.observations.poll.as_ref();
    observed.memory.observations.unread || poll.is_some_and(|poll| poll.odd.is_some())
}

/// When the server last got something to do, or when its task was found done.
fn worked_since(observed: &Observation) -> Instant {
    let memory = &observed.memory;
    let open = observed.open();
    let attempt = open.and_then(|open| memory.call(&open));
    let poll = memory
        .observations
        .poll
        .as_ref()
        .filter(|poll| poll.ended.is_some());
    let known = [
        attempt.map(|attempt| attempt.since),
        memory
            .calls
            .auxiliary
            .as_ref()
            .map(|auxiliary| auxiliary.at),
        poll.and_then(|poll| poll.last),
    ];
    known.into_iter().flatten().max().unwrap_or(observed.now)
}

/// When to read a server again whose task is done or unknown. While it is busy, as often as a task would be queried; while the
/// task is done and the effect does not show, less and less often.
fn look_again(observed: &Observation, schedule: Schedule) -> Option<Instant> {
    let observed_at = observed.memory.observations.observed_at?;
    if tells_nothing(observed)
        || observed.memory.observations.not_found
        || is_given_nothing(observed)
    {
        return None;
    }
    let age = observed
        .now
        .saturating_duration_since(worked_since(observed));
    let poll = observed.memory.observations.poll.as_ref();
    match observed.memory.observations.at_rest_since {
        None => Some(observed_at + schedule.pause(age)),
        Some(_) if poll.is_some_and(|poll| poll.ended.is_some()) => {
            Some(observed_at + schedule.pause(3 * age))
        }
        Some(_) => None,
    }
}

/// Whether the service refused the call of the recorded operation, and no auxiliary call was made since.
fn is_given_nothing(observed: &Observation) -> bool {
    let open = observed.open();
    let attempt = open.and_then(|open| observed.memory.call(&open));
    let is_refused = attempt.is_some_and(|it| matches!(it.call_state, CallState::Refused { .. }));
    is_refused && observed.memory.calls.auxiliary.is_none()
}

/// Whether the listing shows something new since the detail was last read.
fn is_led(observed: &Observation, id: &ServerId, observed_at: Instant) -> bool {
    let listed = observed.listed(id);
    listed.is_some_and(|(at, row)| {
        at > observed_at && observed.memory.observations.listed != Some(row)
    })
}

/// Whether the listing is a reason to read the detail: it differs from status, shows too little, or lacks the server. A listing
/// without changes costs no call.
fn needs_detail(observed: &Observation, id: &ServerId) -> bool {
    let detail = &observed.facts.status.detail;
    let (period, is_asked_for) = resync(observed);
    let known = observed
        .memory
        .observations
        .observed_at
        .unwrap_or(observed.memory.origin.first_seen);
    if is_asked_for && !observed.memory.observations.unread && observed.now >= known + period {
        return true;
    }
    let token = observed.memory.observations.reconcile.as_deref();
    if token.is_some_and(|(_, since)| {
        observed
            .memory
            .observations
            .observed_at
            .is_none_or(|observed_at| observed_at < *since)
    }) {
        return true;
    }
    let seen = &observed.memory.observations;
    let passing = seen.passing.as_ref().filter(|_| !seen.unread);
    if passing.is_some_and(|passing| passing.is_due(seen.observed_at, observed.now)) {
        return true;
    }
    let Some(observed_at) = observed.memory.observations.observed_at else {
        return match observed
            .listing
            .as_ref()
            .map(|listing| listing.sighting(id))
        {
            Some(Sighting::Present(row, _)) => {
                let old = observed.now >= observed.memory.origin.first_seen + period;
                detail.is_empty() || !row.agrees_with(detail) || (old && !row.tells_enough())
            }
            Some(Sighting::Absent { .. }) => true,
            Some(Sighting::Unknown(why)) => why == Why::BreakerOpen,
            None => false,
        };
    };
    if observed.memory.observations.unread {
        return observed.now >= observed_at + times::UNREADABLE_RETRY;
    }
    let old = observed.now >= observed_at + period;
    let pending = detail
        .get("ecsPendingStatus")
        .and_then(serde_json::Value::as_str);
    let busy = !is_idle(pending) && observed.now >= observed_at + times::UNREADABLE_RETRY;
    let event = |row| old || busy || observed.memory.observations.listed != Some(row);
    match observed
        .listing
        .as_ref()
        .map(|listing| listing.sighting(id))
    {
        Some(Sighting::Present(row, _)) if !detail.is_empty() && row.agrees_with(detail) => {
            busy || (old && !row.tells_enough())
        }
        Some(Sighting::Present(row, at)) => at > observed_at && event(RowDigest::Row(row.digest())),
        Some(Sighting::Absent { began }) => began > observed_at && event(RowDigest::Absent),
        Some(Sighting::Unknown(Why::BreakerOpen)) => {
            observed.now >= observed_at + times::OPEN_BREAKER_RECHECK
        }
        Some(Sighting::Unknown(_)) | None => false,
    }
}

/// Reads the progress of a release: its task, or the server itself, which shows the result even without the task.
pub(super) async fn at_release(observed: &mut Observation, session: &Access, context: &Context) {
    let Some(id) = observed.release_target() else {
        return;
    };
    let Some(call) = observed.memory.calls.releases.get(&id).cloned() else {
        return;
    };
    let is_absent = is_listed_absent(observed, &id, None);
    let waits = !call.accepted && call.not_before.is_some_and(|at| observed.now < at);
    if waits && !is_absent {
        // The release is retried at its time, and the server is read right before that.
        return;
    }
    let mut running = false;
    if let (true, Some(task)) = (call.accepted, call.task.clone()) {
        let poll = observed.memory.observations.poll.as_ref();
        let known = poll.is_some_and(|poll| poll.task == task && poll.ended.is_some());
        at_task(
            observed,
            session,
            context,
            Verb::Release,
            &task,
            Some(call.at),
        )
        .await;
        match observed.task {
            Fact::Known(TaskState::Succeeded) => {
                observed.memory.is_gone(id, Gone::Released);
                return;
            }
            Fact::Known(TaskState::Failed { .. }) if !known => {
                let wait = observed.memory.pace.backoff.fail();
                if let Some(call) = observed.memory.calls.releases.get_mut(&id) {
                    call.not_before = Some(observed.now + wait);
                }
            }
            Fact::Known(TaskState::Failed { .. }) | Fact::Absent => {}
            Fact::Known(_) | Fact::NotAsked | Fact::Unknown(_) => running = true,
        }
    }
    // A task that never ends or cannot be queried must not hide that the server is gone.
    let overdue = observed.now >= call.at + times::GONE_IS_CERTAIN_AFTER;
    if (!running || is_absent || overdue)
        && detail_is_due(observed, &id, Schedule::of(session, Verb::Release))
        // If no release is running, the schedule of running operations does not apply.
        && (call.accepted || is_absent || observed.has_not_looked_for(times::UNTAKEN_RELEASE_RECHECK))
    {
        at_detail(
            observed,
            session,
            context,
            id.clone(),
            CallPriority::Operation,
        )
        .await;
        if matches!(observed.detail, Fact::Absent) {
            observed.memory.is_gone(id, Gone::NotFound);
        }
    }
}

async fn at_task(
    observed: &mut Observation,
    session: &Access,
    context: &Context,
    verb: Verb,
    task: &TaskId,
    began: Option<Instant>,
) {
    observed.following = Some(verb);
    let poll = observed.memory.poll_of(task, began, observed.now);
    match &poll.ended {
        Some(Ended::As(state)) => {
            observed.task = Fact::Known(state.clone());
            return;
        }
        Some(Ended::Forgotten) => {
            observed.task = Fact::Absent;
            return;
        }
        None => {}
    }
    let mut schedule = Schedule::of(session, verb);
    if verb == Verb::Create && began.is_none() {
        // A process that did not see the create begin queries at once: while its task runs, no operation can have followed it.
        schedule = schedule.at_once();
    }
    // Task and detail must not be read more often because the other one gives no useful answer.
    let soon = poll.odd.is_some()
        && poll
            .last
            .is_some_and(|last| observed.now < last + times::UNREADABLE_RETRY);
    let is_due = !soon && schedule.is_due(poll, observed.now);
    if !is_due || !session.may_call(CallPriority::Operation) {
        if let Some(odd) = &poll.odd {
            observed.task = Fact::Unknown(odd.why.clone());
        }
        return;
    }
    let since = poll.since;
    let is_learnt = poll.whole;
    poll.last = Some(observed.now);
    let asked = tokio::time::timeout(
        times::OBSERVE_DEADLINE,
        session.shared.client.task(CallPriority::Operation, task),
    )
    .await;
    let took = Instant::now().duration_since(since);
    let state = match asked {
        Ok(Ok(report)) => Fact::Known(report.state),
        Ok(Err(error)) if error.is_no_such_task() => Fact::Absent,
        Ok(Err(error)) => Fact::Unknown(trouble(observed, context, &error)),
        Err(_) => Fact::Unknown(NO_ROOM.to_owned()),
    };
    if is_learnt && matches!(state, Fact::Known(TaskState::Succeeded)) {
        session.shared.task_took(verb, took);
    }
    if verb == Verb::Create && matches!(state, Fact::Known(TaskState::Running)) {
        runs(observed);
    }
    if let Some(poll) = &mut observed.memory.observations.poll {
        remember(poll, &state, observed.now);
    }
    observed.task = state;
}

/// The task of the create is running, so no operation has followed it.
fn runs(observed: &mut Observation) {
    if let Some(record) = observed.facts.purchase()
        && let Some(attempt) = observed.memory.calls.attempts.get_mut(&record.attempt)
    {
        attempt.is_newest = true;
    }
}

/// Updates the poll state with the answer.
fn remember(poll: &mut Poll, state: &Fact<TaskState>, now: Instant) {
    match state {
        Fact::Known(state) => {
            poll.odd = match state {
                TaskState::Unknown { word } => {
                    let why = format!("the service calls that {word}");
                    Some(odd(poll.odd.take(), why, now))
                }
                TaskState::Running | TaskState::Succeeded | TaskState::Failed { .. } => None,
            };
            if state.is_final() {
                poll.ended = Some(Ended::As(state.clone()));
            }
        }
        Fact::Absent => poll.ended = Some(Ended::Forgotten),
        Fact::Unknown(why) if why != NO_ROOM => {
            poll.odd = Some(odd(poll.odd.take(), why.clone(), now));
        }
        Fact::Unknown(_) | Fact::NotAsked => {}
    }
}

/// The task gives no useful answer, again or from now on.
fn odd(former: Option<Odd>, why: String, now: Instant) -> Odd {
    let since = former.map_or(now, |odd| odd.since);
    Odd { since, why }
}

async fn at_detail(
    observed: &mut Observation,
    session: &Access,
    context: &Context,
    id: ServerId,
    priority: CallPriority,
) {
    if !session.may_call(priority) {
        return;
    }
    observed.memory.observations.observed_at = Some(observed.now);
    let listed = observed.listed(&id);
    let asked = tokio::time::timeout(
        times::OBSERVE_DEADLINE,
        session.shared.client.detail(priority, &id),
    )
    .await;
    observed.memory.observations.unreached =
        matches!(&asked, Ok(Err(error)) if error.was_not_sent());
    observed.detail = match asked {
        Ok(Ok(mut detail)) => {
            let listing = observed.listing.as_ref();
            let row = listing.and_then(|listing| listing.row(&detail.id));
            let row = row.as_ref().map(|(row, _)| row.as_ref());
            expiry::add(&mut detail, row, &observed.facts.status);
            Fact::Known(detail)
        }
        Ok(Err(error)) if error.is_no_such_instance() => {
            session.shared.inventory.confirmed_gone(&id);
            Fact::Absent
        }
        Ok(Err(error)) => Fact::Unknown(trouble(observed, context, &error)),
        Err(_) => Fact::Unknown(NO_ROOM.to_owned()),
    };
    observed.memory.observations.unread = matches!(observed.detail, Fact::Unknown(_));
    observed.memory.observations.was_off =
        matches!(&observed.detail, Fact::Known(detail) if is_off(detail));
    if !observed.memory.observations.unread {
        // A listing from before the purchase cannot show the server, and is no reason to read the detail.
        let bought = observed.memory.newest_attempt();
        let listed = listed.filter(|(at, row)| {
            *row != RowDigest::Absent || bought.is_none_or(|bought| *at > bought)
        });
        observed.memory.observations.listed = listed.map(|(_, row)| row);
        observed.memory.observations.not_found = matches!(observed.detail, Fact::Absent);
        let since = observed
            .memory
            .observations
            .missing_since
            .unwrap_or(observed.now);
        observed.memory.observations.missing_since =
            observed.memory.observations.not_found.then_some(since);
    }
}

/// The error's message. A refused token also triggers a reconcile of the Account.
fn trouble(observed: &Observation, context: &Context, error: &Error) -> String {
    if error.is_unauthorized() {
        (context.doubt_account)(&observed.account_key);
    }
    error.to_string()
}
