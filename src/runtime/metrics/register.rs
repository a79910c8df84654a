//! Registers metrics, and remembers of each what the reference says of it.

use prometheus_client::encoding::EncodeMetric;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Metric, Registry};

/// What begins the names that are our own. The others are the names that dashboards for controllers know.
const OWN: &str = "cloud_server_operator";

/// A metric as the reference describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its name as a query says it; of a histogram without `_bucket`, `_sum` and `_count`.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it counts.
    pub help: &'static str,
}

/// The registry while it is filled.
#[derive(Debug, Default)]
pub(super) struct Register {
    pub registry: Registry,
    pub described: Vec<Described>,
}

impl Register {
    /// Registers a metric of ours, and gives it. A counter is named without `_total`.
    pub(super) fn own<M: Metric + Clone>(
        &mut self,
        name: &str,
        labels: &'static [&'static str],
        help: &'static str,
        metric: M,
    ) -> M {
        self.known(&format!("{OWN}_{name}"), labels, help, metric)
    }

    /// The same under a name that others know already.
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
