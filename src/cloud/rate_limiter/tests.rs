use std::sync::Arc;
use std::sync::Mutex as StdMutex;

use super::*;

fn limits(per_second: f64, burst: u32, concurrent: usize) -> Limits {
    Limits {
        per_second,
        burst,
        concurrent,
    }
}

/// Lets every task that can run do so, without moving the clock.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_passes_at_once_and_the_rest_at_the_rate() {
    let limiter = RateLimiter::new(limits(5.0, 10, 100));
    let start = Instant::now();
    for _ in 0..10 {
        drop(limiter.pass(CallPriority::Resync).await);
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    for _ in 0..10 {
        drop(limiter.pass(CallPriority::Resync).await);
    }
    let elapsed = start.elapsed();
    assert!(
        elapsed >= Duration::from_secs(2) && elapsed < Duration::from_millis(2050),
        "{elapsed:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_higher_priority_goes_first_and_each_keeps_its_order() {
    let limiter = RateLimiter::new(limits(1000.0, 1000, 1));
    let order = Arc::new(StdMutex::new(Vec::new()));
    let held = limiter.pass(CallPriority::Resync).await;
    let mut tasks = Vec::new();
    for (priority, name) in [
        (CallPriority::Resync, "r1"),
        (CallPriority::Operation, "o1"),
        (CallPriority::Purchase, "p1"),
        (CallPriority::Resync, "r2"),
        (CallPriority::Urgent, "u1"),
        (CallPriority::Operation, "o2"),
        (CallPriority::Urgent, "u2"),
    ] {
        let (limiter, order) = (limiter.clone(), order.clone());
        tasks.push(tokio::spawn(async move {
            let _permit = limiter.pass(priority).await;
            order.lock().unwrap().push(name);
            tokio::task::yield_now().await;
        }));
        settle().await;
    }
    drop(held);
    for task in tasks {
        task.await.unwrap();
    }
    // The first request was alone in the queue, so it is not overtaken.
    assert_eq!(
        *order.lock().unwrap(),
        ["r1", "u1", "u2", "o1", "p1", "o2", "r2"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_probe_does_not_wait_for_calls_in_flight() {
    let limiter = RateLimiter::new(limits(1.0, 2, 1));
    let silent = limiter.pass(CallPriority::Urgent).await;
    let waits = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.pass(CallPriority::Urgent).await }
    });
    settle().await;
    let start = Instant::now();
    let probe = limiter.pass_beyond_limit(CallPriority::Urgent).await;
    assert_eq!(start.elapsed(), times::PROBE_WAITS_IN_LINE);
    // Still within the rate, and not during a pause.
    limiter.refused(Some(Duration::from_secs(20)));
    let another = limiter.pass_beyond_limit(CallPriority::Urgent).await;
    assert!(start.elapsed() >= Duration::from_secs(20));
    waits.abort();
    settle().await;
    drop((silent, probe, another));
    assert_eq!(limiter.lock().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn no_more_than_allowed_are_in_flight() {
    let limiter = RateLimiter::new(limits(1e4, 1000, 3));
    let (now, most) = (Arc::new(StdMutex::new(0)), Arc::new(StdMutex::new(0)));
    let tasks = (0..50).map(|_| {
        let (limiter, now, most) = (limiter.clone(), now.clone(), most.clone());
        tokio::spawn(async move {
            let _permit = limiter.pass(CallPriority::Operation).await;
            let current = {
                let mut now = now.lock().unwrap();
                *now += 1;
                *now
            };
            {
                let mut most = most.lock().unwrap();
                *most = current.max(*most);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            *now.lock().unwrap() -= 1;
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(*most.lock().unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_aborted_takes_no_permit() {
    let limiter = RateLimiter::new(limits(1000.0, 1000, 1));
    let held = limiter.pass(CallPriority::Urgent).await;
    let waiter = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.pass(CallPriority::Urgent).await }
    });
    let second = tokio::spawn({
        let limiter = limiter.clone();
        async move { drop(limiter.pass(CallPriority::Resync).await) }
    });
    settle().await;
    // The wake goes to the waiter, which is aborted before it runs.
    drop(held);
    waiter.abort();
    second.await.unwrap();
    assert_eq!(limiter.lock().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn no_request_passes_during_a_pause_and_an_earlier_end_does_not_shorten_it() {
    let limiter = RateLimiter::new(Limits::default());
    let start = Instant::now();
    limiter.refused(Some(Duration::from_secs(7)));
    limiter.refused(Some(Duration::from_secs(2)));
    drop(limiter.pass(CallPriority::Urgent).await);
    let elapsed = start.elapsed();
    assert!(
        elapsed >= Duration::from_secs(7) && elapsed < Duration::from_millis(7010),
        "{elapsed:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn successive_refusals_double_the_pause_and_an_answer_resets_it() {
    let limiter = RateLimiter::new(limits(1e4, 1000, 100));
    for expected in [1, 2, 4, 8, 16, 32, 60, 60] {
        let start = Instant::now();
        limiter.refused(None);
        // A request that was already in flight does not double the pause again.
        limiter.refused(None);
        drop(limiter.pass(CallPriority::Urgent).await);
        assert_eq!(start.elapsed().as_secs(), expected);
    }
    limiter.answered();
    let start = Instant::now();
    limiter.refused(Some(Duration::from_secs(3)));
    drop(limiter.pass(CallPriority::Urgent).await);
    assert_eq!(start.elapsed().as_secs(), 3);
}

/// A service that allows this rate and burst.
struct Service {
    per_second: f64,
    burst: f64,
    left: f64,
    at: Instant,
}

impl Service {
    fn new(per_second: f64, burst: f64) -> Self {
        Self {
            per_second,
            burst,
            left: burst,
            at: Instant::now(),
        }
    }

    fn takes_one(&mut self) -> bool {
        let passed = self.at.elapsed().as_secs_f64() * self.per_second;
        (self.left, self.at) = ((self.left + passed).min(self.burst), Instant::now());
        let takes = self.left >= 1.0;
        self.left -= f64::from(u8::from(takes));
        takes
    }

    /// Sends requests without pause for this time. Returns how many are accepted, and when the others are refused.
    async fn ask(&mut self, limiter: &RateLimiter, time: Duration) -> (usize, Vec<Instant>) {
        let (start, mut taken, mut refused) = (Instant::now(), 0, Vec::new());
        while start.elapsed() < time {
            let permit = limiter.pass(CallPriority::Operation).await;
            if self.takes_one() {
                taken += 1;
                limiter.answered();
            } else {
                refused.push(Instant::now());
                limiter.refused(None);
            }
            drop(permit);
        }
        (taken, refused)
    }
}

const HOUR: Duration = Duration::from_secs(3600);

/// The service allows four per second; the configured limit is twenty.
#[tokio::test(start_paused = true)]
async fn a_service_that_allows_less_than_is_configured_refuses_few() {
    let limiter = RateLimiter::new(limits(20.0, 20, 8));
    let mut service = Service::new(4.0, 4.0);
    let (taken, refused) = service.ask(&limiter, Duration::from_secs(300)).await;
    let refused = refused.len();
    assert!(refused * 50 < taken, "{refused} refused, {taken} taken");
    // Two thirds of the rate that it allows.
    assert!(taken > 800, "{taken} taken");
}

#[tokio::test(start_paused = true)]
async fn a_limit_per_hour_that_is_not_configured_is_found_and_kept() {
    let limiter = RateLimiter::new(Limits::default());
    let mut service = Service::new(200.0 / 3600.0, 10.0);
    let (_, refused) = service.ask(&limiter, HOUR).await;
    assert!(refused.len() <= 25, "{} refused at first", refused.len());
    let (taken, refused) = service.ask(&limiter, 10 * HOUR).await;
    assert!(refused.len() * 12 <= taken, "{} refused", refused.len());
    assert!(taken > 1600, "{taken} of 2000 taken");
}

#[tokio::test(start_paused = true)]
async fn another_client_of_the_same_token_gets_its_share() {
    let limiter = RateLimiter::new(limits(20.0, 20, 8));
    let mut service = Service::new(4.0, 4.0);
    let (mut sent, mut refused) = (0, 0);
    let mut other = |service: &mut Service, is_its_turn: bool| {
        if is_its_turn {
            sent += 1;
            refused += usize::from(!service.takes_one());
        }
    };
    for number in 0..32_000 {
        let permit = limiter.pass(CallPriority::Operation).await;
        other(&mut service, number % 32 == 0);
        if service.takes_one() {
            limiter.answered();
        } else {
            limiter.refused(None);
        }
        other(&mut service, number % 32 == 16);
        drop(permit);
    }
    assert!(refused * 20 <= sent, "{refused} of {sent} refused");
}

#[tokio::test(start_paused = true)]
async fn a_temporary_limit_is_forgotten() {
    let limiter = RateLimiter::new(limits(10.0, 10, 8));
    limiter.refused(None);
    limiter.answered();
    let fifty = async || {
        let start = Instant::now();
        for _ in 0..50 {
            drop(limiter.pass(CallPriority::Operation).await);
        }
        start.elapsed()
    };
    tokio::time::sleep(Duration::from_secs(100)).await;
    let later = fifty().await;
    assert!(later <= Duration::from_secs(5), "{later:?}");
}

#[tokio::test(start_paused = true)]
async fn the_full_rate_is_back_20_minutes_after_a_phase_of_mixed_refusals() {
    let full = Limits::default().per_second;
    let limiter = RateLimiter::new(Limits::default());
    let (start, mut number) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(180) {
        let permit = limiter.pass(CallPriority::Operation).await;
        number += 1;
        if number % 2 == 0 {
            limiter.refused(None);
        } else {
            limiter.answered();
        }
        drop(permit);
    }
    let lowest = limiter.per_second();
    assert!(lowest < full / 10.0, "{lowest} at the end of the phase");
    let end = Instant::now();
    while limiter.per_second() < full {
        drop(limiter.pass(CallPriority::Operation).await);
        limiter.answered();
    }
    let took = end.elapsed();
    assert!(took <= Duration::from_secs(20 * 60), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn new_limits_hold_at_once_also_for_waiters() {
    let limiter = RateLimiter::new(limits(0.01, 1, 1));
    drop(limiter.pass(CallPriority::Urgent).await);
    let start = Instant::now();
    let waiter = tokio::spawn({
        let limiter = limiter.clone();
        async move { drop(limiter.pass(CallPriority::Urgent).await) }
    });
    settle().await;
    limiter.set_limits(limits(100.0, 1, 1));
    waiter.await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn limits_out_of_range_are_clamped() {
    // How much later the third request passes than the first.
    for (per_second, burst, after) in [
        (0.0, 0, Duration::from_secs(20_000)),
        (-1.0, 0, Duration::from_secs(20_000)),
        (f64::NAN, 1, Duration::from_millis(400)),
        (f64::INFINITY, 1, Duration::from_millis(400)),
        (1e9, 1, Duration::from_micros(200)),
        (1e9, u32::MAX, Duration::ZERO),
    ] {
        let mut bucket = {
            let limits = limits(per_second, burst, 0);
            Bucket::new(limits.period(), limits.burst)
        };
        let first = Instant::now();
        let mut now = first;
        for _ in 0..3 {
            while let Err(due) = bucket.take(now) {
                assert!(due > now, "{per_second} a second, {burst} at once");
                now = due;
            }
        }
        let waited = now - first;
        assert_eq!(waited, after, "{per_second} a second, {burst} at once");
    }
}

/// Each priority has a first request that waits its turn among the more urgent ones.
#[tokio::test(start_paused = true)]
async fn endless_changes_do_not_starve_other_priorities() {
    let limiter = RateLimiter::new(limits(1000.0, 1000, 1));
    let held = limiter.pass(CallPriority::Urgent).await;
    let urgent = |limiter: RateLimiter| async move {
        loop {
            drop(limiter.pass(CallPriority::Urgent).await);
        }
    };
    let endless: Vec<_> = (0..6)
        .map(|_| tokio::spawn(urgent(limiter.clone())))
        .collect();
    settle().await;
    drop(held);
    let passed = limiter.pass(CallPriority::Resync);
    let passed = tokio::time::timeout(Duration::from_secs(1), passed).await;
    assert!(passed.is_ok());
    endless.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn each_wait_is_reported_with_its_priority() {
    let reported = Arc::new(StdMutex::new(Vec::new()));
    let heard = reported.clone();
    let limiter =
        RateLimiter::new(limits(1.0, 1, 1)).with_observer(Arc::new(move |priority, wait| {
            heard.lock().unwrap().push((priority, wait.as_secs()));
        }));
    drop(limiter.pass(CallPriority::Urgent).await);
    // Also for a clone, since all clones share one state.
    drop(limiter.clone().pass(CallPriority::Resync).await);
    // A waiter that gives up is not reported.
    let given_up =
        tokio::time::timeout(Duration::from_millis(1), limiter.pass(CallPriority::Urgent));
    assert!(given_up.await.is_err());
    let reported = reported.lock().unwrap();
    assert_eq!(
        *reported,
        [(CallPriority::Urgent, 0), (CallPriority::Resync, 1)]
    );
}
