//! Which read of task or detail is due, and when the next one will be: pure rules over an observation.
//!
//! The detail is read again after a pause that depends on the situation (the table below), or at once if the listing shows a
//! change; while a task is followed, usually once it has ended. A failed read is repeated after its own pause, regardless of the
//! listing.
//!
//! | Situation | Pause |
//! |---|---|
//! | an operation or an accepted release is in progress | a fifth of its age ([`PollSchedule`](crate::instance::poll_schedule)) |
//! | the server of an operation is missing | the same, at least `UNREADABLE_RETRY` |
//! | the service refused the operation | `SERVER_BUSY_RECHECK` |
//! | the release failed, or the service did not accept it | `UNTAKEN_RELEASE_RECHECK`, after the pause of the release |
//! | a failed create left something behind | `UNREADABLE_RETRY` |
//! | nothing of ours is in progress, and the server is busy | `UNREADABLE_RETRY` |
//! | the server is in a temporary state | half of the time that the state has lasted |
//! | the server is not listed, and the circuit breaker of its zone is open | `OPEN_BREAKER_RECHECK` |
//! | the listing shows too little, or differs from the detail | `spec.resyncPeriod`, or `RESYNC_DEFAULT` |
//! | the listing agrees with status | `spec.resyncPeriod`, or none |

use crate::api::{Operation, resync_period};
use crate::cloud::{CallPriority, ServerId, TaskState};
use crate::instance::fact::Fact;
use crate::instance::memory::call::CallState;
use crate::instance::memory::look::{LastAnswer, RowDigest};
use crate::instance::observation::{Observation, is_idle, pending};
use crate::instance::plan::step::NeededRead;
use crate::instance::times;
use crate::inventory::{NoEvidence, Sighting};
use std::time::Duration;
use tokio::time::Instant;

/// The read that is due now. The task comes first, since its end makes a read of the detail due.
pub(super) fn due(observed: &Observation) -> Option<NeededRead> {
    let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= observed.now);
    let task = is_due(task_at(observed)).then_some(NeededRead::Task);
    task.or_else(|| is_due(detail_at(observed)).then_some(NeededRead::Detail))
}

/// When the next read is due.
pub fn next_at(observed: &Observation) -> Option<Instant> {
    let both = [task_at(observed), detail_at(observed)];
    both.into_iter().flatten().min()
}

/// The priority of the reads that are due.
pub(super) fn priority(observed: &Observation) -> CallPriority {
    let is_steady =
        !observed.facts.deleting && !observed.is_open() && observed.create_failed().is_none();
    match is_steady {
        true => CallPriority::Resync,
        false => CallPriority::Operation,
    }
}

/// The server whose detail is read.
pub(super) fn server(observed: &Observation) -> Option<ServerId> {
    match observed.facts.deleting {
        true => observed.release_target(),
        false => observed.facts.id(),
    }
}

/// From when on the service certainly shows a server of the recorded create.
pub(super) fn leftover_shown_by(observed: &Observation) -> Instant {
    let record = observed.facts.purchase();
    let attempt = record.and_then(|record| observed.memory.attempt(record));
    let since = attempt.map_or(observed.memory.origin.since, |attempt| attempt.since);
    since + times::FAILED_CREATE_SHOWS_WITHIN
}

fn task_at(observed: &Observation) -> Option<Instant> {
    observed.listing.as_ref()?;
    let poll = observed.memory.observations.poll.as_ref();
    let poll = poll.filter(|poll| !poll.is_over())?;
    Some(observed.schedule.due_at(poll))
}

fn detail_at(observed: &Observation) -> Option<Instant> {
    observed.listing.as_ref()?;
    let id = server(observed)?;
    if observed.facts.deleting {
        return release_at(observed, &id);
    }
    match observed.open() {
        Some(open) => operation_at(observed, &open, &id),
        None if observed.create_failed().is_some() => leftover_at(observed, &id),
        None => steady_at(observed, &id),
    }
}

/// The task of the release shows its end, or else the server does.
fn release_at(observed: &Observation, id: &ServerId) -> Option<Instant> {
    let call = observed.memory.release_call(id)?;
    let poll = observed.memory.observations.poll.as_ref();
    let has_failed = matches!(observed.task, Fact::Known(TaskState::Failed { .. }));
    let is_in_progress = call.accepted && !has_failed;
    let is_absent = is_listed_absent(observed, id, None);
    if !is_in_progress && !is_absent && call.not_before.is_some_and(|at| observed.now < at) {
        // The server is read right before the release is called again.
        return None;
    }
    let pause = match is_in_progress {
        true => observed.schedule.pause(observed.now - call.at),
        false => times::UNTAKEN_RELEASE_RECHECK,
    };
    let at = again(observed, id, pause);
    // A task that never ends or cannot be queried must not hide that the server is gone.
    let overdue = call.at + times::GONE_IS_CERTAIN_AFTER;
    let is_queried = poll.is_some_and(|poll| !poll.is_over()) && !is_absent;
    Some(if is_queried { at.max(overdue) } else { at })
}

