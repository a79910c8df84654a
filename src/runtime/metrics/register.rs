//! Registers metrics, and records the description of each for the reference page.

use prometheus_client::encoding::EncodeMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Metric, Registry};
use std::time::Duration;

/// A metric as the reference describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its name in queries; for a histogram without `_bucket`, `_sum` and `_count`.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    pub labels: Vec<&'static str>,
    /// Its help text.
    pub help: &'static str,
}

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

/// The registry while it is filled. The names of counters are given without `_total`.
#[derive(Debug, Default)]
pub(super) struct Register {
    pub(super) registry: Registry,
    pub(super) described: Vec<Described>,
}

impl Register {
    /// Registers counters or gauges with labels.
    pub(super) fn by<M, const N: usize>(
        &mut self,
        name: &str,
        labels: [&'static str; N],
        help: &'static str,
    ) -> By<M, N>
    where
        M: Metric + TypedMetric + Clone + Default,
    {
        self.histogram(name, labels, help, M::default)
    }

    /// Registers metrics with labels that do not begin as the default, as histograms.
    pub(super) fn histogram<M, const N: usize>(
        &mut self,
        name: &str,
        labels: [&'static str; N],
        help: &'static str,
        new: fn() -> M,
    ) -> By<M, N>
    where
        M: Metric + TypedMetric + Clone,
    {
        let series = Family::new_with_constructor(new);
        self.add(name, labels.to_vec(), help, series.clone());
        By { labels, series }
    }

    /// Registers a metric without labels.
    pub(super) fn plain<M: Metric + Clone + Default>(
        &mut self,
        name: &str,
        help: &'static str,
    ) -> M {
        let metric = M::default();
        self.add(name, Vec::new(), help, metric.clone());
        metric
    }

    fn add(
        &mut self,
        name: &str,
        labels: Vec<&'static str>,
        help: &'static str,
        metric: impl Metric,
    ) {
        let kind = EncodeMetric::metric_type(&metric);
        let end = if matches!(kind, MetricType::Counter) {
            "_total"
        } else {
            ""
        };
        self.described.push(Described {
            name: format!("{name}{end}"),
            kind: kind.as_str().to_owned(),
            labels,
            help,
        });
        self.registry.register(name, help, metric);
    }
}
