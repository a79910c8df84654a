//! Reconciles and queues, under the metric names that dashboards for controller-runtime use.

use super::register::Register;
use crate::runtime::queue::schedule::Priority;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use std::time::Duration;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Controller {
    controller: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reconcile {
    controller: String,
    result: &'static str,
}

/// `name` is the name of the queue, which equals the controller's: older dashboards use `name`, newer ones `controller`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Queue {
    name: String,
    controller: String,
    priority: &'static str,
}

/// Metrics of the controllers of both kinds.
#[derive(Clone)]
pub(super) struct Controllers {
    reconciles: Family<Reconcile, Counter>,
    errors: Family<Controller, Counter>,
    took: Family<Controller, Histogram>,
    under_way: Family<Controller, Gauge>,
    places: Family<Controller, Gauge>,
    waiting: Family<Queue, Gauge>,
    waited: Family<Queue, Histogram>,
}

impl Controllers {
    pub(super) fn of(all: &mut Register) -> Self {
        Self {
            reconciles: all.known(
                "controller_runtime_reconcile",
                &["controller", "result"],
                "Reconciles that ended: success, or error (a panic or a timeout)",
                Family::default(),
            ),
            errors: all.known(
                "controller_runtime_reconcile_errors",
                &["controller"],
                "Reconciles that panicked or timed out",
                Family::default(),
            ),
            took: all.known(
                "controller_runtime_reconcile_time_seconds",
                &["controller"],
                "Duration of reconciles, including their calls and writes",
                Family::new_with_constructor(reconcile_seconds),
            ),
            under_way: all.known(
                "controller_runtime_active_workers",
                &["controller"],
                "Reconciles in progress",
                Family::default(),
            ),
            places: all.known(
                "controller_runtime_max_concurrent_reconciles",
                &["controller"],
                "Maximum number of concurrent reconciles",
                Family::default(),
            ),
            waiting: all.known(
                "workqueue_depth",
                &["name", "controller", "priority"],
                "Objects waiting for a reconcile",
                Family::default(),
            ),
            waited: all.known(
                "workqueue_queue_duration_seconds",
                &["name", "controller", "priority"],
                "Time that objects waited until their reconcile began",
                Family::new_with_constructor(queue_seconds),
            ),
        }
    }

    pub(super) fn reconciled(&self, kind: &str, is_success: bool, took: Duration) {
        let label = controller(kind);
        let result = if is_success { "success" } else { "error" };
        // The counter exists from the first reconcile on, so that the first error shows as an increase.
        let errors = self.errors.get_or_create(&label);
        errors.inc_by(u64::from(!is_success));
        let took_so_far = self.took.get_or_create(&label);
        took_so_far.observe(took.as_secs_f64());
        let counted = Reconcile {
            controller: label.controller.clone(),
            result,
        };
        self.reconciles.get_or_create(&counted).inc();
    }

    pub(super) fn waited(&self, kind: &str, priority: Priority, wait: Duration) {
        let waited = self.waited.get_or_create(&queue(kind, priority));
        waited.observe(wait.as_secs_f64());
    }
}

/// The gauges of one queue. Dropping this removes the queue's part from the gauges.
pub struct QueueGauges {
    under_way: Counted,
    places: Counted,
    waiting: Vec<(Priority, Counted)>,
}

impl QueueGauges {
    pub(super) fn of(controllers: &Controllers, kind: &str) -> Self {
        let label = controller(kind);
        let waiting = Priority::ALL.map(|priority| {
            let gauge = controllers
                .waiting
                .get_or_create_owned(&queue(kind, priority));
            (priority, Counted::new(gauge))
        });
        Self {
            under_way: Counted::new(controllers.under_way.get_or_create_owned(&label)),
            places: Counted::new(controllers.places.get_or_create_owned(&label)),
            waiting: waiting.into(),
        }
    }

    /// Shows how many reconciles run, how many may run, and how many objects wait for one.
    pub fn show(
        &mut self,
        (under_way, places): (usize, usize),
        waiting: impl Fn(Priority) -> usize,
    ) {
        self.under_way.set(under_way);
        self.places.set(places);
        for (priority, counted) in &mut self.waiting {
            counted.set(waiting(*priority));
        }
    }
}

/// The part of one queue in a gauge.
struct Counted {
    gauge: Gauge,
    now: i64,
}

impl Counted {
    fn new(gauge: Gauge) -> Self {
        Self { gauge, now: 0 }
    }

    fn set(&mut self, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.gauge.inc_by(count - self.now);
        self.now = count;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.set(0);
    }
}

fn controller(kind: &str) -> Controller {
    Controller {
        controller: kind.to_lowercase(),
    }
}

fn queue(kind: &str, priority: Priority) -> Queue {
    let Controller { controller } = controller(kind);
    Queue {
        name: controller.clone(),
        controller,
        priority: priority.as_str(),
    }
}

fn queue_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 4.0, 9))
}

/// From 5 ms, a reconcile without a call, to the time limit of a reconcile.
fn reconcile_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.005, 2.0, 16))
}
