//! Counters and gauges, in OpenMetrics form. Labels are bounded words, never names of objects or texts of errors.

use super::queue::schedule::Priority;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReconcileLabels {
    kind: String,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabel {
    kind: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct QueueLabels {
    kind: String,
    priority: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CallLabels {
    operation: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OperationLabel {
    operation: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RightLabel {
    what: &'static str,
}

/// What is told of the queues of both kinds.
#[derive(Clone)]
struct Queues {
    reconciles: Family<ReconcileLabels, Counter>,
    under_way: Family<KindLabel, Gauge>,
    waiting: Family<QueueLabels, Gauge>,
    waited: Family<QueueLabels, Histogram>,
}

/// Every metric of the operator; cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    queues: Queues,
    watch_errors: Family<KindLabel, Counter>,
    cloud_calls: Family<CallLabels, Counter>,
    cloud_seconds: Family<OperationLabel, Histogram>,
    kube_writes: Family<CallLabels, Counter>,
    surplus_released: Counter,
    left_behind: Counter,
    active: Gauge,
    unsafe_rights: Family<RightLabel, Gauge>,
    log_dropped: Counter,
    dropped_lines: Arc<OnceLock<DroppedLines>>,
}

/// Tells how many lines of the log were dropped so far.
type DroppedLines = Box<dyn Fn() -> u64 + Send + Sync>;

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("cloud_server_operator");
        let all = &mut registry;
        Self {
            queues: Queues::of(all),
            watch_errors: add(
                all,
                "watch_errors",
                "Failures of watches by kind",
                Family::default(),
            ),
            cloud_calls: add(
                all,
                "cloud_calls",
                "Calls to the service by operation and result",
                Family::default(),
            ),
            cloud_seconds: add(
                all,
                "cloud_call_seconds",
                "Duration of calls to the service",
                Family::new_with_constructor(call_seconds),
            ),
            kube_writes: add(
                all,
                "kubernetes_writes",
                "Writes to the apiserver by purpose and result",
                Family::default(),
            ),
            surplus_released: add(
                all,
                "surplus_servers_released",
                "Servers released because another one was recorded for their Instance",
                Counter::default(),
            ),
            left_behind: add(
                all,
                "servers_left_behind",
                "Servers whose Instance went before they were confirmed gone",
                Counter::default(),
            ),
            active: add(
                all,
                "active",
                "1 in the process that acts, 0 in one that stands by",
                Gauge::default(),
            ),
            unsafe_rights: add(
                all,
                "unsafe_rights",
                "1 where the apiserver does not refuse the operator what it must not do",
                Family::default(),
            ),
            log_dropped: add(
                all,
                "log_lines_dropped",
                "Lines of the log that nobody read in time",
                Counter::default(),
            ),
            registry: Arc::new(Mutex::new(registry)),
            dropped_lines: Arc::default(),
        }
    }
}

impl Queues {
    fn of(all: &mut Registry) -> Self {
        Self {
            reconciles: add(
                all,
                "reconciles",
                "Reconciles by kind and result",
                Family::default(),
            ),
            under_way: add(
                all,
                "reconciles_active",
                "Reconciles that run now",
                Family::default(),
            ),
            waiting: add(
                all,
                "queue_depth",
                "Objects that wait for a reconcile by kind and priority",
                Family::default(),
            ),
            waited: add(
                all,
                "queue_seconds",
                "How long objects waited for a reconcile by kind and priority",
                Family::new_with_constructor(queue_seconds),
            ),
        }
    }
}

/// Registers a metric, and gives it.
fn add<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

fn queue_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 4.0, 9))
}

fn call_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.005, 2.0, 14))
}

impl Metrics {
    /// A reconcile ended.
    pub fn reconcile(&self, kind: &str, result: &'static str) {
        self.queues
            .reconciles
            .get_or_create(&ReconcileLabels {
                kind: kind.to_owned(),
                result,
            })
            .inc();
    }

    /// A reconcile begins, after so long a wait.
    pub fn waited(&self, kind: &str, priority: Priority, wait: Duration) {
        let labels = QueueLabels {
            kind: kind.to_owned(),
            priority: priority.as_str(),
        };
        let waited = self.queues.waited.get_or_create(&labels);
        waited.observe(wait.as_secs_f64());
    }

    /// How many reconciles run, and how many objects wait for one.
    pub fn queue(&self, kind: &str, under_way: usize, waiting: impl Fn(Priority) -> usize) {
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let label = KindLabel {
            kind: kind.to_owned(),
        };
        let gauge = self.queues.under_way.get_or_create(&label);
        gauge.set(count(under_way));
        for priority in Priority::ALL {
            let labels = QueueLabels {
                kind: kind.to_owned(),
                priority: priority.as_str(),
            };
            let gauge = self.queues.waiting.get_or_create(&labels);
            gauge.set(count(waiting(priority)));
        }
    }

    /// A watch failed and goes on.
    pub fn watch_error(&self, kind: &str) {
        self.watch_errors
            .get_or_create(&KindLabel {
                kind: kind.to_owned(),
            })
            .inc();
    }

    /// A call to the service ended; `result` is `ok` or the category of its error.
    pub fn cloud_call(&self, operation: &'static str, result: &'static str, took: Duration) {
        self.cloud_calls
            .get_or_create(&CallLabels { operation, result })
            .inc();
        self.cloud_seconds
            .get_or_create(&OperationLabel { operation })
            .observe(took.as_secs_f64());
    }

    /// A write to the apiserver ended; `result` is `ok` or the category of its error.
    pub fn kube_write(&self, operation: &'static str, result: &'static str) {
        self.kube_writes
            .get_or_create(&CallLabels { operation, result })
            .inc();
    }

    /// A server was released because another one is recorded.
    pub fn surplus_released(&self) {
        self.surplus_released.inc();
    }

    /// An Instance went and its server did not.
    pub fn left_behind(&self) {
        self.left_behind.inc();
    }

    /// Whether this process acts.
    pub fn active(&self, active: bool) {
        self.active.set(active.into());
    }

    /// Whether the operator may do what it must not.
    pub fn unsafe_right(&self, what: &'static str, is_allowed: bool) {
        self.unsafe_rights
            .get_or_create(&RightLabel { what })
            .set(is_allowed.into());
    }

    /// Where to ask, at each scrape, how many lines of the log were dropped. The first that is given stays.
    pub fn count_dropped_lines(&self, count: impl Fn() -> u64 + Send + Sync + 'static) {
        let _ = self.dropped_lines.set(Box::new(count));
    }

    /// The text that a scrape gets.
    pub fn encode(&self) -> String {
        if let Some(count) = self.dropped_lines.get() {
            self.log_dropped.inner().store(count(), Ordering::Relaxed);
        }
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        if prometheus_client::encoding::text::encode(&mut text, &registry).is_err() {
            tracing::error!("metrics could not be encoded");
        }
        text
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}
