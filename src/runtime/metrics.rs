//! Counters, gauges, histograms in OpenMetrics form. Labels have fixed sets of values, never names of objects or texts of errors.

mod fleet;
mod register;

use super::host;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use register::{by, histogram, plain};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tracing_appender::non_blocking::ErrorCounter;

pub use fleet::{Listings, ObjectState};
pub use register::By;

/// Every metric of the operator; cheap to clone.
pub type Metrics = Arc<Families>;

type Seconds = Gauge<f64, AtomicU64>;

/// The metrics, in the order of the reference page. The registration of each describes it.
pub struct Families {
    registry: Mutex<Registry>,
    pub operations: By<Histogram, 2>,
    pub surplus_released: Counter,
    pub orphaned: Counter,
    pub instances: By<Gauge, 3>,
    pub accounts: By<Gauge, 3>,
    pub drifted: By<Gauge, 1>,
    pub in_progress: By<Gauge, 2>,
    pub oldest_in_progress: By<Seconds, 2>,
    pub unowned: By<Gauge, 1>,
    pub inventory_age: By<Seconds, 1>,
    pub calls: By<Counter, 2>,
    pub call_duration: By<Histogram, 1>,
    pub limiter_wait: By<Histogram, 1>,
    pub reconciles: By<Counter, 2>,
    pub reconcile_duration: By<Histogram, 1>,
    pub running: By<Gauge, 1>,
    pub waiting: By<Gauge, 2>,
    pub queue_wait: By<Histogram, 2>,
    pub watch_errors: By<Counter, 1>,
    pub kube_writes: By<Counter, 2>,
    pub active: By<Gauge, 1>,
    pub excessive_permissions: By<Gauge, 1>,
    log_dropped: Counter,
    resident: Gauge,
    allocated: Gauge,
    memory_limit: Gauge,
    pub answer_memory: Gauge,
    dropped_lines: OnceLock<ErrorCounter>,
    survey: OnceLock<Survey>,
}

/// Sets the metrics about all objects of the shard on which this process acts.
type Survey = Box<dyn Fn(&Families) + Send + Sync>;

