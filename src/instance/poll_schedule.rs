//! When to query a task: the pauses grow with its age, and one query is made when the task is expected to end.

use crate::api::Verb;
use crate::instance::memory::kinds::Poll;
use crate::instance::times;
use crate::session::AccountSession;
use std::time::Duration;
use tokio::time::Instant;

/// A pause is the age divided by this. With the query and the read after it, an end is noticed within a tenth of the task's
/// duration.
const PART: u32 = 12;
/// The queries of all operations together take at most this part of the request limit.
const SHARE: f64 = 0.8;
/// If many operations share the request limit, a query waits for the expected end if that is at most this many shares away.
const PATIENT: u32 = 2;

/// When to query the task of an operation. Times count from the instant at which the call was accepted.
///
/// A task of 1, 15, 60 or 600 s takes at most 1, 13, 30 or 59 queries: one more for each 1.2 s up to 14 s, then one more for each
/// twelfth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Schedule {
    /// When a task of this verb is expected to end, if known from earlier ones.
    expected: Option<Duration>,
    /// The time that one query of each operation in progress takes, at their part of the request limit.
    spread: Duration,
    /// Whether the first query is made at once.
    is_at_once: bool,
}

impl Schedule {
    /// The schedule of a verb at the service of this account session, for the current number of operations.
    pub fn of(account_session: &AccountSession, verb: Verb) -> Self {
        let session = &account_session.shared;
        let per_second = session.client.limiter().per_second() * SHARE;
        let running = u32::try_from(session.inventory.followed()).unwrap_or(u32::MAX);
        let spread = Duration::try_from_secs_f64(f64::from(running) / per_second);
        Self {
            expected: session.durations.expected(verb),
            spread: spread
                .unwrap_or(times::TASK_QUERY_MAX)
                .min(times::TASK_QUERY_MAX),
            is_at_once: false,
        }
    }

    /// The same, with the first query at once.
    #[must_use]
    pub fn at_once(self) -> Self {
        Self {
            is_at_once: true,
            ..self
        }
    }

    /// The pause between two queries of an operation of this age.
    pub fn pause(&self, age: Duration) -> Duration {
        (age / PART)
            .clamp(times::TASK_QUERY_MIN, times::TASK_QUERY_MAX)
            .max(self.spread)
    }

    /// When the next query is due after the last one, if there was one.
    pub fn next(&self, last: Option<Duration>) -> Duration {
        if self.is_at_once && last.is_none() {
            return Duration::ZERO;
        }
        let known = last.unwrap_or_default();
        let regular = known + self.pause(known);
        let Some(expected) = self.expected else {
            return regular;
        };
        if self.spread > times::TASK_QUERY_MIN {
            // Many operations share the request limit: one query at the expected end is worth more than an earlier one.
            let comes = expected > known && expected <= known + self.spread * PATIENT;
            return if comes { expected } else { regular };
        }
        let soonest = last.map_or(Duration::ZERO, |last| last + times::TASK_QUERY_APART);
        let missed = last.filter(|last| {
            *last >= expected && *last < expected + times::TASK_QUERY_AFTER_EXPECTED
        });
        let extra = match missed {
            Some(last) => last + times::TASK_QUERY_AFTER_EXPECTED,
            None if expected >= soonest => expected,
            None => return regular,
        };
        regular.min(extra)
    }

    /// The time until the next query of this task is due.
    pub fn due_in(&self, poll: &Poll, now: Instant) -> Duration {
        self.due_at(poll)
            .saturating_duration_since(now)
            .max(times::TASK_QUERY_APART)
    }

    /// Whether a query is due: by time, or because a new listing shows for the first time that the operation seems to have ended.
    pub fn is_due(&self, poll: &Poll, ended: Option<Sight>, now: Instant) -> bool {
        let led = ended.is_some_and(|sight| {
            sight.at > poll.last.unwrap_or(poll.since) && poll.led_by != Some(sight.digest)
        });
        led || now >= self.due_at(poll)
    }

    fn due_at(&self, poll: &Poll) -> Instant {
        let last = poll.last.map(|last| last.duration_since(poll.since));
        poll.since + self.next(last)
    }
}

/// A server in a listing, in short: a digest of its row, or of its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// When it was listed.
    pub at: Instant,
    pub digest: u64,
}

#[cfg(test)]
mod tests;
