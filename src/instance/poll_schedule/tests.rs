use super::*;
use crate::cloud::TaskId;
use crate::session::Durations;
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

fn alone(expected: Option<Duration>) -> Schedule {
    Schedule {
        expected,
        spread: Duration::ZERO,
        is_at_once: false,
    }
}

/// Queries a task until it is done. Returns the instants of the queries.
fn asked(schedule: Schedule, task: Duration) -> Vec<Duration> {
    let mut at = vec![schedule.next(None)];
    while at.last().is_some_and(|last| *last < task) {
        at.push(schedule.next(at.last().copied()));
    }
    at
}

/// The number of regular queries for a task of this duration, plus the query at an expected end.
fn most(task: Duration) -> usize {
    let linear = (task.as_secs_f64().min(14.4) / 1.2).ceil();
    let growing = (task.as_secs_f64() / 14.4).max(1.0).ln() / (13.0_f64 / 12.0).ln();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "some dozens"
    )]
    let regular = (linear + growing.ceil()) as usize;
    regular + 4
}

proptest! {
    #[test]
    fn what_is_done_is_asked_for_in_time_whatever_was_learnt(
        task in 1_000_u64..600_000, learnt in proptest::option::of(500_u64..600_000),
    ) {
        let task = Duration::from_millis(task);
        let at = asked(alone(learnt.map(Duration::from_millis)), task);
        let late = *at.last().unwrap() - task;
        // The query itself and the read after it take the rest of the bound of max(1.5 s, a tenth).
        prop_assert!(late <= times::TASK_QUERY_MIN.max(task / PART), "{late:?} late of {task:?}");
        prop_assert!(at.len() <= most(task), "{} queries for {task:?}", at.len());
        prop_assert!(at.windows(2).all(|two| two[1] >= two[0] + times::TASK_QUERY_APART));
    }

    #[test]
    fn the_second_of_its_kind_is_asked_for_as_it_ends(task in 2_000_u64..600_000) {
        let task = Duration::from_millis(task);
        let durations = Durations::default();
        for _ in 0..3 {
            let at = asked(alone(durations.expected(Verb::Reinstall)), task);
            let running = at.iter().rev().nth(1).copied();
            durations.was_done(Verb::Reinstall, running, *at.last().unwrap());
        }
        let at = asked(alone(durations.expected(Verb::Reinstall)), task);
        prop_assert!(*at.last().unwrap() - task <= times::TASK_QUERY_MIN.max(task / PART));
    }
}

#[test]
fn the_number_of_queries_grows_with_the_logarithm_of_the_length() {
    let queries = |seconds| asked(alone(None), Duration::from_secs(seconds)).len();
    assert_eq!([1, 15, 60, 600].map(queries), [1, 13, 30, 59]);
}

#[test]
fn a_query_comes_at_the_expected_end_and_soon_after_a_miss() {
    let schedule = alone(Some(30 * SECOND));
    let at = asked(schedule, 31 * SECOND);
    assert!(
        at.contains(&(30 * SECOND))
            && at.contains(&(30 * SECOND + times::TASK_QUERY_AFTER_EXPECTED)),
        "{at:?}"
    );
}

#[test]
fn many_operations_share_the_request_limit() {
    let busy = Schedule {
        expected: Some(5 * SECOND),
        spread: 20 * SECOND,
        is_at_once: false,
    };
    let at = |seconds: &[u32]| seconds.iter().map(|s| *s * SECOND).collect::<Vec<_>>();
    assert_eq!(asked(busy, 30 * SECOND), at(&[5, 25, 45]));
    // A task that is expected to end within two shares is queried at that time; one that ends sooner waits no longer than that.
    let known = Schedule {
        expected: Some(60 * SECOND),
        ..busy
    };
    assert_eq!(asked(known, 60 * SECOND), at(&[20, 60]));
    assert_eq!(asked(known, 10 * SECOND), at(&[20]));
    assert_eq!(asked(known, 30 * SECOND), at(&[20, 60]));
    let unknown = Schedule {
        expected: None,
        ..busy
    };
    assert_eq!(asked(unknown, 30 * SECOND), at(&[20, 40]));
}

#[test]
fn a_query_is_due_by_time_or_when_the_listing_says_so_for_the_first_time() {
    let t0 = Instant::now();
    let after = |s| t0 + Duration::from_secs(s);
    let schedule = Schedule {
        expected: None,
        spread: 3 * SECOND,
        is_at_once: false,
    };
    let poll = |last: Option<u64>, led_by| Poll {
        task: TaskId::from("t"),
        since: t0,
        whole: true,
        last: last.map(after),
        ended: None,
        led_by,
        odd: None,
    };
    let observed = |s, digest| {
        Some(Sight {
            at: after(s),
            digest,
        })
    };
    let is_due = |poll, ended, now| schedule.is_due(&poll, ended, after(now));
    assert!(!is_due(poll(None, None), None, 2));
    assert!(is_due(poll(None, None), None, 3));
    assert!(
        is_due(poll(None, None), observed(1, 7), 2),
        "led by the listing"
    );
    assert!(
        !is_due(poll(Some(3), None), observed(2, 7), 5),
        "seen before the query"
    );
    assert!(
        !is_due(poll(Some(3), Some(7)), observed(4, 7), 5),
        "one sight leads once"
    );
    assert!(
        is_due(poll(Some(3), Some(7)), observed(4, 8), 5),
        "it changed"
    );
    assert!(is_due(poll(Some(3), None), None, 6));
    assert!(
        !is_due(poll(Some(1200), None), None, 1255),
        "an old one is asked for less often"
    );
}
