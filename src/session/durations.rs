//! The durations of a service's tasks, learnt for each verb, so that a query can be made when the next task is expected to end.

use crate::api::Verb;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An end is expected if the known range is this narrow, as a part of the duration. With a wider range the regular queries are as
/// good.
const CLOSE: f64 = 0.15;

/// Tasks of a verb take longer than `more_than` and at most `at_most`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bounds {
    more_than: Duration,
    at_most: Duration,
}

/// The learnt durations at one service.
#[derive(Debug, Default)]
pub struct Durations(Mutex<HashMap<Verb, Bounds>>);

impl Durations {
    /// The expected time from the acceptance of a task with this verb to its end; None if too little is known.
    pub fn expected(&self, verb: Verb) -> Option<Duration> {
        let known = self.lock().get(&verb).copied()?;
        let width = known.at_most.saturating_sub(known.more_than);
        (width <= known.at_most.mul_f64(CLOSE)).then_some(known.at_most)
    }

    /// A task was found done this long after it was accepted; `running_at` is the query before, which found it running. The range
    /// learnt from earlier tasks is narrowed if it overlaps, or else replaced, since the duration has changed.
    pub fn was_done(&self, verb: Verb, running_at: Option<Duration>, after: Duration) {
        let newest = Bounds {
            more_than: running_at.unwrap_or_default(),
            at_most: after,
        };
        let mut known = self.lock();
        let bounds = known.entry(verb).or_insert(newest);
        let both = Bounds {
            more_than: bounds.more_than.max(newest.more_than),
            at_most: bounds.at_most.min(newest.at_most),
        };
        *bounds = if both.more_than < both.at_most {
            both
        } else {
            newest
        };
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Verb, Bounds>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_end_is_expected_once_it_is_known_closely_and_anew_where_tasks_change() {
        let durations = Durations::default();
        assert_eq!(durations.expected(Verb::Create), None);
        durations.was_done(Verb::Create, Some(10 * SECOND), 14 * SECOND);
        assert_eq!(durations.expected(Verb::Create), None, "too wide");
        durations.was_done(Verb::Create, Some(12 * SECOND), 13 * SECOND);
        assert_eq!(durations.expected(Verb::Create), Some(13 * SECOND));
        assert_eq!(durations.expected(Verb::Stop), None);
        durations.was_done(Verb::Create, Some(29 * SECOND), 30 * SECOND);
        assert_eq!(durations.expected(Verb::Create), Some(30 * SECOND));
        durations.was_done(Verb::Create, None, SECOND);
        assert_eq!(durations.expected(Verb::Create), None);
    }
}
