//! The reads of a reconcile: the task, the server's detail. Each when it is due, each at most once.

use crate::api::{Operation, Verb, resync_period};
use crate::cloud::{Error, Lane, ServerId, TaskId, TaskState};
use crate::instance::context::Context;
use crate::instance::fact::Fact;
use crate::instance::memory::kinds::{Ended, Gone, Odd, Poll, Post};
use crate::instance::observation::{Observation, is_idle, is_off};
use crate::instance::poll_schedule::{Schedule, Sight};
use crate::instance::times;
use crate::inventory::{Sighting, Why};
use crate::session::{Access, AccountSession};
use std::time::Duration;
use tokio::time::Instant;

/// What stands in the way when the request limit is used up by others.
const NO_ROOM: &str = "the request limit left no room for a query";

/// Reads task and detail of the recorded server, when they are due.
pub(super) async fn at_server(seen: &mut Observation, session: &Access, context: &Context) {
    let Some(id) = seen.facts.id() else { return };
    if let Some(open) = seen.open() {
        at_operation(seen, session, context, id, &open).await;
    } else if seen.create_failed().is_some() {
        at_orphan(seen, session, context, id).await;
    } else if needs_detail(seen, &id) {
        at_detail(seen, session, context, id, Lane::Resync).await;
    }
}

/// How often the detail is read anew, and whether the spec says so: then it is read whatever the listing tells.
fn resync(seen: &Observation) -> (Duration, bool) {
    let period = seen.facts.spec.resync_period.as_deref();
    match period.and_then(resync_period) {
        Some(period) => (period, true),
        None => (times::RESYNC_DEFAULT, false),
    }
}

/// An operation that is not known to have ended.
async fn at_operation(
    seen: &mut Observation,
    session: &Access,
    context: &Context,
    id: ServerId,
    open: &Operation,
) {
    let verb = open.verb;
    let began = seen.memory.began(open);
    let attempt = seen.memory.call(open);
    let attempt = attempt.map(|attempt| (attempt.is_own, attempt.tries, attempt.since));
    let since = attempt.map(|(.., since)| since);
    let sight = seen.sight(&id);
    let listed = seen.listing.as_ref().and_then(|listing| listing.row(&id));
    let listed = listed.map(|(row, at)| (row.pending.clone(), at));
    if listed.as_ref().is_some_and(|(pending, at)| {
        let looked = seen.memory.looks.looked;
        !is_idle(pending.as_deref()) && looked.max(since).is_none_or(|known| *at > known)
    }) {
        seen.memory.looks.at_rest_since = None;
    }
    // A row without the field says nothing, other than a detail without it.
    let idle = listed.is_some_and(|(pending, _)| pending.is_some() && is_idle(pending.as_deref()));
    let idle = sight.filter(|_| idle);
    let vanished =
        sight.is_some_and(|sight| sight.digest == 0 && since.is_none_or(|since| sight.at > since));
    let task = seen.task_id();
    if let Some(task) = &task {
        at_task(seen, session, context, verb, task, began, idle).await;
    }
    let asked = seen.memory.looks.poll.as_ref().and_then(|poll| poll.last);
    let ended = match &seen.task {
        Fact::Known(state) => state.is_final(),
        Fact::Absent => true,
        Fact::NotAsked | Fact::Unknown(_) => task.is_none(),
    };
    let just_ended = ended && asked == Some(seen.now);
    // A task that tells nothing must not hide that the server is done.
    let is_odd = seen
        .memory
        .looks
        .poll
        .as_ref()
        .is_some_and(|poll| poll.odd.is_some());
    let tells = ended || vanished || is_odd || (idle.is_some() && asked.is_some());
    let schedule = Schedule::of(session, verb);
    if just_ended || (tells && detail_is_due(seen, &id, schedule)) {
        at_detail(seen, session, context, id.clone(), Lane::Operation).await;
    }
    seen.look_again = look_again(seen, schedule).filter(|_| tells);
    let (idle, busy) = match &seen.detail {
        Fact::Known(detail) => (is_idle(detail.pending()), !is_idle(detail.pending())),
        Fact::Absent => (false, false),
        Fact::NotAsked | Fact::Unknown(_) => return,
    };
    // The server is at work after our call, and nothing else of ours is under way: the service took the call. A listing is
    // no evidence of that: it may be older than it looks.
    let called = attempt.filter(|(is_own, tries, _)| *is_own && *tries > 0);
    let is_ours = seen.memory.calls.auxiliary.is_none()
        && called.is_some_and(|(.., since)| seen.now > since && seen.now < since + session.settle);
    seen.memory.calls.pending_seen |= busy && is_ours;
    seen.memory.looks.at_rest_since = match seen.memory.looks.at_rest_since {
        Some(since) if idle => Some(since),
        _ => idle.then_some(seen.now),
    };
    if seen.create_failed().is_some()
        && matches!(seen.detail, Fact::Absent)
        && seen.now >= shown_by(seen, session)
    {
        seen.memory.is_gone(id, Gone::NotFound);
    }
}

