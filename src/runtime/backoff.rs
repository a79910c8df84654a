//! The wait before a failed object is retried.

use super::chance;
use super::times::{OBJECT_RETRY_FIRST, OBJECT_RETRY_MAX};
use std::time::Duration;

/// Half width of the jitter, as a fraction of the wait, so that objects that failed together are not retried together.
const JITTER: f64 = 0.2;

/// Counts consecutive failures of one object.
///
/// | consecutive failures | wait, ± 20 % |
/// |---|---|
/// | 1, 2, 3, 4 … | 1, 2, 4, 8 s … |
/// | 10 and more | 300 s |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Records a failure and returns the wait before the next retry.
    pub fn fail(&mut self) -> Duration {
        let wait = delay(self.failures, chance::share());
        self.failures = self.failures.saturating_add(1);
        wait
    }

    /// Whether at most one failure was recorded since the last success.
    pub fn is_fresh(self) -> bool {
        self.failures < 2
    }

    /// Records a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// The wait after this many earlier failures; `jitter` between -1 and 1 changes it by up to ± 20 %.
pub fn delay(earlier: u32, jitter: f64) -> Duration {
    let doubled = OBJECT_RETRY_FIRST * (1 << earlier.min(16));
    let plain = doubled.min(OBJECT_RETRY_MAX);
    plain.mul_f64(1.0 + JITTER * jitter.clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_from_a_second_to_five_minutes() {
        let waits: Vec<u64> = (0..12).map(|n| delay(n, 0.0).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert_eq!(delay(u32::MAX, 0.0), OBJECT_RETRY_MAX);
    }

    #[test]
    fn jitter_changes_the_wait_by_at_most_a_fifth() {
        assert_eq!(delay(0, 1.0), Duration::from_millis(1200));
        assert_eq!(delay(0, -7.0), Duration::from_millis(800));
    }
}
