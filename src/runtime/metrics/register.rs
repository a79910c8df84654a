//! Metrics with labels, and their registration.

use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};
use std::time::Duration;

/// A metric with one series for each combination of the values of its labels.
#[derive(Debug)]
pub struct By<M, const N: usize> {
    labels: [&'static str; N],
    series: Family<[(&'static str, String); N], M>,
}

impl<M: Clone, const N: usize> By<M, N> {
    /// The series of these values.
    pub fn with(&self, values: [&str; N]) -> M {
        let labels = std::array::from_fn(|at| (self.labels[at], values[at].to_owned()));
        self.series.get_or_create_owned(&labels)
    }

    /// Removes all series.
    pub fn clear(&self) {
        self.series.clear();
    }
}

impl<const N: usize> By<Counter, N> {
    pub fn count(&self, values: [&str; N]) {
        self.with(values).inc();
    }
}

impl<const N: usize> By<Gauge, N> {
    pub fn set(&self, values: [&str; N], value: impl TryInto<i64>) {
        self.with(values).set(value.try_into().unwrap_or(i64::MAX));
    }
}

impl<const N: usize> By<Histogram, N> {
    pub fn observe(&self, values: [&str; N], took: Duration) {
        self.with(values).observe(took.as_secs_f64());
    }
}

/// Registers counters or gauges with labels. The names of counters are given without `_total`.
pub(super) fn by<M, const N: usize>(
    all: &mut Registry,
    name: &str,
    labels: [&'static str; N],
    help: &str,
) -> By<M, N>
where
    M: Metric + TypedMetric + Clone + Default,
{
    histogram(all, name, labels, help, M::default)
}

/// Registers histograms, or other metrics with labels, whose series `new` makes.
pub(super) fn histogram<M, const N: usize>(
    all: &mut Registry,
    name: &str,
    labels: [&'static str; N],
    help: &str,
    new: fn() -> M,
) -> By<M, N>
where
    M: Metric + TypedMetric + Clone,
{
    let series = Family::new_with_constructor(new);
    all.register(name, help, series.clone());
    By { labels, series }
}

/// Registers a metric without labels.
pub(super) fn plain<M: Metric + Clone + Default>(all: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    all.register(name, help, metric.clone());
    metric
}
