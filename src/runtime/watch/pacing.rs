//! How long a watch that failed waits. Ten seconds at most, so that it goes on soon after the apiserver is back, and with
//! jitter, so that not all come back at once.

use crate::runtime::times::{WATCH_FAILURE_FORGOTTEN, WATCH_RETRY_FIRST, WATCH_RETRY_MAX};
use rand::RngExt;
use std::time::Duration;
use tokio::time::Instant;

const JITTER: f64 = 0.2;

#[derive(Debug, Default)]
pub(super) struct Pacing {
    failures: u32,
    last: Option<Instant>,
}

impl Pacing {
    /// Notes a failure and gives the wait before the next try.
    pub(super) fn fail(&mut self) -> Duration {
        let now = Instant::now();
        if self
            .last
            .is_some_and(|last| now > last + WATCH_FAILURE_FORGOTTEN)
        {
            self.failures = 0;
        }
        let plain = WATCH_RETRY_FIRST
            .saturating_mul(1 << self.failures.min(16))
            .min(WATCH_RETRY_MAX);
        self.failures = self.failures.saturating_add(1);
        let wait = plain.mul_f64(1.0 + JITTER * rand::rng().random_range(-1.0..=1.0));
        self.last = Some(now + wait);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_grow_to_ten_seconds_at_most_and_are_forgotten() {
        let mut pacing = Pacing::default();
        let mut waits = Vec::new();
        for _ in 0..100 {
            let wait = pacing.fail();
            waits.push(wait);
            tokio::time::advance(wait).await;
        }
        assert!(waits[0] <= Duration::from_millis(600));
        assert!(waits.iter().all(|wait| *wait < Duration::from_secs(10)));
        tokio::time::advance(WATCH_FAILURE_FORGOTTEN + WATCH_RETRY_FIRST).await;
        assert!(pacing.fail() <= Duration::from_millis(600));
    }
}
