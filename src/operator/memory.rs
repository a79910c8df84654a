//! Keeps the process within its memory limit: answers of services get the memory that is left.

use crate::cloud::Budget;
use crate::runtime::{Metrics, host, strings};
use std::time::Duration;
use tokio::time::sleep;

/// Time between two measurements. The limit may change while the process runs, since Kubernetes resizes a Pod in place.
const LOOK: Duration = Duration::from_secs(2);
/// Unused strings are dropped once in this many measurements: once a minute.
const SWEPT_IN: u64 = 30;
/// A tenth of the limit stays free: the kernel counts more than the resident memory, and reconciles need some at any time.
const FREE_PART: u64 = 10;
/// With less memory for answers than `SHORT`, many calls at once have to wait: that is logged, and the end of it at `ENOUGH`.
const SHORT: usize = 16 << 20;
const ENOUGH: usize = 24 << 20;

/// Goes on until it is dropped.
pub(super) async fn keep_within(budget: Budget, metrics: Metrics) {
    let mut is_short = false;
    for look in 1_u64.. {
        if look.is_multiple_of(SWEPT_IN) {
            strings::sweep();
        }
        // What cannot be read now leaves all as it is.
        if let (Ok(limit), Some(resident)) = (host::memory_limit(), host::resident_memory()) {
            let limit = limit.unwrap_or(u64::MAX);
            budget.fit(left(limit, resident));
            let room = budget.room();
            if (is_short && room >= ENOUGH) || (!is_short && room < SHORT) {
                is_short = !is_short;
                tell(is_short, limit, resident);
            }
        }
        metrics.answer_memory(budget.room());
        sleep(LOOK).await;
    }
}

fn left(limit: u64, resident: u64) -> usize {
    let most = limit - limit / FREE_PART;
    usize::try_from(most.saturating_sub(resident)).unwrap_or(usize::MAX)
}

fn tell(is_short: bool, limit: u64, resident: u64) {
    if is_short {
        tracing::warn!(
            limit,
            resident,
            "the memory limit leaves little for answers of services, so calls wait for one another: raise the limit \
             (docs/operations/size.md)"
        );
    } else {
        tracing::info!(
            limit,
            resident,
            "the memory limit leaves enough for answers of services"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_limit_stays_free() {
        assert_eq!(left(100, 30), 60);
        assert_eq!(left(100, 95), 0);
        assert_eq!(left(0, 1), 0);
    }
}
