//! Sends spans to an OpenTelemetry collector, if the environment names one by the variables that OpenTelemetry defines.

use crate::api::names::MANAGER;
use crate::runtime::chain;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::runtime::Tokio;
use opentelemetry_sdk::trace::span_processor_with_async_runtime::BatchSpanProcessor;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, SpanData};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Either turns traces on.
const ENDPOINTS: [&str; 2] = [
    opentelemetry_otlp::OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
    opentelemetry_otlp::OTEL_EXPORTER_OTLP_ENDPOINT,
];
/// Deadline of one export. Spans that wait for it stay in a queue of bounded length.
const EXPORT_WITHIN: Duration = Duration::from_secs(5);
/// How long the end of the process may be delayed to send the last spans.
const END_WITHIN: Duration = Duration::from_secs(2);

/// Sends spans to a collector, in batches. Needs a runtime.
pub(super) struct Collector(SdkTracerProvider);

impl Collector {
    /// The collector that the environment names, if any.
    ///
    /// # Errors
    /// The environment names a collector that cannot be used.
    pub(super) fn of_environment() -> Result<Option<Self>, String> {
        let is_named = |name: &str| std::env::var(name).is_ok_and(|value| !value.is_empty());
        if !ENDPOINTS.iter().any(|name| is_named(name)) {
            return Ok(None);
        }
        crate::runtime::tls::install_provider();
        // As for the services: no proxy of the environment, and no redirects.
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(EXPORT_WITHIN)
            .build()
            .map_err(|error| chain(&error))?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .build()
            .map_err(|error| format!("the trace collector: {}", chain(&error)))?;
        let exporter = LoggedExporter {
            exporter,
            failed: AtomicBool::new(false),
        };
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name(MANAGER);
        }
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let provider = SdkTracerProvider::builder()
            .with_span_processor(BatchSpanProcessor::builder(exporter, Tokio).build())
            .with_resource(resource.with_attribute(version).build())
            .build();
        Ok(Some(Self(provider)))
    }

    pub(super) fn tracer(&self) -> SdkTracer {
        self.0.tracer(MANAGER)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // The processor ignores a deadline, so a thread waits for it. Spans that are not sent in time are lost with the process.
        let (provider, (ended, end)) = (self.0.clone(), mpsc::channel());
        std::thread::spawn(move || ended.send(provider.shutdown()));
        let _ = end.recv_timeout(END_WITHIN);
    }
}

/// Logs a failed export, and no further one until an export succeeds.
#[derive(Debug)]
struct LoggedExporter {
    exporter: SpanExporter,
    failed: AtomicBool,
}

impl opentelemetry_sdk::trace::SpanExporter for LoggedExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let exported = self.exporter.export(batch).await;
        let had_failed = self.failed.swap(exported.is_err(), Ordering::Relaxed);
        if exported.is_err() && !had_failed {
            // The error is not logged, since it may quote the answer of the collector.
            tracing::warn!(
                "trace exporter failing, dropping spans until the collector accepts them"
            );
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
