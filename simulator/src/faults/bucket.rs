//! A token bucket for the rate limit of the service.

use std::time::Instant;

/// The calls that may pass. The bucket uses real time even if the world has a manual clock: a rate limit concerns calls, not
/// tasks.
#[derive(Debug)]
pub(super) struct Bucket {
    per_second: f64,
    most: f64,
    left: f64,
    at: Instant,
}

impl Bucket {
    /// A full bucket. The burst is at least 1, since a burst of 0 would never let a call pass.
    pub(super) fn full(per_second: u32, burst: u32) -> Self {
        let most = f64::from(burst.max(1));
        Self {
            per_second: f64::from(per_second),
            most,
            left: most,
            at: Instant::now(),
        }
    }

    /// Whether one more call may go through.
    pub(super) fn takes_one(&mut self) -> bool {
        self.takes_one_at(Instant::now())
    }

    fn takes_one_at(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * self.per_second).min(self.most);
        self.at = now;
        let takes = self.left >= 1.0;
        if takes {
            self.left -= 1.0;
        }
        takes
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_goes_through_and_then_the_rate() {
        let mut bucket = Bucket::full(2, 3);
        let start = bucket.at;
        let mut through = |millis| bucket.takes_one_at(start + Duration::from_millis(millis));
        assert_eq!([0, 0, 0, 0].map(&mut through), [true, true, true, false]);
        assert_eq!(
            [400, 500, 600, 1_000].map(&mut through),
            [false, true, false, true]
        );
    }
}
