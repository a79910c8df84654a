//! Keeps the process within its memory limit: answers of services get the memory that is left.

use crate::cloud::Budget;
use crate::runtime::{Metrics, host, strings};
use std::time::Duration;
use tokio::time::sleep;

/// Time between two measurements. The limit may change while the process runs, since Kubernetes resizes a Pod in place.
const MEASURED_EVERY: Duration = Duration::from_secs(2);
/// Unused strings are dropped once in this many measurements: once a minute.
const MEASUREMENTS_PER_SWEEP: u64 = 30;
/// A tenth of the limit stays free: the kernel counts more than the resident memory, and reconciles always need some.
const FREE_PART: u64 = 10;

/// Adapts `budget` to the memory that is left, until it is dropped.
pub(super) async fn keep_within(budget: Budget, metrics: Metrics) {
    for measurement in 1_u64.. {
        if measurement.is_multiple_of(MEASUREMENTS_PER_SWEEP) {
            strings::sweep();
        }
        // A value that cannot be read now changes nothing.
        if let (Ok(limit), Some(resident)) = (host::memory_limit(), host::resident_memory()) {
            budget.fit(left(limit.unwrap_or(u64::MAX), resident));
        }
        metrics
            .answer_memory
            .set(i64::try_from(budget.size_for_calls()).unwrap_or(i64::MAX));
        sleep(MEASURED_EVERY).await;
    }
}

fn left(limit: u64, resident: u64) -> usize {
    let most = limit - limit / FREE_PART;
    usize::try_from(most.saturating_sub(resident)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_memory_limit_stays_free() {
        assert_eq!(left(100, 30), 60);
        assert_eq!(left(100, 95), 0);
        assert_eq!(left(0, 1), 0);
    }
}
