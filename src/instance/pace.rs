//! When to ask for a task: after the time that such tasks have taken lately, so that one query is enough.

use crate::api::Verb;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// First guess (design section 9): clients poll every 3 to 30 s (field note 17).
const FIRST_GUESS: Duration = Duration::from_secs(3);
/// Never sooner: the task has only just been accepted.
const SOONEST: Duration = Duration::from_millis(500);
/// At most one query an object in this time, unless the listing shows that something ended.
pub const AGAIN: Duration = Duration::from_secs(10);
/// Longest wait of a turn for the request limit. Longer than a burst needs, and short enough that the turn has time left
/// for its record, its call and its receipt.
pub const ADMISSION: Duration = Duration::from_secs(20);
/// The search for the duration ends when the two bounds are this close, as a part of the upper one.
const CLOSE: f64 = 0.15;

/// What is known of the duration of one verb's tasks: not shorter than `early`, done by `late`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bounds {
    early: Duration,
    late: Duration,
}

impl Bounds {
    const UNKNOWN: Self = Self {
        early: Duration::ZERO,
        late: FIRST_GUESS,
    };

    /// When to ask first. Between the bounds, until they are close; then at the upper one.
    fn first_query(self, learnt: bool) -> Duration {
        let gap = self.late.saturating_sub(self.early);
        if !learnt || gap.as_secs_f64() <= self.late.as_secs_f64() * CLOSE {
            return self.late.max(SOONEST);
        }
        (self.early + gap / 2).max(SOONEST)
    }

    /// A task was still running this long after it began.
    fn was_running(&mut self, after: Duration) {
        self.early = self.early.max(after);
        self.late = self.late.max(self.early);
    }

    /// A task was found done this long after it began. `first` says that no earlier query had found it running.
    fn was_done(&mut self, after: Duration, first: bool) {
        if first {
            self.late = self.late.min(after.max(SOONEST));
        } else {
            self.late = after;
        }
        // Tasks became quicker than they used to be: search again below.
        self.early = self.early.min(self.late);
        if first && self.early == self.late {
            self.early = self.late.mul_f64(1.0 - 2.0 * CLOSE);
        }
    }
}

/// The learnt durations of one service, by verb; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    learnt: Arc<Mutex<HashMap<Verb, Bounds>>>,
}

impl Pace {
    /// How long after its beginning a task is asked for first.
    pub fn first_query(&self, verb: Verb) -> Duration {
        let learnt = self.learnt.lock().unwrap_or_else(PoisonError::into_inner);
        learnt
            .get(&verb)
            .map_or(FIRST_GUESS, |bounds| bounds.first_query(true))
    }

    /// A query found the task running.
    pub fn was_running(&self, verb: Verb, after: Duration) {
        self.update(verb, |bounds| bounds.was_running(after));
    }

    /// A query found the task done.
    pub fn was_done(&self, verb: Verb, after: Duration, first: bool) {
        self.update(verb, |bounds| bounds.was_done(after, first));
    }

    fn update(&self, verb: Verb, change: impl FnOnce(&mut Bounds)) {
        let mut learnt = self.learnt.lock().unwrap_or_else(PoisonError::into_inner);
        change(learnt.entry(verb).or_insert(Bounds::UNKNOWN));
    }
}

/// Whether a query is due: first after the learnt time, then once in [`AGAIN`], and at once when the listing, read after
/// the last query, shows that the operation seems to have ended.
pub fn is_due(
    since: Instant,
    last: Option<Instant>,
    first_query: Duration,
    ended_seen: Option<Instant>,
    now: Instant,
) -> bool {
    let led = ended_seen.is_some_and(|seen| seen > last.unwrap_or(since));
    match last {
        None => led || now >= since + first_query,
        Some(last) => led || now >= last + AGAIN,
    }
}

/// How long until the next query of this task is due by time.
pub fn due_in(poll: &super::memory::Poll, pace: &Pace, verb: Verb, now: Instant) -> Duration {
    let due = poll
        .last
        .map_or(poll.since + pace.first_query(verb), |last| last + AGAIN);
    due.saturating_duration_since(now)
        .max(Duration::from_millis(50))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks as the operator does, for tasks that take `task`; gives the queries and the delay of each of `n` tasks.
    fn ask(pace: &Pace, task: Duration, n: usize) -> Vec<(u32, Duration)> {
        (0..n)
            .map(|_| {
                let (mut at, mut queries) = (pace.first_query(Verb::Create), 1);
                while at < task {
                    pace.was_running(Verb::Create, at);
                    at += Duration::from_secs(5);
                    queries += 1;
                }
                pace.was_done(Verb::Create, at, queries == 1);
                (queries, at - task)
            })
            .collect()
    }

    #[test]
    fn one_query_close_to_the_end_is_learnt_for_short_and_long_tasks() {
        for task in [1, 5, 20, 61].map(Duration::from_secs) {
            let pace = Pace::default();
            ask(&pace, task, 12);
            let later = ask(&pace, task, 8);
            let queries: u32 = later.iter().map(|(queries, _)| queries).sum();
            assert!(queries <= 10, "{task:?}: {later:?}");
            assert!(
                later
                    .iter()
                    .all(|(q, late)| *q > 1 || *late <= task.mul_f64(0.5)),
                "{task:?}: {later:?}"
            );
        }
    }

    #[test]
    fn a_query_is_due_by_time_or_when_the_listing_says_so() {
        let t0 = Instant::now();
        let after = |s| t0 + Duration::from_secs(s);
        let guess = Duration::from_secs(3);
        assert!(!is_due(t0, None, guess, None, after(2)));
        assert!(is_due(t0, None, guess, None, after(3)));
        assert!(
            is_due(t0, None, guess, Some(after(1)), after(2)),
            "led by the listing"
        );
        assert!(
            !is_due(t0, Some(after(3)), guess, Some(after(2)), after(12)),
            "a sight from before the query tells nothing"
        );
        assert!(is_due(t0, Some(after(3)), guess, None, after(13)));
    }
}
