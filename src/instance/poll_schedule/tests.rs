use super::*;
use crate::cloud::TaskId;
use crate::instance::fact::Fact;
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

/// The schedule of an operation that has the request limit for itself.
const ALONE: PollSchedule = PollSchedule {
    last_took: None,
    spread: Duration::ZERO,
};

/// Asks for a task until it is done: the instants of the queries.
fn query_times(schedule: PollSchedule, task: Duration) -> Vec<Duration> {
    let mut at = vec![schedule.next(None)];
    while at.last().is_some_and(|last| *last < task) {
        at.push(schedule.next(at.last().copied()));
    }
    at
}

proptest! {
    #[test]
    fn an_end_is_noticed_within_a_fifth_of_the_duration_regardless_of_the_last_one(
        task in 1_000_u64..600_000, last_took in proptest::option::of(500_u64..600_000),
    ) {
        let task = Duration::from_millis(task);
        let last_took = last_took.map(Duration::from_millis);
        let at = query_times(PollSchedule { last_took, ..ALONE }, task);
        let late = *at.last().unwrap() - task;
        // The query itself and the read of the detail take the rest of max(1.5 s, a quarter).
        prop_assert!(late <= times::TASK_QUERY_MIN.max(task / AGE_DIVISOR), "{late:?} late of {task:?}");
        prop_assert_eq!(at, query_times(ALONE, task));
    }

    #[test]
    fn under_load_the_expected_duration_adapts(
        first in 5_000_u64..600_000, change in 0.75_f64..1.25,
    ) {
        let busy = PollSchedule { spread: 60 * SECOND, ..ALONE };
        let task = Duration::from_millis(first).mul_f64(change);
        let mut took = Duration::from_millis(first);
        for _ in 0..10 {
            took = *query_times(PollSchedule { last_took: Some(took), ..busy }, task).last().unwrap();
        }
        let at = query_times(PollSchedule { last_took: Some(took), ..busy }, task);
        let late = *at.last().unwrap() - task;
        let minutes = usize::try_from(took.as_secs() / 60).unwrap();
        prop_assert!(at.len() <= 2 + minutes, "{at:?}");
        prop_assert!(late <= task.mul_f64(0.11).max(60 * SECOND), "{late:?} late of {task:?}");
    }
}

#[test]
fn the_number_of_queries_grows_with_the_logarithm_of_the_duration() {
    let queries = |seconds| query_times(ALONE, Duration::from_secs(seconds)).len();
    assert_eq!([1, 4, 15, 20, 60, 600].map(queries), [1, 4, 11, 12, 18, 32]);
}

#[test]
fn many_operations_share_the_request_limit() {
    let at =
        |seconds: &[f64]| -> Vec<Duration> { seconds.iter().map(|s| SECOND.mul_f64(*s)).collect() };
    let busy = PollSchedule {
        spread: 20 * SECOND,
        ..ALONE
    };
    assert_eq!(
        query_times(busy, 30 * SECOND),
        at(&[1.2, 21.2, 41.2]),
        "nothing is known"
    );
    // After another process queried it, or this one took it over.
    assert_eq!(busy.next(Some(Duration::ZERO)), 20 * SECOND);
    let after = |seconds| PollSchedule {
        last_took: Some(seconds * SECOND),
        ..busy
    };
    // As quick as the last one, or as slow.
    assert_eq!(query_times(after(40), 37 * SECOND), at(&[38.0]));
    assert_eq!(query_times(after(40), 41 * SECOND), at(&[38.0, 42.0]));
    // Much slower: the regular pauses go on.
    assert_eq!(query_times(after(40), 60 * SECOND), at(&[38.0, 42.0, 62.0]));
    // The last one took long: a task that may be much quicker waits for two shares at most.
    assert_eq!(query_times(after(80), 10 * SECOND), at(&[20.0]));
    assert_eq!(
        query_times(after(80), 78 * SECOND),
        at(&[20.0, 40.0, 76.0, 84.0])
    );
    // A quick task is queried once.
    assert_eq!(query_times(after(1), SECOND), at(&[1.2]));
}

#[test]
fn a_query_is_due_by_time() {
    let t0 = Instant::now();
    let after = |s| t0 + Duration::from_secs(s);
    let schedule = PollSchedule {
        spread: 3 * SECOND,
        ..ALONE
    };
    let is_due = |last: Option<u64>, now| {
        let poll = Poll {
            task: TaskId::from("t"),
            verb: Verb::Start,
            since: t0,
            seen_begin: true,
            last: last.map(after),
            answer: Fact::NotRead,
            inconclusive_since: None,
        };
        after(now) >= schedule.due_at(&poll)
    };
    assert!(!is_due(None, 1) && is_due(None, 2));
    assert!(!is_due(Some(3), 5) && is_due(Some(3), 6));
    assert!(
        !is_due(Some(1200), 1255),
        "an old task is queried less often"
    );
}