/// From when on the service shows what the recorded create made.
fn shown_by(seen: &Observation, session: &AccountSession) -> Instant {
    let record = seen.facts.purchase();
    let attempt = record.and_then(|record| seen.memory.attempt(record));
    let since = attempt.map_or(seen.memory.origin.first_seen, |attempt| attempt.since);
    since + session.settle.min(times::FAILED_CREATE_SHOWS_WITHIN)
}

/// Reads the detail of the recorded server, whatever its pace.
pub(super) async fn at_recorded(seen: &mut Observation, session: &Access, context: &Context) {
    if let Some(id) = seen.facts.id() {
        at_detail(seen, session, context, id, Lane::Urgent).await;
    }
}

/// Reads the detail of a server that is to be taken over.
pub(super) async fn at_candidate(
    seen: &mut Observation,
    session: &Access,
    context: &Context,
    id: &ServerId,
) {
    let asked = session.shared.client.detail(Lane::Operation, id);
    seen.candidate = match tokio::time::timeout(times::READ_DEADLINE, asked).await {
        Ok(Ok(detail)) => Fact::Known(detail),
        Ok(Err(error)) if error.is_no_such_instance() => Fact::Absent,
        Ok(Err(error)) => Fact::Unknown(trouble(seen, context, &error)),
        Err(_) => Fact::Unknown(NO_ROOM.to_owned()),
    };
}

/// What a failed create left behind, until it is known to be gone.
async fn at_orphan(seen: &mut Observation, session: &Access, context: &Context, id: ServerId) {
    let shown_by = shown_by(seen, session);
    let is_shown = |at: Instant| at < shown_by && seen.now >= shown_by;
    let is_due = seen.has_not_looked_for(times::UNREADABLE_RETRY)
        || seen
            .memory
            .looks
            .looked
            .is_some_and(|at| is_led(seen, &id, at) || is_shown(at));
    if seen.memory.calls.gone.contains_key(&id) || !is_due {
        return;
    }
    at_detail(seen, session, context, id.clone(), Lane::Operation).await;
    if matches!(seen.detail, Fact::Absent) && seen.now >= shown_by {
        seen.memory.is_gone(id, Gone::NotFound);
    }
}

/// Whether the detail of a server that is being worked on is read again: at its pace, and at once when the listing shows
/// something new.
fn detail_is_due(seen: &Observation, id: &ServerId, schedule: Schedule) -> bool {
    let Some(looked) = seen.memory.looks.looked else {
        return true;
    };
    if tells_nothing(seen) {
        // Listings do not make it readable.
        return seen.now >= looked + times::UNREADABLE_RETRY;
    }
    let age = seen.now.saturating_duration_since(worked_since(seen));
    is_led(seen, id, looked) || seen.now >= looked + schedule.pause(age)
}

