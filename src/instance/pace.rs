//! When to ask for a task: after the time that such tasks have taken lately, so that one query is enough.

use super::memory::Poll;
use crate::api::Verb;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// First guess (design section 9): clients poll every 3 to 30 s (field note 17).
const FIRST_GUESS: Duration = Duration::from_secs(3);
/// Never sooner: the task has only just been accepted.
const SOONEST: Duration = Duration::from_millis(500);
/// Never later: one task that took long, or did not end, must not hide what becomes of the next.
const LATEST: Duration = Duration::from_secs(120);
/// At most one query an object in this time, unless the listing shows that something ended.
pub const AGAIN: Duration = Duration::from_secs(10);
/// The same for an operation that takes long: it is not asked for more often than anybody would notice.
const AGAIN_LATER: [(Duration, Duration); 2] = [
    (Duration::from_secs(30 * 60), Duration::from_secs(60)),
    (Duration::from_secs(5 * 60), Duration::from_secs(20)),
];
/// Longest wait after a failure whose cause is a dependency (the service or the apiserver is down): within 30 s after it is
/// back, everything goes on.
pub const DEPENDENCY: Duration = Duration::from_secs(20);
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
        let first = learnt.get(&verb).map(|bounds| bounds.first_query(true));
        first.unwrap_or(FIRST_GUESS).min(LATEST)
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

/// How long after the last query the next one comes, for an operation of this age.
pub fn again(age: Duration) -> Duration {
    AGAIN_LATER
        .iter()
        .find(|(old, _)| age >= *old)
        .map_or(AGAIN, |(_, again)| *again)
}

/// What a listing shows of a server, and when: a digest of its row, or of its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// When it was seen.
    pub at: Instant,
    /// What it looked like.
    pub digest: u64,
}

/// Whether a query is due: first after the learnt time, then at the pace of [`again`], and at once when the listing shows
/// for the first time that the operation seems to have ended.
pub fn is_due(poll: &Poll, first_query: Duration, ended: Option<Sight>, now: Instant) -> bool {
    let led = ended.is_some_and(|sight| {
        sight.at > poll.last.unwrap_or(poll.since) && poll.led_by != Some(sight.digest)
    });
    led || now >= due_at(poll, first_query)
}

/// When the next query of a task is due by time.
fn due_at(poll: &Poll, first_query: Duration) -> Instant {
    poll.last.map_or(poll.since + first_query, |last| {
        last + again(last.duration_since(poll.since))
    })
}

/// How long until the next query of this task is due by time.
pub fn due_in(poll: &Poll, pace: &Pace, verb: Verb, now: Instant) -> Duration {
    let due = due_at(poll, pace.first_query(verb));
    due.saturating_duration_since(now)
        .max(Duration::from_millis(200))
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
    fn a_query_is_due_by_time_or_when_the_listing_says_so_for_the_first_time() {
        let t0 = Instant::now();
        let after = |s| t0 + Duration::from_secs(s);
        let guess = Duration::from_secs(3);
        let poll = |last: Option<u64>, led_by| Poll {
            task: crate::cloud::TaskId::from("t"),
            since: t0,
            whole: true,
            last: last.map(after),
            ended: None,
            led_by,
            odd: None,
        };
        let seen = |s, digest| {
            Some(Sight {
                at: after(s),
                digest,
            })
        };
        assert!(!is_due(&poll(None, None), guess, None, after(2)));
        assert!(is_due(&poll(None, None), guess, None, after(3)));
        assert!(
            is_due(&poll(None, None), guess, seen(1, 7), after(2)),
            "led by the listing"
        );
        assert!(
            !is_due(&poll(Some(3), None), guess, seen(2, 7), after(12)),
            "seen before the query"
        );
        assert!(
            !is_due(&poll(Some(3), Some(7)), guess, seen(8, 7), after(9)),
            "one sight leads once"
        );
        assert!(
            is_due(&poll(Some(3), Some(7)), guess, seen(8, 8), after(9)),
            "it changed"
        );
        assert!(is_due(&poll(Some(3), None), guess, None, after(13)));
        assert!(
            !is_due(&poll(Some(400), None), guess, None, after(415)),
            "an old operation is asked for less often"
        );
    }
}