/// An operation is followed by its task. The detail is read once after the task has ended, and again while it does not show the
/// effect. It is also read if there is no task, if the queries for it are inconclusive, or if the listing contradicts it.
fn operation_at(observed: &Observation, open: &Operation, id: &ServerId) -> Option<Instant> {
    let (memory, look) = (&observed.memory, observed.look());
    let attempt = memory.call_of(open);
    let since = attempt.map(|attempt| attempt.since);
    let poll = memory.observations.poll.as_ref();
    let ended_at = poll.filter(|poll| poll.is_over()).and_then(|it| it.last);
    // A newer row shows nothing: the task may have ended since the last query, and the next one decides.
    let is_listed_idle = |asked: Instant| {
        let row = observed.listing.as_ref()?.row(id);
        let (row, at) = row.filter(|(_, at)| since.is_none_or(|since| *at > since))?;
        // A row without the field shows nothing, unlike a detail without it.
        Some(at < asked && row.pending.is_some() && is_idle(row.pending.as_deref()))
    };
    let is_listed_absent = is_listed_absent(observed, id, since);
    let shows_end = ended_at.is_some()
        || is_listed_absent
        || poll.is_none_or(|poll| {
            let asked = poll.last.and_then(is_listed_idle);
            poll.inconclusive_since.is_some() || asked == Some(true)
        });
    if !shows_end {
        return None;
    }
    if ended_at.is_some_and(|ended| look.at.is_none_or(|at| at < ended)) {
        return Some(observed.now);
    }
    let is_refused = attempt.is_some_and(|it| matches!(it.state, CallState::Refused { .. }));
    let pause = match is_refused {
        true => times::SERVER_BUSY_RECHECK,
        false => {
            let begun = [since, ended_at].into_iter().flatten().max();
            let begun = begun.unwrap_or(observed.now);
            observed
                .schedule
                .pause(observed.now.saturating_duration_since(begun))
        }
    };
    let is_missing = look.is_absent() && is_listed_absent;
    let shortest = is_missing.then_some(times::UNREADABLE_RETRY);
    Some(again(observed, id, pause.max(shortest.unwrap_or_default())))
}

/// When to read the server that a failed create left behind, until it is gone. Its absence counts only after some time, so one
/// read is due then.
fn leftover_at(observed: &Observation, id: &ServerId) -> Option<Instant> {
    if observed.memory.gone(id).is_some() {
        return None;
    }
    let shown_by = leftover_shown_by(observed);
    let at = again(observed, id, times::UNREADABLE_RETRY);
    let is_early = observed.look().at.is_some_and(|at| at < shown_by);
    Some(if is_early { at.min(shown_by) } else { at })
}

/// Nothing of ours is in progress. A listing without changes costs no call.
fn steady_at(observed: &Observation, id: &ServerId) -> Option<Instant> {
    let (memory, look) = (&observed.memory, observed.look());
    let requested = memory.observations.reconcile.as_deref();
    if requested.is_some_and(|(_, since)| look.at.is_none_or(|at| at < *since)) {
        return Some(observed.now);
    }
    if let Some(at) = look.at.filter(|_| look.is_unreadable) {
        return Some(at + times::UNREADABLE_RETRY);
    }
    // The last answer is not in status.
    if look.at.is_none() && look.answer != LastAnswer::None {
        return Some(observed.now);
    }
    let last = look.at.unwrap_or(memory.origin.since);
    let spec = &observed.facts.spec;
    let period = spec.resync_period.as_deref().and_then(resync_period);
    let detail = &observed.facts.status.detail;
    let is_busy = !is_idle(pending(detail));
    let regular = last + period.unwrap_or(times::RESYNC_DEFAULT);
    let sighting = observed.listing.as_ref()?.sighting(id);
    let by_listing = match sighting {
        Sighting::Present(row, _) if !detail.is_empty() && row.agrees_with(detail) => {
            (!row.shows_enough()).then_some(regular)
        }
        Sighting::Present(..) | Sighting::Absent { .. } if shows_news(observed, id) => {
            Some(observed.now)
        }
        Sighting::Present(..) | Sighting::Absent { .. } => Some(regular),
        Sighting::Unknown(NoEvidence::BreakerOpen) => {
            let again = look.at.map(|at| at + times::OPEN_BREAKER_RECHECK);
            Some(again.unwrap_or(observed.now))
        }
        Sighting::Unknown(_) => None,
    };
    let temporary = observed.temporary();
    let due = [
        period.map(|_| regular),
        is_busy.then(|| last + times::UNREADABLE_RETRY),
        temporary.and_then(|temporary| temporary.read_at(look.at)),
        by_listing,
    ];
    due.into_iter().flatten().min()
}

/// When to read the detail again, with this pause between two reads.
fn again(observed: &Observation, id: &ServerId, pause: Duration) -> Instant {
    let look = observed.look();
    let poll = observed.memory.observations.poll.as_ref();
    let is_inconclusive = poll.is_some_and(|poll| poll.inconclusive_since.is_some());
    match look.at {
        None => observed.now,
        // A new listing does not make the detail readable. Task and detail must not be read more often because the other one
        // gives no useful answer.
        Some(at) if look.is_unreadable || is_inconclusive => at + times::UNREADABLE_RETRY,
        Some(_) if shows_news(observed, id) => observed.now,
        Some(at) => at + pause,
    }
}

/// Whether the listing shows something new since the detail was last read.
fn shows_news(observed: &Observation, id: &ServerId) -> bool {
    let look = observed.look();
    observed
        .listed(id)
        .is_some_and(|(at, row)| look.at.is_none_or(|last| at > last) && look.row != Some(row))
}

/// Whether a listing that began after `since` lacks the server.
fn is_listed_absent(observed: &Observation, id: &ServerId, since: Option<Instant>) -> bool {
    let listed = observed.listed(id);
    listed.is_some_and(|(at, row)| row == RowDigest::Absent && since.is_none_or(|since| at > since))
}