/// Whether the detail cannot be read, or the task tells nothing that would do instead.
fn tells_nothing(seen: &Observation) -> bool {
    let poll = seen.memory.looks.poll.as_ref();
    seen.memory.looks.unread || poll.is_some_and(|poll| poll.odd.is_some())
}

/// When the server was last given something to do, or its task was found done.
fn worked_since(seen: &Observation) -> Instant {
    let memory = &seen.memory;
    let open = seen.open();
    let attempt = open.and_then(|open| memory.call(&open));
    let poll = memory
        .looks
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
    known.into_iter().flatten().max().unwrap_or(seen.now)
}

/// When the server is looked at again whose task is done or is not known: while it is seen at work, as often as a task is asked for;
/// while its task is done and it does not show it yet, less and less.
fn look_again(seen: &Observation, schedule: Schedule) -> Option<Instant> {
    let looked = seen.memory.looks.looked?;
    if tells_nothing(seen) || seen.memory.looks.not_found || is_given_nothing(seen) {
        return None;
    }
    let age = seen.now.saturating_duration_since(worked_since(seen));
    let poll = seen.memory.looks.poll.as_ref();
    match seen.memory.looks.at_rest_since {
        None => Some(looked + schedule.pause(age)),
        Some(_) if poll.is_some_and(|poll| poll.ended.is_some()) => {
            Some(looked + schedule.pause(3 * age))
        }
        Some(_) => None,
    }
}

/// Whether the service refused the call of the recorded operation, and no other one within it was made since.
fn is_given_nothing(seen: &Observation) -> bool {
    let open = seen.open();
    let attempt = open.and_then(|open| seen.memory.call(&open));
    let is_refused = attempt.is_some_and(|it| matches!(it.post, Post::Refused { .. }));
    is_refused && seen.memory.calls.auxiliary.is_none()
}

/// Whether the listing shows something that it did not show when the detail was read last.
fn is_led(seen: &Observation, id: &ServerId, looked: Instant) -> bool {
    let sight = seen.sight(id);
    sight.is_some_and(|sight| sight.at > looked && seen.memory.looks.led_by != Some(sight.digest))
}

/// Whether the listing gives a reason to read the detail: it shows something else than the status, or too little, or the
/// server is not in it. What the listing shows unchanged costs no call.
fn needs_detail(seen: &Observation, id: &ServerId) -> bool {
    let detail = &seen.facts.status.detail;
    let (period, is_asked_for) = resync(seen);
    let known = seen
        .memory
        .looks
        .looked
        .unwrap_or(seen.memory.origin.first_seen);
    if is_asked_for && !seen.memory.looks.unread && seen.now >= known + period {
        return true;
    }
    let token = seen.memory.looks.reconcile.as_ref();
    if token.is_some_and(|(_, since)| {
        seen.memory
            .looks
            .looked
            .is_none_or(|looked| looked < *since)
    }) {
        return true;
    }
    let Some(looked) = seen.memory.looks.looked else {
        return match seen.listing.as_ref().map(|listing| listing.sighting(id)) {
            Some(Sighting::Present(row, _)) => {
                let old = seen.now >= seen.memory.origin.first_seen + period;
                detail.is_empty() || !row.agrees_with(detail) || (old && !row.tells_enough())
            }
            Some(Sighting::Absent { .. }) => true,
            Some(Sighting::Unknown(why)) => why == Why::Frozen,
            None => false,
        };
    };
    if seen.memory.looks.unread {
        return seen.now >= looked + times::UNREADABLE_RETRY;
    }
    let old = seen.now >= looked + period;
    let pending = detail
        .get("ecsPendingStatus")
        .and_then(serde_json::Value::as_str);
    let busy = !is_idle(pending) && seen.now >= looked + times::UNREADABLE_RETRY;
    let event = |digest| old || busy || seen.memory.looks.led_by != Some(digest);
    match seen.listing.as_ref().map(|listing| listing.sighting(id)) {
        Some(Sighting::Present(row, _)) if !detail.is_empty() && row.agrees_with(detail) => {
            busy || (old && !row.tells_enough())
        }
        Some(Sighting::Present(row, at)) => at > looked && event(row.digest()),
        Some(Sighting::Absent { began }) => began > looked && event(0),
        Some(Sighting::Unknown(Why::Frozen)) => seen.now >= looked + times::FROZEN_LISTING_RECHECK,
        Some(Sighting::Unknown(_)) | None => false,
    }
}

