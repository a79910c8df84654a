//! The term during which this process may write and call.

use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// The one term of a process as the active operator; cheap to clone. Without a Lease it is the life of the process.
///
/// A term that is over never begins again, so no reconcile acts in a later term. Each check reads the monotonic clock: a process
/// that was stopped and continued notices the end of its term at its first check, even if no task that ends it has run yet.
#[derive(Clone, Debug)]
pub struct Term(watch::Sender<State>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Standing by.
    Awaited,
    /// Active: until [`Term::end`], or until this instant.
    Held(Option<Instant>),
    /// Over, for this reason.
    Over(&'static str),
}

impl Term {
    /// The term of a process that needs no Lease: from now until [`Term::end`].
    pub fn of_process() -> Self {
        Self(watch::Sender::new(State::Held(None)))
    }

    /// A term that has not begun.
    pub fn awaited() -> Self {
        Self(watch::Sender::new(State::Awaited))
    }

    /// Begins an awaited term, or moves the end of a current one to `until`. Returns whether the term is current: one that is over
    /// remains over.
    #[must_use = "a term that is over stays so"]
    pub fn extend_until(&self, until: Instant) -> bool {
        self.update(|state| *state = State::Held(Some(until)))
    }

    /// Ends the term permanently. The first reason counts.
    pub fn end(&self, reason: &'static str) {
        self.update(|state| *state = State::Over(reason));
    }

    /// Whether this process may change anything now.
    pub fn holds(&self) -> bool {
        self.update(|_| {})
    }

    /// Whether a mutating call that takes at most `needed` may begin now: the term holds, and the call can end before
    /// `reconcile_ends`.
    pub fn allows(&self, reconcile_ends: Instant, needed: Duration) -> bool {
        self.holds() && reconcile_ends.saturating_duration_since(Instant::now()) >= needed
    }

    /// Waits until the term is over, also if it has not begun yet. Returns the reason of its end.
    pub async fn ended(&self) -> &'static str {
        let mut changes = self.0.subscribe();
        loop {
            self.holds();
            let state = *changes.borrow_and_update();
            match state {
                State::Over(reason) => return reason,
                State::Held(Some(until)) => drop(timeout_at(until, changes.changed()).await),
                State::Held(None) | State::Awaited => drop(changes.changed().await),
            }
        }
    }

    /// Checks the clock, and changes the state unless the term is over. Returns whether the term is current.
    fn update(&self, change: impl FnOnce(&mut State)) -> bool {
        let mut is_current = false;
        self.0.send_if_modified(|state| {
            let former = *state;
            state.check_clock();
            if !matches!(state, State::Over(_)) {
                change(state);
                state.check_clock();
            }
            is_current = matches!(state, State::Held(_));
            *state != former
        });
        is_current
    }
}

impl State {
    /// An end that has passed is final.
    fn check_clock(&mut self) {
        if matches!(self, Self::Held(Some(until)) if Instant::now() >= *until) {
            *self = Self::Over("the Lease could not be renewed in time");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_call_needs_a_current_term_and_enough_time() {
        let term = Term::of_process();
        let reconcile_ends = Instant::now() + 90 * SECOND;
        assert!(term.allows(reconcile_ends, 60 * SECOND));
        tokio::time::advance(31 * SECOND).await;
        assert!(
            !term.allows(reconcile_ends, 60 * SECOND),
            "a call that could outlive the reconcile"
        );
        term.end("for the test");
        assert!(
            !term.allows(reconcile_ends, SECOND),
            "a term that has ended"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_ends_by_the_clock_without_a_task_and_for_good() {
        let term = Term::awaited();
        assert!(!term.holds(), "it has not begun");
        assert!(term.extend_until(Instant::now() + 10 * SECOND));
        tokio::time::advance(9 * SECOND).await;
        assert!(term.holds());
        assert!(
            term.extend_until(Instant::now() + 10 * SECOND),
            "renewed in time"
        );
        tokio::time::advance(10 * SECOND).await;
        assert!(!term.holds(), "no task had to run to end it");
        assert!(
            !term.extend_until(Instant::now() + 10 * SECOND),
            "a term that has ended never begins again"
        );
        assert!(!term.holds());
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_that_comes_back_after_the_end_does_not_prolong_it() {
        let term = Term::awaited();
        assert!(term.extend_until(Instant::now() + 10 * SECOND));
        tokio::time::advance(11 * SECOND).await;
        assert!(!term.extend_until(Instant::now() + 9 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_term_is_reported_when_its_last_renewal_expires() {
        let term = Term::awaited();
        let begun = Instant::now();
        assert!(term.extend_until(begun + 10 * SECOND));
        let waiter = tokio::spawn({
            let term = term.clone();
            async move { term.ended().await }
        });
        tokio::time::sleep(5 * SECOND).await;
        assert!(term.extend_until(begun + 15 * SECOND));
        waiter.await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), 15);
    }
}