impl Default for Families {
    fn default() -> Self {
        let mut all = Registry::default();
        let mut inner = Families {
            operations: histogram(
                &mut all,
                "cloud_server_operator_operation_duration_seconds",
                ["verb", "outcome"],
                "Time from the intent of an operation to its end, in whole seconds",
                || Histogram::new(exponential_buckets(1.0, 2.0, 13)),
            ),
            surplus_released: plain(
                &mut all,
                "cloud_server_operator_surplus_servers_released",
                "Surplus servers released: a duplicated or late request had bought them",
            ),
            orphaned: plain(
                &mut all,
                "cloud_server_operator_servers_orphaned",
                "Instances that disappeared before their server was confirmed gone: the finalizer was removed by hand, or etcd was restored",
            ),
            instances: by(
                &mut all,
                "cloud_server_operator_instances",
                ["shard", "state", "reason"],
                "Instances by the state and the reason of their condition Ready",
            ),
            accounts: by(
                &mut all,
                "cloud_server_operator_accounts",
                ["shard", "state", "reason"],
                "Accounts by the state and the reason of their condition Ready",
            ),
            drifted: by(
                &mut all,
                "cloud_server_operator_instances_drifted",
                ["shard"],
                "Instances whose server differs from the spec in a way that only a user may resolve",
            ),
            in_progress: by(
                &mut all,
                "cloud_server_operator_operations_in_progress",
                ["shard", "verb"],
                "Operations in progress at the service",
            ),
            oldest_in_progress: by(
                &mut all,
                "cloud_server_operator_operations_in_progress_oldest_age_seconds",
                ["shard", "verb"],
                "Age of the oldest operation in progress",
            ),
            unowned: by(
                &mut all,
                "cloud_server_operator_servers_unowned",
                ["shard"],
                "Servers in the newest listings of all watched zones that no Instance owns",
            ),
            inventory_age: by(
                &mut all,
                "cloud_server_operator_inventory_age_seconds",
                ["shard"],
                "Age of the last complete listing of a watched zone; the highest of all zones",
            ),
            calls: by(
                &mut all,
                "cloud_server_operator_cloud_calls",
                ["operation", "result"],
                "Calls to the service: ok, or the kind of failure",
            ),
            call_duration: histogram(
                &mut all,
                "cloud_server_operator_cloud_call_duration_seconds",
                ["operation"],
                "Duration of calls to the service",
                call_buckets,
            ),
            limiter_wait: histogram(
                &mut all,
                "cloud_server_operator_rate_limiter_wait_seconds",
                ["priority"],
                "Time that calls waited for the request limit",
                call_buckets,
            ),
            reconciles: by(
                &mut all,
                "controller_runtime_reconcile",
                ["controller", "result"],
                "Reconciles that ended: success, or error (a panic or a timeout)",
            ),
            reconcile_duration: histogram(
                &mut all,
                "controller_runtime_reconcile_time_seconds",
                ["controller"],
                "Duration of reconciles, including their calls and writes",
                || Histogram::new(exponential_buckets(0.005, 2.0, 16)),
            ),
            running: by(
                &mut all,
                "controller_runtime_active_workers",
                ["controller"],
                "Reconciles in progress",
            ),
            waiting: by(
                &mut all,
                "workqueue_depth",
                ["controller", "priority"],
                "Objects waiting for a reconcile",
            ),
            queue_wait: histogram(
                &mut all,
                "workqueue_queue_duration_seconds",
                ["controller", "priority"],
                "Time that objects waited until their reconcile began",
                || Histogram::new(exponential_buckets(0.001, 4.0, 9)),
            ),
            watch_errors: by(
                &mut all,
                "cloud_server_operator_watch_errors",
                ["kind"],
                "Watches that failed and restarted",
            ),
            kube_writes: by(
                &mut all,
                "cloud_server_operator_kubernetes_writes",
                ["operation", "result"],
                "Writes to the apiserver by purpose: ok, or the kind of failure",
            ),
            active: by(
                &mut all,
                "cloud_server_operator_shard_active",
                ["shard"],
                "1 in the process that is active on the shard (0-of-1 without shards), 0 in the others",
            ),
            excessive_permissions: by(
                &mut all,
                "cloud_server_operator_excessive_permissions",
                ["permission"],
                "1 if the apiserver accepts a request of the operator that it should reject",
            ),
            log_dropped: plain(
                &mut all,
                "cloud_server_operator_log_lines_dropped",
                "Log lines that were dropped because they were not read in time",
            ),
            resident: plain(
                &mut all,
                "process_resident_memory_bytes",
                "Resident memory of the process",
            ),
            allocated: plain(
                &mut all,
                "cloud_server_operator_allocated_bytes",
                "Memory that the program has allocated; resident memory also includes partly used pages and the program itself",
            ),
            memory_limit: plain(
                &mut all,
                "cloud_server_operator_memory_limit_bytes",
                "Memory limit of the process's control groups; 0 without a limit or if it cannot be read",
            ),
            answer_memory: plain(
                &mut all,
                "cloud_server_operator_response_memory_available_bytes",
                "Memory for answers of services, in use or not, at most 48 MiB; calls wait while it is used up",
            ),
            registry: Mutex::default(),
            dropped_lines: OnceLock::new(),
            survey: OnceLock::new(),
        };
        let build: By<Gauge, 1> = by(
            &mut all,
            "cloud_server_operator_build_info",
            ["version"],
            "Always 1; the label is the version of the program",
        );
        build.with([env!("CARGO_PKG_VERSION")]).set(1);
        inner.registry = Mutex::new(all);
        inner
    }
}

impl Families {
    /// Sets the counter of the dropped log lines, which each scrape reads. Only the first call counts.
    pub fn count_dropped_lines(&self, counter: ErrorCounter) {
        let _ = self.dropped_lines.set(counter);
    }

    /// Registers the function that sets the metrics about all objects. Each scrape runs it. Only the first call counts. Only an
    /// active process may register one, since a standby sees the same objects.
    pub fn survey(&self, survey: impl Fn(&Families) + Send + Sync + 'static) {
        let _ = self.survey.set(Box::new(survey));
    }

    /// The text for a scrape.
    pub fn encode(&self) -> String {
        if let Some(counter) = self.dropped_lines.get() {
            let lines = counter.dropped_lines() as u64;
            self.log_dropped.inner().store(lines, Ordering::Relaxed);
        }
        self.read_memory();
        let mut text = String::new();
        // Locked from here on, so that no other scrape shows half of this one's counts.
        let registry = self.registry.lock();
        let registry = registry.unwrap_or_else(PoisonError::into_inner);
        if let Some(survey) = self.survey.get() {
            survey(self);
        }
        if prometheus_client::encoding::text::encode(&mut text, &registry).is_err() {
            tracing::error!("metrics could not be encoded");
        }
        text
    }

    /// Resident memory and the limit are 0 if the system does not provide them; allocated memory keeps its last value.
    fn read_memory(&self) {
        if tikv_jemalloc_ctl::epoch::advance().is_ok()
            && let Ok(allocated) = tikv_jemalloc_ctl::stats::allocated::read()
        {
            self.allocated.set(signed(allocated as u64));
        }
        let limit = host::memory_limit().ok().flatten();
        self.memory_limit.set(limit.map_or(0, signed));
        let resident = host::resident_memory();
        self.resident.set(resident.map_or(0, signed));
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn call_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.005, 2.0, 14))
}

#[cfg(test)]
pub(crate) mod tests;
