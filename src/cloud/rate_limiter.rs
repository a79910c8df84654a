//! The request limit of one (endpoint, token): a rate, a number at once, and a queue for each priority.
//!
//! The rate is what the user allows, and less where the service refuses that: halved at each refusal, then slowly more, up to a
//! little less than what was refused. Only after some minutes is more than that tried again, and slowly where the service refuses
//! that as well.
//! Whoever waits with a higher rank goes first, and within a rank whoever came first; one in eight has waited longest. No
//! task of its own: the first in line keeps the time itself and wakes the next. The rate is reckoned on tokio's clock, so that a
//! test with paused time is exact.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

mod bucket;

use super::times;
use bucket::Bucket;

/// Who goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallPriority {
    /// A user's change of a server that is there: everything that mutates one, and the looks right before it. Lists of what the
    /// service offers, too, which many share.
    Urgent,
    /// Buying or importing a server: a thousand may be applied at once, and who stops one of his own does not wait for them.
    Purchase,
    /// The progress of an operation that is running.
    Operation,
    /// Looking whether anything changed by itself.
    Resync,
}

/// How much may be asked of the service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Requests per second in the long run; values that make no sense are brought into range.
    pub per_second: f64,
    /// Requests that may go at once after a pause.
    pub burst: u32,
    /// Requests in flight at one time.
    pub concurrent: usize,
}

impl Default for Limits {
    /// The service's figures are not known. One client found 12 concurrent requests safe; these stay below that.
    fn default() -> Self {
        Self {
            per_second: 5.0,
            burst: 10,
            concurrent: 8,
        }
    }
}

impl CallPriority {
    /// All, the most urgent first.
    pub const ALL: [Self; 4] = [Self::Urgent, Self::Purchase, Self::Operation, Self::Resync];

    /// Who goes first at the rate limiter. Purchases and what follows operations go as they come: whoever waits here has a slot of
    /// the line already, where purchases go first, and thousands of them must not keep an operation from its end.
    const fn rank(self) -> u8 {
        match self {
            Self::Urgent => 0,
            Self::Purchase | Self::Operation => 1,
            Self::Resync => 2,
        }
    }

    /// The label of metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Urgent => "urgent",
            Self::Purchase => "purchase",
            Self::Operation => "operation",
            Self::Resync => "resync",
        }
    }
}

/// Told of each request that may go: how urgent it was, and how long it waited.
pub type WaitObserver = Arc<dyn Fn(CallPriority, Duration) + Send + Sync>;

impl Limits {
    /// So much of the rate, and no burst: the pace after a refusal.
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
        // A rate of zero would stop everything for ever, and one above 10,000 a second is no limit.
        let per_second = if self.per_second.is_finite() {
            self.per_second.clamp(0.000_1, 10_000.0)
        } else {
            5.0
        };
        Duration::from_secs_f64(1.0 / per_second)
    }
}

/// The share of the rate that is left after each refusal for rate: the service allows less than we were told.
const SLOWER: f64 = 0.5;
/// Share of the refused rate that the limiter approaches; other clients of the token use the remainder.
const ALLOWED: f64 = 0.8;
/// Lowest share of that: below it, longer pauses help more than a lower rate. The next refusal after an answer lowers it again.
const SLOWEST: f64 = 1.0 / 8.0;
/// Lowest rate, in requests per second. The limiter keeps probing the service at this rate.
const SLOWEST_PER_SECOND: f64 = 1.0 / 60.0;
/// How much the limiter raises the rate while the service refuses nothing, each time that [`times::FASTER_EVERY`] has passed.
const FASTER: f64 = 1.1;
/// So many requests have to pass as well while the limiter remembers a refused rate, or where the limit lasts: fewer do not show
/// whether the service allows the pace.
const SHOWN_BY: u32 = 20;

/// One permit in so many goes to whoever has waited longest: a stream of changes without end stops nothing else for ever.
const OLDEST: u32 = 8;

/// The rate limiter that every request to the service passes. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct RateLimiter {
    state: Arc<Mutex<State>>,
    observer: Option<WaitObserver>,
}

struct State {
    limits: Limits,
    limiter: Bucket,
    /// The share of the rate that the service lets us have, and since when; 1 unless it refused.
    share: f64,
    share_since: Instant,
    /// The share that is taken to be allowed, and until when.
    allowed: (f64, Instant),
    /// The service refused a request again soon after that: its limit is no passing one.
    is_lasting: bool,
    held_until: Option<Instant>,
    refusals_in_a_row: u32,
    in_flight: usize,
    next_ticket: u64,
    passed: u32,
    queues: [VecDeque<Ticket>; CallPriority::ALL.len()],
}

struct Ticket {
    number: u64,
    woken: Arc<Notify>,
}

/// What a ticket is told.
enum Turn {
    Pass,
    Later,
    At(Instant),
}