/// Reads what became of a release: its task, or the server itself, which tells without the task too.
pub(super) async fn at_release(seen: &mut Observation, session: &Access, context: &Context) {
    let Some(id) = seen.release_target() else {
        return;
    };
    let Some(call) = seen.memory.calls.releases.get(&id).cloned() else {
        return;
    };
    let absent = seen.sight(&id).filter(|sight| sight.digest == 0);
    let waits = !call.accepted && call.not_before.is_some_and(|at| seen.now < at);
    if waits && absent.is_none() {
        // It is called again in its time, and looked at right before that.
        return;
    }
    let mut running = false;
    if let (true, Some(task)) = (call.accepted, call.task.clone()) {
        let poll = seen.memory.looks.poll.as_ref();
        let known = poll.is_some_and(|poll| poll.task == task && poll.ended.is_some());
        at_task(
            seen,
            session,
            context,
            Verb::Release,
            &task,
            Some(call.at),
            absent,
        )
        .await;
        match seen.task {
            Fact::Known(TaskState::Succeeded) => {
                seen.memory.is_gone(id, Gone::Released);
                return;
            }
            Fact::Known(TaskState::Failed { .. }) if !known => {
                let wait = seen.memory.pace.backoff.fail();
                if let Some(call) = seen.memory.calls.releases.get_mut(&id) {
                    call.not_before = Some(seen.now + wait);
                }
            }
            Fact::Known(TaskState::Failed { .. }) | Fact::Absent => {}
            Fact::Known(_) | Fact::NotAsked | Fact::Unknown(_) => running = true,
        }
    }
    // A task that never ends, or that cannot be asked for, must not hide that the server is gone.
    let overdue = seen.now >= call.at + times::GONE_IS_CERTAIN_AFTER;
    if (!running || absent.is_some() || overdue)
        && detail_is_due(seen, &id, Schedule::of(session, Verb::Release))
        // Where nothing runs yet, the pace of what runs is no matter.
        && (call.accepted || absent.is_some() || seen.has_not_looked_for(times::UNTAKEN_RELEASE_RECHECK))
    {
        at_detail(seen, session, context, id.clone(), Lane::Operation).await;
        if matches!(seen.detail, Fact::Absent) {
            seen.memory.is_gone(id, Gone::NotFound);
        }
    }
}

