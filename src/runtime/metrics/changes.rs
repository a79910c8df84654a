//! Users' changes and their results.

use super::register::Register;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use std::time::Duration;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct End {
    verb: &'static str,
    outcome: &'static str,
}

/// Metrics of edits, of the operations that they cause, and of servers that were surplus or orphaned.
#[derive(Clone)]
pub(super) struct Changes {
    edits: Family<End, Histogram>,
    operations: Family<End, Histogram>,
    pub surplus_released: Counter,
    pub orphaned: Counter,
}

impl Changes {
    pub(super) fn of(all: &mut Register) -> Self {
        Self {
            edits: all.own(
                "change_duration_seconds",
                &["verb", "outcome"],
                "Time from an edit, an apply or a deletion to the status that reports it done or stalled, by the last operation that it needed",
                Family::new_with_constructor(seconds_of_a_server),
            ),
            operations: all.own(
                "operation_duration_seconds",
                &["verb", "outcome"],
                "Time from the intent of an operation to its end, in whole seconds",
                Family::new_with_constructor(seconds_of_a_server),
            ),
            surplus_released: all.own(
                "surplus_servers_released",
                &[],
                "Surplus servers released: a duplicated or late request had bought them",
                Counter::default(),
            ),
            orphaned: all.own(
                "servers_orphaned",
                &[],
                "Instances that disappeared before their server was confirmed gone: the finalizer was removed by hand, or etcd was restored",
                Counter::default(),
            ),
        }
    }

    pub(super) fn edit(&self, verb: &'static str, outcome: &'static str, took: Duration) {
        let seconds = self.edits.get_or_create(&End { verb, outcome });
        seconds.observe(took.as_secs_f64());
    }

    pub(super) fn operation(&self, verb: &'static str, outcome: &'static str, took: Duration) {
        let seconds = self.operations.get_or_create(&End { verb, outcome });
        seconds.observe(took.as_secs_f64());
    }
}

/// From a start that takes a second to a reinstall that takes an hour.
fn seconds_of_a_server() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 13))
}
