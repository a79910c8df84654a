//! Registers metrics, and records the description of each for the reference page.

use prometheus_client::encoding::EncodeMetric;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Metric, Registry};

/// Prefix of the operator's own names. The other names are those that dashboards for controllers use.
const OWN: &str = "cloud_server_operator";

/// A metric as the reference describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its name in queries; for a histogram without `_bucket`, `_sum` and `_count`.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    pub labels: &'static [&'static str],
    /// Its help text.
    pub help: &'static str,
}

/// The registry while it is filled.
#[derive(Debug, Default)]
pub(super) struct Register {
    pub registry: Registry,
    pub described: Vec<Described>,
}

impl Register {
    /// Registers a metric with the operator's prefix, and returns it. A counter is named without `_total`.
    pub(super) fn own<M: Metric + Clone>(
        &mut self,
        name: &str,
        labels: &'static [&'static str],
        help: &'static str,
        metric: M,
    ) -> M {
        self.known(&format!("{OWN}_{name}"), labels, help, metric)
    }

    /// Registers a metric under an established name.
    pub(super) fn known<M: Metric + Clone>(
        &mut self,
        name: &str,
        labels: &'static [&'static str],
        help: &'static str,
        metric: M,
    ) -> M {
        let kind = EncodeMetric::metric_type(&metric);
        let end = match kind {
            MetricType::Counter => "_total",
            MetricType::Gauge | MetricType::Histogram | MetricType::Info | MetricType::Unknown => {
                ""
            }
        };
        self.described.push(Described {
            name: format!("{name}{end}"),
            kind: kind.as_str().to_owned(),
            labels,
            help,
        });
        self.registry.register(name, help, metric.clone());
        metric
    }
}
