//! Calls to the service, and the waits for their permits.

use super::register::Register;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use std::time::Duration;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Call {
    operation: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfOperation {
    operation: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfPriority {
    priority: &'static str,
}

/// Metrics of all services.
#[derive(Clone)]
pub(super) struct Service {
    calls: Family<Call, Counter>,
    took: Family<OfOperation, Histogram>,
    waited: Family<OfPriority, Histogram>,
}

impl Service {
    pub(super) fn of(all: &mut Register) -> Self {
        Self {
            calls: all.own(
                "cloud_calls",
                &["operation", "result"],
                "Calls to the service: ok, or the kind of failure",
                Family::default(),
            ),
            took: all.own(
                "cloud_call_duration_seconds",
                &["operation"],
                "Duration of calls to the service",
                Family::new_with_constructor(call_seconds),
            ),
            waited: all.own(
                "rate_limiter_wait_seconds",
                &["priority"],
                "Time that calls waited for the request limit",
                Family::new_with_constructor(call_seconds),
            ),
        }
    }

    pub(super) fn call(&self, operation: &'static str, result: &'static str, took: Duration) {
        self.calls.get_or_create(&Call { operation, result }).inc();
        self.took
            .get_or_create(&OfOperation { operation })
            .observe(took.as_secs_f64());
    }

    pub(super) fn waited(&self, priority: &'static str, wait: Duration) {
        let waited = self.waited.get_or_create(&OfPriority { priority });
        waited.observe(wait.as_secs_f64());
    }
}

fn call_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.005, 2.0, 14))
}
