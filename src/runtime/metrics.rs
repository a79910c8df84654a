//! Counters and gauges, in OpenMetrics form. Labels are bounded words, never names of objects or texts of errors.

mod changes;
mod controllers;
mod fleet;
mod register;
mod service;
mod usage;

use super::Shard;
use super::queue::schedule::Priority;
use changes::Changes;
use controllers::Controllers;
use fleet::{FleetGauges, ShardLabel};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use register::Register;
use service::Service;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use usage::Usage;

pub use controllers::QueueGauges;
pub use fleet::{Fleet, Listings, Open, Standing};
pub use register::Described;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabel {
    kind: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WriteLabels {
    operation: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PermissionLabel {
    permission: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

/// Every metric of the operator; cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    described: Arc<[Described]>,
    changes: Changes,
    fleet: FleetGauges,
    controllers: Controllers,
    service: Service,
    process: Process,
    usage: Usage,
    dropped_lines: Arc<OnceLock<DroppedLines>>,
    survey: Arc<OnceLock<Survey>>,
}

/// The metrics of the process and of its apiserver.
#[derive(Clone)]
struct Process {
    watch_errors: Family<KindLabel, Counter>,
    kube_writes: Family<WriteLabels, Counter>,
    active: Family<ShardLabel, Gauge>,
    has_acted: Arc<AtomicBool>,
    excessive_permissions: Family<PermissionLabel, Gauge>,
    log_dropped: Counter,
}

/// Returns how many lines of the log were dropped so far.
type DroppedLines = Box<dyn Fn() -> u64 + Send + Sync>;

/// Returns the state of all objects, for the shard on which this process acts.
type Survey = Box<dyn Fn() -> (Shard, Fleet) + Send + Sync>;

impl Default for Metrics {
    fn default() -> Self {
        let mut all = Register::default();
        let changes = Changes::of(&mut all);
        let fleet = FleetGauges::of(&mut all);
        let service = Service::of(&mut all);
        let controllers = Controllers::of(&mut all);
        let process = Process::of(&mut all);
        let usage = Usage::of(&mut all);
        Self {
            registry: Arc::new(Mutex::new(all.registry)),
            described: all.described.into(),
            changes,
            fleet,
            controllers,
            service,
            process,
            usage,
            dropped_lines: Arc::default(),
            survey: Arc::default(),
        }
    }
}

impl Process {
    fn of(all: &mut Register) -> Self {
        let build = all.own(
            "build_info",
            &["version"],
            "Always 1; the label is the version of the program",
            Family::<BuildLabels, Gauge>::default(),
        );
        let version = env!("CARGO_PKG_VERSION");
        build.get_or_create(&BuildLabels { version }).set(1);
        Self {
            watch_errors: all.own(
                "watch_errors",
                &["kind"],
                "Watches that failed and restarted; the label includes the namespace if the operator watches single namespaces",
                Family::default(),
            ),
            kube_writes: all.own(
                "kubernetes_writes",
                &["operation", "result"],
                "Writes to the apiserver by purpose: ok, or the kind of failure",
                Family::default(),
            ),
            active: all.own(
                "shard_active",
                &["shard"],
                "1 in the process that is active on the shard (0-of-1 without shards), 0 in the others",
                Family::default(),
            ),
            has_acted: Arc::default(),
            excessive_permissions: all.own(
                "excessive_permissions",
                &["permission"],
                "1 if the apiserver accepts a request of the operator that it should reject",
                Family::default(),
            ),
            log_dropped: all.own(
                "log_lines_dropped",
                &[],
                "Log lines that were dropped because they were not read in time",
                Counter::default(),
            ),
        }
    }
}

impl Metrics {
    /// All metrics, in the order of the reference.
    pub fn described(&self) -> &[Described] {
        &self.described
    }

    /// A reconcile ended: successfully, by a panic, or by a timeout.
    pub fn reconcile(&self, kind: &str, is_success: bool, took: Duration) {
        self.controllers.reconciled(kind, is_success, took);
    }

    /// A reconcile begins after this wait.
    pub fn waited(&self, kind: &str, priority: Priority, wait: Duration) {
        self.controllers.waited(kind, priority, wait);
    }

    /// The gauges of one queue of a kind: all queues of that kind count together.
    pub fn queue(&self, kind: &str) -> QueueGauges {
        QueueGauges::of(&self.controllers, kind)
    }

    /// A watch failed and is retried.
    pub fn watch_error(&self, kind: &str) {
        self.process
            .watch_errors
            .get_or_create(&KindLabel {
                kind: kind.to_owned(),
            })
            .inc();
    }

    /// A call to the service ended; `result` is `ok` or the category of its error.
    pub fn cloud_call(&self, operation: &'static str, result: &'static str, took: Duration) {
        self.service.call(operation, result, took);
    }

    /// A call to the service may start after this wait at the request limit.
    pub fn limiter_waited(&self, priority: &'static str, wait: Duration) {
        self.service.waited(priority, wait);
    }

    /// A write to the apiserver ended; `result` is `ok` or the category of its error.
    pub fn kube_write(&self, operation: &'static str, result: &'static str) {
        self.process
            .kube_writes
            .get_or_create(&WriteLabels { operation, result })
            .inc();
    }

    /// Status reports that an edit is done, or that it needs action by a user first.
    pub fn edit(&self, verb: &'static str, outcome: &'static str, took: Duration) {
        self.changes.edit(verb, outcome, took);
    }

    /// Status reports that an operation ended.
    pub fn operation(&self, verb: &'static str, outcome: &'static str, took: Duration) {
        self.changes.operation(verb, outcome, took);
    }

    /// A server was released because another one is recorded.
    pub fn surplus_released(&self) {
        self.changes.surplus_released.inc();
    }

    /// An Instance disappeared before its server was confirmed gone.
    pub fn orphaned(&self) {
        self.changes.orphaned.inc();
    }

    /// The memory available for answers of services.
    pub fn room_for_answers(&self, bytes: usize) {
        self.usage
            .room
            .set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Adds all shards. This process acts on none of them yet.
    pub fn shards(&self, all: impl Iterator<Item = Shard>) {
        all.for_each(|shard| self.active(shard, false));
    }

    /// This process acts on a shard until the returned value is dropped.
    pub fn acts(&self, shard: Shard) -> Acts {
        self.process.has_acted.store(true, Ordering::Relaxed);
        self.active(shard, true);
        Acts(self.clone(), shard)
    }

    fn active(&self, shard: Shard, active: bool) {
        let shard = shard.to_string();
        let gauge = self.process.active.get_or_create(&ShardLabel { shard });
        gauge.set(active.into());
    }

    /// Whether the operator has a permission that it must not have.
    pub fn excessive_permission(&self, permission: &'static str, is_allowed: bool) {
        self.process
            .excessive_permissions
            .get_or_create(&PermissionLabel { permission })
            .set(is_allowed.into());
    }

    /// Sets the function that counts dropped log lines, for each scrape. The first one remains.
    pub fn count_dropped_lines(&self, count: impl Fn() -> u64 + Send + Sync + 'static) {
        let _ = self.dropped_lines.set(Box::new(count));
    }

    /// Sets the function that reports the state of all objects, for each scrape. The first one remains. It is not called before
    /// this process has acted: a standby sees all objects, too.
    pub fn survey(&self, survey: impl Fn() -> (Shard, Fleet) + Send + Sync + 'static) {
        let _ = self.survey.set(Box::new(survey));
    }

    /// The text for a scrape.
    pub fn encode(&self) -> String {
        let process = &self.process;
        if let Some(count) = self.dropped_lines.get() {
            let dropped = process.log_dropped.inner();
            dropped.store(count(), Ordering::Relaxed);
        }
        self.usage.read();
        let mut text = String::new();
        // The lock is held from here on, so that no other scrape shows half of this one's counts.
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let has_acted = process.has_acted.load(Ordering::Relaxed);
        if let Some(survey) = self.survey.get().filter(|_| has_acted) {
            let (shard, fleet) = survey();
            self.fleet.show(shard, &fleet);
        }
        if prometheus_client::encoding::text::encode(&mut text, &registry).is_err() {
            tracing::error!("metrics could not be encoded");
        }
        text
    }
}

/// While this value exists, this process acts on a shard.
#[must_use]
pub struct Acts(Metrics, Shard);

impl Drop for Acts {
    fn drop(&mut self) {
        self.0.active(self.1, false);
        // Only the active process tests the operator's rights.
        self.0.process.excessive_permissions.clear();
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

#[cfg(test)]
mod tests;
