//! The rate limiter of one (endpoint, token): a rate, a burst, and a limit on concurrent requests.
//!
//! The rate is the one that the user allows, or less if the service refuses that. A refusal halves the rate, at most once a
//! second; then it rises slowly to the full rate again.
//!
//! Each rank has a queue, in order of arrival. The first request in a queue joins the end of the next higher rank's queue, and the
//! first request in the highest queue passes next. So in each queue on its way, a request waits for those that joined before it,
//! of which at most one has a lower rank.
//!
//! The limiter has no task of its own. It uses tokio's clock, so that a test with paused time is exact.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{self, Notify};
use tokio::time::{Instant, timeout, timeout_at};

mod bucket;

use super::times;
use bucket::Bucket;

/// The priority of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallPriority {
    /// A user's change of an existing server: all mutating calls on it, and the reads right before them. Also the lists of the
    /// catalog, which many callers share, and probes.
    Urgent,
    /// Buying or importing a server. A thousand may be applied at once, and a user who stops a server must not wait for them.
    Purchase,
    /// The progress of a running operation, and listings that an Instance waits for.
    Operation,
    /// Checks for external changes.
    Resync,
}

/// The limits on requests to the service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Requests per second in the long run. Senseless values are replaced.
    pub per_second: f64,
    /// Requests that may go at once after an idle period.
    pub burst: u32,
    /// Requests in flight at the same time.
    pub concurrent: usize,
}

impl Default for Limits {
    /// The service's limits are not known. One client found 12 concurrent requests safe; these defaults stay below that.
    fn default() -> Self {
        Self {
            per_second: 5.0,
            burst: 10,
            concurrent: 8,
        }
    }
}

impl CallPriority {
    /// All priorities, the most urgent first.
    pub const ALL: [Self; 4] = [Self::Urgent, Self::Purchase, Self::Operation, Self::Resync];

    /// The rank at the rate limiter. Purchases and the progress of operations have the same rank here, so that thousands of
    /// purchases do not delay the end of an operation. Purchases go first in the queue for calls, which a reconcile passes before
    /// its requests wait here.
    const fn rank(self) -> usize {
        match self {
            Self::Urgent => 0,
            Self::Purchase | Self::Operation => 1,
            Self::Resync => 2,
        }
    }

    /// The label in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Urgent => "urgent",
            Self::Purchase => "purchase",
            Self::Operation => "operation",
            Self::Resync => "resync",
        }
    }
}

/// Notified of each request that passes: its priority, and how long it waited.
pub type WaitObserver = Arc<dyn Fn(CallPriority, Duration) + Send + Sync>;

impl Limits {
    /// A share of the rate, without a burst: the pace after a refusal.
    fn slowed(self, share: f64) -> Self {
        Self {
            per_second: self.per_second * share,
            burst: 1,
            ..self
        }
    }

    fn period(self) -> Duration {
        // A rate of zero would stop everything forever, and a rate above 10,000 per second is no limit.
        let per_second = if self.per_second.is_finite() {
            self.per_second.clamp(0.000_1, 10_000.0)
        } else {
            5.0
        };
        Duration::from_secs_f64(1.0 / per_second)
    }
}

/// The factor for the rate after a refusal: the service allows less than the current rate.
const SLOWER: f64 = 0.5;
/// The lowest rate to which refusals lead, in requests per second: one request a minute shows when the service allows more.
const SLOWEST_PER_SECOND: f64 = 1.0 / 60.0;
/// The factor by which the limiter raises the rate after a time without a refusal.
const FASTER: f64 = 1.25;
/// The rate is raised after the time that this many requests take; fewer do not show whether the service allows the pace.
const REQUESTS_PER_RAISE: u32 = 10;

/// The rate limiter that every request to the service passes. Cheap to clone; all clones share one state.
#[derive(Clone)]
pub struct RateLimiter {
    shared: Arc<Gate>,
    observer: Option<WaitObserver>,
}

struct Gate {
    /// The queue of each rank: the first request in it holds the lock until that request passes.
    first: [sync::Mutex<()>; 3],
    /// Wakes those that wait for the state to change.
    changed: Notify,
    state: Mutex<State>,
}

struct State {
    limits: Limits,
    bucket: Bucket,
    /// The share of the configured rate at which requests pass now, and since when; 1 is the full rate.
    share: f64,
    share_since: Instant,
    /// The end of the pause after the latest refusals.
    held_until: Instant,
    refusals_in_a_row: u32,
    in_flight: usize,
}

/// A permit for one request, which counts as in flight until the permit is dropped.
#[derive(Debug)]
#[must_use = "it counts as a request in flight until it is dropped"]
pub(super) struct Passage {
    limiter: RateLimiter,
}

impl std::fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateLimiter")
            .field("limits", &self.lock().limits)
            .finish_non_exhaustive()
    }
}

impl RateLimiter {
    /// A rate limiter with a full burst.
    pub fn new(limits: Limits) -> Self {
        let now = Instant::now();
        let state = State {
            limits,
            bucket: Bucket::new(limits.period(), limits.burst),
            share: 1.0,
            share_since: now,
            held_until: now,
            refusals_in_a_row: 0,
            in_flight: 0,
        };
        let gate = Gate {
            first: Default::default(),
            changed: Notify::new(),
            state: Mutex::new(state),
        };
        Self {
            shared: Arc::new(gate),
            observer: None,
        }
    }

