//! How long the tasks of a service take, learnt by verb, so that the end of the next one is asked for when it comes.

use crate::api::Verb;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An end is expected where what is known of it is this narrow, as a part of the duration; a wider guess is no better than the
/// regular queries.
const CLOSE: f64 = 0.15;

/// Tasks of a verb take longer than `more_than` and at most `at_most`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bounds {
    more_than: Duration,
    at_most: Duration,
}

/// The learnt durations of one service.
#[derive(Debug, Default)]
pub struct Durations(Mutex<HashMap<Verb, Bounds>>);

impl Durations {
    /// When a task of this verb is expected to be done, after it was accepted. None where too little is known.
    pub fn expected(&self, verb: Verb) -> Option<Duration> {
        let known = self.lock().get(&verb).copied()?;
        let width = known.at_most.saturating_sub(known.more_than);
        (width <= known.at_most.mul_f64(CLOSE)).then_some(known.at_most)
    }

    /// A task was found done so long after it was accepted, and running at the query before, if there was one. What the tasks
    /// before it tell is kept where it agrees: durations that vary begin anew.
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
