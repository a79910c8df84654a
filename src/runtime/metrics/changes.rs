//! What users asked for, and what came of it.

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

/// Edits, the operations that they bring about, and servers that went another way.
#[derive(Clone)]
pub(super) struct Changes {
    edits: Family<End, Histogram>,
    operations: Family<End, Histogram>,
    pub surplus_released: Counter,
    pub left_behind: Counter,
}

impl Changes {
    pub(super) fn of(all: &mut Register) -> Self {
        Self {
            edits: all.own(
                "edit_seconds",
                &["verb", "outcome"],
                "From an edit, an apply or a deletion to the status that says done or stalled, by the last operation that it took",
                Family::new_with_constructor(seconds_of_a_server),
            ),
            operations: all.own(
                "operation_seconds",
                &["verb", "outcome"],
                "From the announcement of an operation to its end, to the second",
                Family::new_with_constructor(seconds_of_a_server),
            ),
            surplus_released: all.own(
                "surplus_servers_released",
                &[],
                "Servers released that a doubled or late request had bought",
                Counter::default(),
            ),
            left_behind: all.own(
                "servers_left_behind",
                &[],
                "Instances that went before their server was confirmed gone: a finalizer taken away by hand, an etcd restored from before them",
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
