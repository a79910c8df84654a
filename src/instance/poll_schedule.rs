//! When to query a task: the pauses grow with its age.

use crate::api::Verb;
use crate::instance::memory::look::Poll;
use crate::instance::times;
use crate::session::AccountSession;
use std::time::Duration;
use tokio::time::Instant;

/// A pause is the age divided by this. With the query and the read after it, an end is noticed within 1.5 s or a quarter of
/// the task's duration, whichever is longer, unless many operations share the request limit.
const AGE_DIVISOR: u32 = 5;
/// The queries of all operations together take at most this part of the request limit, apart from those around the expected end.
const SHARE_OF_RATE: f64 = 0.8;
/// If many operations share the request limit, a task is queried shortly before and shortly after the time that the last task of
/// its verb took. The first query finds a task that was a little quicker, the second one finds a task that was a little slower, so
/// the known time follows tasks that get shorter or longer.
const AROUND_END: [f64; 2] = [0.95, 1.05];
/// The operator waits for such a query at most this many times `PollSchedule::spread`, since the task may end much sooner than the
/// last one.
const WAIT_MAX_SPREADS: u32 = 2;

/// When to query the task of an operation. Times count from the instant at which the call was accepted, or at which a
/// process that took over first saw the task.
///
/// A task of 1, 15, 60 or 600 s takes at most 1, 11, 18 or 32 queries: one more for each 1.2 s up to 6 s, then one more for
/// each fifth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PollSchedule {
    /// How long the last task of this verb took. If this is unknown, the first query is due as for a quick task.
    last_took: Option<Duration>,
    /// The time that one query of each operation in progress takes, at their part of the request limit.
    spread: Duration,
}

impl PollSchedule {
    /// The schedule of a verb at the service of this account session, for the current number of operations.
    pub fn of(account_session: &AccountSession, verb: Verb) -> Self {
        let session = &account_session.shared;
        let per_second = session.client.limiter().per_second() * SHARE_OF_RATE;
        let running = u32::try_from(session.inventory.followed()).unwrap_or(u32::MAX);
        let spread = Duration::try_from_secs_f64(f64::from(running) / per_second);
        Self {
            last_took: session.last_took(verb),
            spread: spread
                .unwrap_or(times::TASK_QUERY_MAX)
                .min(times::TASK_QUERY_MAX),
        }
    }

    /// The pause between two queries of an operation of this age.
    pub fn pause(&self, age: Duration) -> Duration {
        (age / AGE_DIVISOR)
            .clamp(times::TASK_QUERY_MIN, times::TASK_QUERY_MAX)
            .max(self.spread)
    }

    /// The age of the task at which the next query is due; `last` is the age at the last query, if there was one.
    pub fn next(&self, last: Option<Duration>) -> Duration {
        let is_busy = self.spread > times::TASK_QUERY_MIN;
        let took = self.last_took.or(last.is_none().then_some(Duration::ZERO));
        let last = last.unwrap_or_default();
        let mut around = (took.filter(|_| is_busy).into_iter())
            .flat_map(|took| AROUND_END.map(|part| took.mul_f64(part).max(times::TASK_QUERY_MIN)));
        let latest = last + self.spread * WAIT_MAX_SPREADS;
        around
            .find(|at| *at > last)
            .filter(|at| *at <= latest)
            .unwrap_or_else(|| last + self.pause(last))
    }

    /// When to query this task next. If this process did not see the task begin, at once: while the task of a create runs, no
    /// operation can have followed the create.
    pub fn due_at(&self, poll: &Poll) -> Instant {
        let last = match poll.last {
            None if !poll.seen_begin => return poll.since,
            last => last.map(|last| last.duration_since(poll.since)),
        };
        let due = poll.since + self.next(last);
        let inconclusive = poll.last.filter(|_| poll.inconclusive_since.is_some());
        inconclusive.map_or(due, |last| due.max(last + times::UNREADABLE_RETRY))
    }
}

#[cfg(test)]
mod tests;