/// A place at the rate limiter, for one request. Dropping it frees its place.
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
            queues: Default::default(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            observer: None,
        }
    }

    /// Tells `observer` of each wait, from this clone on.
    #[must_use]
    pub fn with_observer(self, observer: WaitObserver) -> Self {
        Self {
            observer: Some(observer),
            ..self
        }
    }

    /// Waits for leave to make one request. Dropping the future gives the place in the line up and loses nothing.
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
            let turn = self.lock().turn_of(priority, waiting.number);
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

    /// How many requests per second may be asked of the service: what the user allows, or less where the service refused that.
    pub fn per_second(&self) -> f64 {
        let state = self.lock();
        state.limits.per_second * state.share
    }

    /// The same, but for the number of requests in flight: where that is reached, one goes beside them, within rate and pauses.
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

    /// New limits for every request from now on. Equal ones change nothing, so that a reconcile may call this freely.
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

    /// Lets nobody pass for a while.
    pub fn hold_off(&self, pause: Duration) {
        let mut state = self.lock();
        let until = Instant::now() + pause;
        state.held_until = Some(state.held_until.map_or(until, |held| held.max(until)));
        state.wake_first();
    }

    /// The service refused a request for its rate: pause as long as it said, else a second, doubled each time, and go on
    /// more slowly.
    pub(super) fn refused(&self, retry_after: Option<Duration>) {
        let exponent = {
            let mut state = self.lock();
            let now = Instant::now();
            // Refusals of requests that were already on their way belong to the refusal that began the pause.
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

    /// The service answered a request without complaint of its rate.
    pub(super) fn answered(&self) {
        self.lock().refusals_in_a_row = 0;
    }

    fn line_up(&self, priority: CallPriority) -> Waiting<'_> {
        let woken = Arc::new(Notify::new());
        let mut state = self.lock();
        let number = state.next_ticket;
        state.next_ticket += 1;
        state.queues[priority as usize].push_back(Ticket {
            number,
            woken: woken.clone(),
        });
        drop(state);
        Waiting {
            limiter: self,
            priority,
            number,
            woken,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether it is this ticket's turn, which takes it out of the line when it is.
    fn turn_of(&mut self, priority: CallPriority, number: u64) -> Turn {
        let first = self.first().is_some_and(|ticket| ticket.number == number);
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
        self.queues[priority as usize].pop_front();
        self.in_flight += 1;
        self.passed = self.passed.wrapping_add(1);
        self.wake_first();
        Turn::Pass
    }

    /// Takes a place beyond those in flight, if these are all that stands in the way.
    fn beside(&mut self, now: Instant) -> bool {
        let is_full = self.in_flight >= self.limits.concurrent.max(1);
        let is_held = self.held_until.is_some_and(|held| held > now);
        let passes = is_full && !is_held && self.limiter.take(now).is_ok();
        self.in_flight += usize::from(passes);
        passes
    }

    /// Who passes next: the first of the highest rank, or once in a while whoever has waited longest.
    fn first(&self) -> Option<&Ticket> {
        let heads = CallPriority::ALL.into_iter().filter_map(|priority| {
            let ticket = self.queues[priority as usize].front()?;
            Some((priority.rank(), ticket))
        });
        let is_for_the_oldest = self.passed % OLDEST == OLDEST - 1;
        let next = heads.min_by_key(|(rank, ticket)| {
            let rank = if is_for_the_oldest { 0 } else { *rank };
            (rank, ticket.number)
        });
        next.map(|(_, ticket)| ticket)
    }

    /// The service refused a request for its rate.
    fn slow_down(&mut self, now: Instant) {
        if self.share < 1.0 && now < self.share_since + times::SLOWER_EVERY {
            return;
        }
        if self.refusals_in_a_row == 1 {
            // Requests were answered at this pace until now, and it was too much. The pace behind a second refusal in a row is
            // unknown.
            self.is_lasting = self.lasts(now);
            self.allowed = (self.share * ALLOWED, now + times::REFUSED_RATE_REMEMBERED);
        }
        let slowest = self.allowed.0 * SLOWEST;
        let slowest = slowest.max(SLOWEST_PER_SECOND / self.limits.per_second);
        self.set_share((self.share * SLOWER).max(slowest).min(self.share), now);
        self.limiter.drain(now);
    }

    /// Whether a refusal now shows that the limit lasts, as the refusals of a passing phase do not.
    fn lasts(&self, now: Instant) -> bool {
        let (allowed, until) = self.allowed;
        let soon = until..until + times::REFUSED_RATE_REMEMBERED;
        let is_again = allowed < 1.0 && soon.contains(&now);
        is_again || (self.is_lasting && self.share < 1.0)
    }

    /// Nothing was refused for a while.
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
        // A time in which nobody asked counts as well.
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
        if let Some(ticket) = self.first() {
            ticket.woken.notify_one();
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

/// A place in the line, given up when the waiter goes away.
struct Waiting<'a> {
    limiter: &'a RateLimiter,
    priority: CallPriority,
    number: u64,
    woken: Arc<Notify>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.limiter.lock();
        let line = &mut state.queues[self.priority as usize];
        let before = line.len();
        line.retain(|ticket| ticket.number != self.number);
        if line.len() < before {
            state.wake_first();
        }
    }
}

#[cfg(test)]
mod tests;
