//! The rate limiter of one (endpoint, token): a rate, a burst, a limit on concurrent requests, and a queue for each priority.
//!
//! The rate is the one that the user allows, or less if the service refuses that. Each refusal halves the rate. It then rises
//! slowly, up to a little less than the refused rate. Only after some minutes does the limiter try more than that again, and
//! slowly if the service refuses that as well. A request of a higher rank goes first, and within a rank the one that came
//! first; one permit in eight goes to the request that has waited longest.
//!
//! The limiter has no task of its own: the first waiter in line keeps the time and wakes the next. It uses tokio's clock, so
//! that a test with paused time is exact.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

mod bucket;

use super::times;
use bucket::Bucket;

/// The priority of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallPriority {
    /// A user's change of an existing server: all mutating calls on it, and the reads right before them. Also the lists of the
    /// catalogue, which many callers share.
    Urgent,
    /// Buying or importing a server. A thousand may be applied at once, and a user who stops a server must not wait for them.
    Purchase,
    /// The progress of a running operation.
    Operation,
    /// Checks for external changes.
    Resync,
}

/// The limits on requests to the service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Requests per second in the long run. Senseless values are clamped.
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

    /// The rank at the rate limiter. Purchases and the progress of operations have the same rank: a request that waits here
    /// already has a slot of the queue for calls, in which purchases go first, and thousands of them must not delay the end of
    /// an operation.
    const fn rank(self) -> u8 {
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

    fn bucket(self) -> Bucket {
        Bucket::new(self.period(), self.burst)
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

/// The factor for the rate after each refusal: the service allows less than the configured rate.
const SLOWER: f64 = 0.5;
/// The share of the refused rate that the limiter approaches. Other clients of the token use the remainder.
const ALLOWED: f64 = 0.8;
/// The lowest share of that. Below it, longer pauses help more than a lower rate. The next refusal after an answer lowers it
/// further.
const SLOWEST: f64 = 1.0 / 8.0;
/// The lowest rate, in requests per second. The limiter keeps probing the service at this rate.
const SLOWEST_PER_SECOND: f64 = 1.0 / 60.0;
/// The factor by which the limiter raises the rate each time that [`times::FASTER_EVERY`] has passed without a refusal.
const FASTER: f64 = 1.1;
/// At least this many requests must pass before a raise while the limiter remembers a refused rate, or if the limit lasts:
/// fewer do not show whether the service allows the pace.
const SHOWN_BY: u32 = 20;

/// One permit in this many goes to the request that has waited longest, so that an endless stream of changes does not block
/// other calls forever.
const OLDEST: u32 = 8;

/// The rate limiter that every request to the service passes. Cheap to clone; all clones share one state.
#[derive(Clone)]
pub struct RateLimiter {
    state: Arc<Mutex<State>>,
    observer: Option<WaitObserver>,
}

struct State {
    limits: Limits,
    limiter: Bucket,
    /// The share of the rate that the service currently allows, and since when; 1 if it refused nothing.
    share: f64,
    share_since: Instant,
    /// The highest share that is assumed to be allowed, and until when.
    allowed: (f64, Instant),
    /// The service refused again soon after that time, so its limit is not temporary.
    is_lasting: bool,
    held_until: Option<Instant>,
    refusals_in_a_row: u32,
    in_flight: usize,
    next_ticket: u64,
    passed: u32,
    /// The waiting requests by rank and arrival.
    waiting: BTreeMap<Ticket, Arc<Notify>>,
}

/// The rank of a waiting request, then a number that grows with arrival.
type Ticket = (u8, u64);

/// The result of checking a ticket.
enum Turn {
    Pass,
    Later,
    At(Instant),
}

/// A permit for one request. Dropping it frees its slot.
#[must_use = "it holds a place at the rate limiter until it is dropped"]
pub(super) struct Passage {
    limiter: RateLimiter,
}

impl std::fmt::Debug for Passage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Passage")
    }
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
        let state = State {
            limits,
            limiter: limits.bucket(),
            share: 1.0,
            share_since: Instant::now(),
            allowed: (1.0, Instant::now()),
            is_lasting: false,
            held_until: None,
            refusals_in_a_row: 0,
            in_flight: 0,
            next_ticket: 0,
            passed: 0,
            waiting: BTreeMap::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
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

    /// Waits for a permit for one request. Dropping the future gives up the place in the queue and has no other effect.
    pub(super) async fn pass(&self, priority: CallPriority) -> Passage {
        let began = Instant::now();
        let passage = self.wait(priority).await;
        self.waited(priority, began);
        passage
    }

    fn waited(&self, priority: CallPriority, since: Instant) {
        if let Some(observer) = &self.observer {
            observer(priority, since.elapsed());
        }
    }

    async fn wait(&self, priority: CallPriority) -> Passage {
        let waiting = self.line_up(priority);
        loop {
            let turn = self.lock().turn_of(waiting.ticket);
            match turn {
                Turn::Pass => return self.passage(),
                Turn::Later => waiting.woken.notified().await,
                Turn::At(instant) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(instant) => {}
                        () = waiting.woken.notified() => {}
                    }
                }
            }
        }
    }

    /// The current limit in requests per second: the rate that the user allows, or less if the service refused that.
    pub fn per_second(&self) -> f64 {
        let state = self.lock();
        state.limits.per_second * state.share
    }

    /// As [`Self::pass`], but beyond the limit on requests in flight: if that limit is reached, one more request may go, within
    /// rate and pauses.
    pub(super) async fn pass_beside(&self, priority: CallPriority) -> Passage {
        let began = Instant::now();
        let passage = loop {
            if let Ok(passage) =
                tokio::time::timeout(times::PROBE_WAITS_IN_LINE, self.wait(priority)).await
            {
                break passage;
            }
            if let Some(passage) = self.lock().beside(Instant::now()).then(|| self.passage()) {
                break passage;
            }
        };
        self.waited(priority, began);
        passage
    }

    fn passage(&self) -> Passage {
        Passage {
            limiter: self.clone(),
        }
    }

    /// Sets new limits for every request from now on. Equal limits change nothing, so a reconcile may call this every time.
    pub fn set_limits(&self, limits: Limits) {
        let mut state = self.lock();
        if state.limits != limits {
            let now = Instant::now();
            state.limits = limits;
            state.allowed = (1.0, now);
            state.is_lasting = false;
            state.set_share(1.0, now);
            state.wake_first();
        }
    }

    /// Lets no request pass for this time.
    pub fn hold_off(&self, pause: Duration) {
        let mut state = self.lock();
        let until = Instant::now() + pause;
        state.held_until = Some(state.held_until.map_or(until, |held| held.max(until)));
        state.wake_first();
    }

    /// Records that the service refused a request because of the rate: pauses for the requested time, or else for a second,
    /// doubled each time, and then continues more slowly.
    pub(super) fn refused(&self, retry_after: Option<Duration>) {
        let exponent = {
            let mut state = self.lock();
            let now = Instant::now();
            // Refusals of requests that were already in flight belong to the refusal that began the pause.
            let in_pause = state.held_until.is_some_and(|held| now < held);
            if !in_pause {
                state.refusals_in_a_row = state.refusals_in_a_row.saturating_add(1);
                state.slow_down(now);
            }
            state.refusals_in_a_row.saturating_sub(1).min(6)
        };
        self.hold_off(retry_after.unwrap_or_else(|| {
            (times::RATE_REFUSED_PAUSE_FIRST * 2u32.pow(exponent))
                .min(times::RATE_REFUSED_PAUSE_MAX)
        }));
    }

    /// Records that the service answered a request and did not refuse it because of the rate.
    pub(super) fn answered(&self) {
        self.lock().refusals_in_a_row = 0;
    }

    fn line_up(&self, priority: CallPriority) -> Waiting<'_> {
        let woken = Arc::new(Notify::new());
        let mut state = self.lock();
        let ticket = (priority.rank(), state.next_ticket);
        state.next_ticket += 1;
        state.waiting.insert(ticket, woken.clone());
        drop(state);
        Waiting {
            limiter: self,
            ticket,
            woken,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether this ticket may pass. If so, removes it from the queue.
    fn turn_of(&mut self, ticket: Ticket) -> Turn {
        let first = self.first().is_some_and(|(first, _)| *first == ticket);
        if !first || self.in_flight >= self.limits.concurrent.max(1) {
            return Turn::Later;
        }
        let now = Instant::now();
        if let Some(held) = self.held_until.filter(|held| *held > now) {
            return Turn::At(held);
        }
        self.speed_up(now);
        if let Err(earliest) = self.limiter.take(now) {
            return Turn::At(earliest);
        }
        self.waiting.remove(&ticket);
        self.in_flight += 1;
        self.passed = self.passed.wrapping_add(1);
        self.wake_first();
        Turn::Pass
    }

    /// Takes a slot beyond the limit in flight, if this limit is the only obstacle.
    fn beside(&mut self, now: Instant) -> bool {
        let is_full = self.in_flight >= self.limits.concurrent.max(1);
        let is_held = self.held_until.is_some_and(|held| held > now);
        let passes = is_full && !is_held && self.limiter.take(now).is_ok();
        self.in_flight += usize::from(passes);
        passes
    }

    /// The next ticket: the first of the highest rank or, once in a while, the one that has waited longest.
    fn first(&self) -> Option<(&Ticket, &Arc<Notify>)> {
        match self.passed % OLDEST == OLDEST - 1 {
            true => self.waiting.iter().min_by_key(|((_, number), _)| *number),
            false => self.waiting.first_key_value(),
        }
    }

    /// Lowers the rate after a refusal.
    fn slow_down(&mut self, now: Instant) {
        if self.share < 1.0 && now < self.share_since + times::SLOWER_EVERY {
            return;
        }
        if self.refusals_in_a_row == 1 {
            // Requests were answered at this pace until now, and it was too fast. After a second refusal in a row, the allowed
            // pace is unknown.
            self.is_lasting = self.lasts(now);
            self.allowed = (self.share * ALLOWED, now + times::REFUSED_RATE_REMEMBERED);
        }
        let slowest = self.allowed.0 * SLOWEST;
        let slowest = slowest.max(SLOWEST_PER_SECOND / self.limits.per_second);
        self.set_share((self.share * SLOWER).max(slowest).min(self.share), now);
        self.limiter.drain(now);
    }

    /// Whether a refusal now shows a lasting limit, in contrast to the refusals of a temporary phase.
    fn lasts(&self, now: Instant) -> bool {
        let (allowed, until) = self.allowed;
        let soon = until..until + times::REFUSED_RATE_REMEMBERED;
        let is_again = allowed < 1.0 && soon.contains(&now);
        is_again || (self.is_lasting && self.share < 1.0)
    }

    /// Raises the rate after a time without refusals.
    fn speed_up(&mut self, now: Instant) {
        let rested = now.saturating_duration_since(self.share_since);
        let (allowed, until) = self.allowed;
        let mut every = times::FASTER_EVERY;
        if now < until || self.is_lasting {
            every = every.max(self.limits.slowed(self.share).period() * SHOWN_BY);
        }
        if self.share >= 1.0 || rested < every {
            return;
        }
        let most = if now < until { allowed } else { 1.0 };
        // A time without requests counts as well.
        let steps = rested.as_secs_f64() / every.as_secs_f64();
        let faster = self.share * FASTER.powf(steps);
        self.set_share(faster.min(most).max(self.share), now);
    }

    fn set_share(&mut self, share: f64, now: Instant) {
        (self.share, self.share_since) = (share, now);
        let limits = if share < 1.0 {
            self.limits.slowed(share)
        } else {
            self.limits
        };
        self.limiter = self.limiter.repaced(limits.period(), limits.burst, now);
    }

    fn wake_first(&self) {
        if let Some((_, woken)) = self.first() {
            woken.notify_one();
        }
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        let mut state = self.limiter.lock();
        state.in_flight -= 1;
        state.wake_first();
    }
}

/// A place in the queue, given up when the waiter is dropped.
struct Waiting<'a> {
    limiter: &'a RateLimiter,
    ticket: Ticket,
    woken: Arc<Notify>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.limiter.lock();
        if state.waiting.remove(&self.ticket).is_some() {
            state.wake_first();
        }
    }
}

#[cfg(test)]
mod tests;