    /// Reports each wait to `observer`, from this clone on.
    #[must_use]
    pub fn with_observer(self, observer: WaitObserver) -> Self {
        Self {
            observer: Some(observer),
            ..self
        }
    }

    /// Waits for a permit for one request. Dropping the future gives up its position in the queue and has no other effect.
    pub(super) async fn pass(&self, priority: CallPriority) -> Passage {
        let began = Instant::now();
        let _first = self.first(priority).await;
        self.take(priority, began, false).await
    }

    /// As [`Self::pass`], but may exceed the limit on requests in flight, and waits at most [`times::PROBE_WAITS_IN_LINE`] in the
    /// queue. The rate and the pauses apply.
    pub(super) async fn pass_beyond_limit(&self, priority: CallPriority) -> Passage {
        let began = Instant::now();
        let _first = timeout(times::PROBE_WAITS_IN_LINE, self.first(priority)).await;
        self.take(priority, began, true).await
    }

    /// Waits until this request is the first of all ranks. Dropping the guards lets the next one follow.
    async fn first(&self, priority: CallPriority) -> Vec<sync::MutexGuard<'_, ()>> {
        let mut first = Vec::new();
        for rank in self.shared.first[..=priority.rank()].iter().rev() {
            first.push(rank.lock().await);
        }
        first
    }

    async fn take(&self, priority: CallPriority, began: Instant, is_beyond_limit: bool) -> Passage {
        loop {
            let changed = self.shared.changed.notified();
            let earliest = self.lock().take(Instant::now(), is_beyond_limit);
            match earliest {
                Ok(()) => break,
                Err(Some(earliest)) => drop(timeout_at(earliest, changed).await),
                Err(None) => changed.await,
            }
        }
        if let Some(observer) = &self.observer {
            observer(priority, began.elapsed());
        }
        Passage {
            limiter: self.clone(),
        }
    }

    /// The current limit in requests per second: the rate that the user allows, or less if the service refused that.
    pub fn per_second(&self) -> f64 {
        let state = self.lock();
        state.limits.per_second * state.share
    }

    /// Sets the limits for every request from now on. Other limits than before begin at their full rate. Equal limits change
    /// nothing, so a reconcile may call this every time.
    pub fn set_limits(&self, limits: Limits) {
        let mut state = self.lock();
        if state.limits != limits {
            state.limits = limits;
            state.set_share(1.0, Instant::now());
            self.shared.changed.notify_waiters();
        }
    }

    /// Records that the service refused a request because of the rate: pauses for the requested time, or else for one second,
    /// doubled with each further refusal up to a minute, and then continues more slowly.
    pub(super) fn refused(&self, retry_after: Option<Duration>) {
        let (mut state, now) = (self.lock(), Instant::now());
        // Refusals during the pause are of requests that were already in flight, and belong to the refusal that began it.
        if now >= state.held_until {
            state.refusals_in_a_row = state.refusals_in_a_row.saturating_add(1);
            state.slow_down(now);
        }
        let pause = retry_after.unwrap_or_else(|| {
            let exponent = state.refusals_in_a_row.saturating_sub(1).min(6);
            let pause = times::RATE_REFUSED_PAUSE_FIRST * 2u32.pow(exponent);
            pause.min(times::RATE_REFUSED_PAUSE_MAX)
        });
        state.held_until = state.held_until.max(now + pause);
    }

    /// Records that the service answered a request and did not refuse it because of the rate.
    pub(super) fn answered(&self) {
        self.lock().refusals_in_a_row = 0;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Lets one request pass, if the limits allow it now.
    ///
    /// # Errors
    /// The earliest time at which it may pass; none if that depends on the end of another request.
    fn take(&mut self, now: Instant, is_beyond_limit: bool) -> Result<(), Option<Instant>> {
        if !is_beyond_limit && self.in_flight >= self.limits.concurrent.max(1) {
            return Err(None);
        }
        if self.held_until > now {
            return Err(Some(self.held_until));
        }
        self.speed_up(now);
        self.bucket.take(now).map_err(Some)?;
        self.in_flight += 1;
        Ok(())
    }

    /// Lowers the rate after a refusal.
    fn slow_down(&mut self, now: Instant) {
        if self.share < 1.0 && now < self.share_since + times::SLOWER_EVERY {
            return;
        }
        let slowest = SLOWEST_PER_SECOND / self.limits.per_second;
        self.set_share((self.share * SLOWER).max(slowest).min(self.share), now);
        self.bucket.drain(now);
    }

    /// Raises the rate after a time without refusals.
    fn speed_up(&mut self, now: Instant) {
        let rested = now.saturating_duration_since(self.share_since);
        let every = self.limits.slowed(self.share).period() * REQUESTS_PER_RAISE;
        let every = every.clamp(times::FASTER_EVERY_MIN, times::FASTER_EVERY_MAX);
        if self.share < 1.0 && rested >= every {
            // A time without requests counts as well.
            let steps = rested.as_secs_f64() / every.as_secs_f64();
            self.set_share((self.share * FASTER.powf(steps)).min(1.0), now);
        }
    }

    fn set_share(&mut self, share: f64, now: Instant) {
        (self.share, self.share_since) = (share, now);
        let limits = if share < 1.0 {
            self.limits.slowed(share)
        } else {
            self.limits
        };
        self.bucket = self.bucket.repaced(limits.period(), limits.burst, now);
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.limiter.lock().in_flight -= 1;
        self.limiter.shared.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