async fn at_task(
    seen: &mut Observation,
    session: &Access,
    context: &Context,
    verb: Verb,
    task: &TaskId,
    began: Option<Instant>,
    ended: Option<Sight>,
) {
    seen.following = Some(verb);
    let poll = seen.memory.poll_of(task, began, seen.now);
    match &poll.ended {
        Some(Ended::As(state)) => {
            seen.task = Fact::Known(state.clone());
            return;
        }
        Some(Ended::Forgotten) => {
            seen.task = Fact::Absent;
            return;
        }
        None => {}
    }
    let mut schedule = Schedule::of(session, verb);
    if verb == Verb::Create && began.is_none() {
        // A process that did not see it begin asks at once: while it runs, nothing can have come after it.
        schedule = schedule.at_once();
    }
    // Neither task nor detail may cost more because the other one tells nothing.
    let soon = poll.odd.is_some()
        && poll
            .last
            .is_some_and(|last| seen.now < last + times::UNREADABLE_RETRY);
    let is_due = !soon && schedule.is_due(poll, ended, seen.now);
    if !is_due || !session.may_call(Lane::Operation) {
        if let Some(odd) = &poll.odd {
            seen.task = Fact::Unknown(odd.why.clone());
        }
        return;
    }
    let since = poll.since;
    let running_at = poll.last.map(|last| last.duration_since(since));
    // Where nobody asked for long, or in vain, the task may have ended at any time: nothing is learnt from that.
    let asked_at = running_at.unwrap_or_default();
    let is_steady = seen.now < since + asked_at + 2 * schedule.pause(asked_at);
    let is_learnt = poll.whole && poll.odd.is_none() && is_steady;
    poll.last = Some(seen.now);
    poll.led_by = ended.map(|sight| sight.digest).or(poll.led_by);
    let asked = tokio::time::timeout(
        times::READ_DEADLINE,
        session.shared.client.task(Lane::Operation, task),
    )
    .await;
    let took = Instant::now().duration_since(since);
    let state = match asked {
        Ok(Ok(report)) => Fact::Known(report.state),
        Ok(Err(error)) if error.is_no_such_task() => Fact::Absent,
        Ok(Err(error)) => Fact::Unknown(trouble(seen, context, &error)),
        Err(_) => Fact::Unknown(NO_ROOM.to_owned()),
    };
    if is_learnt && matches!(state, Fact::Known(TaskState::Succeeded)) {
        session.shared.durations.was_done(verb, running_at, took);
    }
    if verb == Verb::Create && matches!(state, Fact::Known(TaskState::Running)) {
        runs(seen);
    }
    if let Some(poll) = &mut seen.memory.looks.poll {
        remember(poll, &state, seen.now);
    }
    seen.task = state;
}

/// The task of the create runs: nothing came after it.
fn runs(seen: &mut Observation) {
    if let Some(record) = seen.facts.purchase()
        && let Some(attempt) = seen.memory.calls.attempts.get_mut(&record.attempt)
    {
        attempt.is_newest = true;
    }
}

/// What a poll means for the next ones.
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

/// The task tells nothing, as before or from now on.
fn odd(former: Option<Odd>, why: String, now: Instant) -> Odd {
    let since = former.map_or(now, |odd| odd.since);
    Odd { since, why }
}

async fn at_detail(
    seen: &mut Observation,
    session: &Access,
    context: &Context,
    id: ServerId,
    lane: Lane,
) {
    if !session.may_call(lane) {
        return;
    }
    seen.memory.looks.looked = Some(seen.now);
    let sight = seen.sight(&id);
    let asked = tokio::time::timeout(
        times::READ_DEADLINE,
        session.shared.client.detail(lane, &id),
    )
    .await;
    seen.memory.looks.unreached = matches!(&asked, Ok(Err(error)) if error.was_not_sent());
    seen.detail = match asked {
        Ok(Ok(detail)) => Fact::Known(detail),
        Ok(Err(error)) if error.is_no_such_instance() => {
            session.shared.inventory.confirmed_gone(&id);
            Fact::Absent
        }
        Ok(Err(error)) => Fact::Unknown(trouble(seen, context, &error)),
        Err(_) => Fact::Unknown(NO_ROOM.to_owned()),
    };
    seen.memory.looks.unread = matches!(seen.detail, Fact::Unknown(_));
    seen.memory.looks.was_off = matches!(&seen.detail, Fact::Known(detail) if is_off(detail));
    if !seen.memory.looks.unread {
        // A listing from before the purchase cannot show the server, and leads to nothing.
        let bought = seen.memory.newest_attempt();
        let sight = sight
            .filter(|sight| sight.digest != 0 || bought.is_none_or(|bought| sight.at > bought));
        seen.memory.looks.led_by = sight.map(|sight| sight.digest);
        seen.memory.looks.not_found = matches!(seen.detail, Fact::Absent);
        let since = seen.memory.looks.missing_since.unwrap_or(seen.now);
        seen.memory.looks.missing_since = seen.memory.looks.not_found.then_some(since);
    }
}

/// An error's words; a refused token is also a matter of the Account.
fn trouble(seen: &Observation, context: &Context, error: &Error) -> String {
    if error.is_unauthorized() {
        (context.doubt_account)(&seen.account_key);
    }
    error.to_string()
}
