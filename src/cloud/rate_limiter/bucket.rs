//! The arithmetic of a rate with a burst: the generic cell rate algorithm, whose entire state is one instant.

use std::time::Duration;

use tokio::time::Instant;

/// Lets one request pass per period in the long run, and a burst after idle time.
#[derive(Debug)]
pub(super) struct Bucket {
    period: Duration,
    /// How far ahead of the rate the requests of a burst may be.
    ahead: Duration,
    /// When the next request may pass by the rate alone.
    due: Instant,
}

impl Bucket {
    /// A bucket with a full burst, which is at least one.
    pub(super) fn new(period: Duration, burst: u32) -> Self {
        Self {
            period,
            ahead: period.saturating_mul(burst.saturating_sub(1)),
            due: Instant::now(),
        }
    }

    /// The same bucket at another pace, from now on. `due` stays, but is at most one new period from now. So without a burst, the
    /// former pace delays a request by at most one new period, and frequent changes of the pace admit no additional requests.
    pub(super) fn repaced(&self, period: Duration, burst: u32, now: Instant) -> Self {
        Self {
            due: self.due.min(now + period),
            ..Self::new(period, burst)
        }
    }

    /// Makes the next request wait for a whole period.
    pub(super) fn drain(&mut self, now: Instant) {
        self.due = now + self.ahead + self.period;
    }

    /// Takes the slot of one request.
    ///
    /// # Errors
    /// The time at which a slot is free, unless another request takes it before.
    pub(super) fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let early = self.due.saturating_duration_since(now);
        if early > self.ahead {
            return Err(now + (early - self.ahead));
        }
        self.due = self.due.max(now) + self.period;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The number of requests that pass at this instant.
    fn pass(bucket: &mut Bucket, now: Instant) -> usize {
        (0..100).take_while(|_| bucket.take(now).is_ok()).count()
    }

    #[test]
    fn a_burst_passes_at_once_and_then_one_in_each_period() {
        let mut bucket = Bucket::new(SECOND, 3);
        let start = bucket.due;
        assert_eq!(pass(&mut bucket, start), 3);
        for second in 1..10 {
            let at = start + SECOND * second;
            assert_eq!(bucket.take(at - Duration::from_nanos(1)), Err(at));
            assert_eq!(pass(&mut bucket, at), 1, "{second}");
        }
    }

    #[test]
    fn a_pause_restores_at_most_the_burst() {
        let mut bucket = Bucket::new(SECOND, 3);
        let start = bucket.due;
        assert_eq!(pass(&mut bucket, start), 3);
        assert_eq!(pass(&mut bucket, start + SECOND * 2), 2);
        assert_eq!(pass(&mut bucket, start + SECOND * 1000), 3);
    }

    #[test]
    fn a_refusal_takes_nothing() {
        let mut bucket = Bucket::new(SECOND, 1);
        let start = bucket.due;
        assert_eq!(pass(&mut bucket, start), 1);
        for _ in 0..100 {
            assert_eq!(bucket.take(start), Err(start + SECOND));
        }
        assert_eq!(pass(&mut bucket, start + SECOND), 1);
    }

    #[test]
    fn a_rate_that_changes_often_lets_no_more_pass() {
        let mut bucket = Bucket::new(SECOND, 1);
        let start = bucket.due;
        assert_eq!(pass(&mut bucket, start), 1);
        for tenth in 1..10 {
            let now = start + SECOND * tenth / 10;
            bucket = bucket.repaced(SECOND, 1, now);
            assert_eq!(pass(&mut bucket, now), 0, "{tenth}");
        }
        bucket = bucket.repaced(SECOND / 100, 1, start + SECOND / 2);
        assert_eq!(pass(&mut bucket, start + SECOND * 51 / 100), 1);
    }

    #[test]
    fn a_burst_of_zero_counts_as_one_and_the_greatest_does_not_overflow() {
        let mut least = Bucket::new(SECOND * 100, 0);
        let start = least.due;
        assert_eq!(pass(&mut least, start), 1);
        let mut most = Bucket::new(SECOND * 100, u32::MAX);
        let start = most.due;
        assert_eq!(pass(&mut most, start), 100);
    }
}
