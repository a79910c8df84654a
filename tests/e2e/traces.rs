//! The data that an OpenTelemetry collector receives, and a log filter that changes while the operator runs.

use crate::support::{Setup, World, eventually, instance, side_by_side};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

/// Stands in for a collector: keeps the spans that it receives.
#[derive(Clone, Default)]
struct Collector {
    spans: Arc<Mutex<Vec<Span>>>,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Collector {
    /// Starts to listen; returns its address.
    async fn begin(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new()
            .route("/v1/traces", axum::routing::post(take))
            .with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        format!("http://{address}")
    }

    fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap().clone()
    }
}

async fn take(State(collector): State<Collector>, body: Bytes) {
    let request = ExportTraceServiceRequest::decode(body.clone()).unwrap();
    collector.bytes.lock().unwrap().extend_from_slice(&body);
    let of_resources = request.resource_spans.into_iter();
    let of_scopes = of_resources.flat_map(|resource| resource.scope_spans);
    let spans = of_scopes.flat_map(|scope| scope.spans);
    collector.spans.lock().unwrap().extend(spans);
}

fn attribute<'a>(span: &'a Span, name: &str) -> Option<&'a str> {
    let found = span.attributes.iter().find(|pair| pair.key == name)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_reconcile_is_a_trace_with_its_calls_and_its_decisions_name_it() {
    let collector = Collector::default();
    let endpoint = collector.begin().await;
    let mut world = Setup::default()
        .environment("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)
        .environment("OTEL_BSP_SCHEDULE_DELAY", "200")
        .begin("traces")
        .await;
    world.apply(&instance("web-1")).await;
    world.ready("web-1").await;
    let bought = eventually("the create is sent to the collector", async || {
        let spans = collector.spans();
        let create = |span: &&Span| {
            span.name == "service call" && attribute(span, "operation") == Some("create")
        };
        spans
            .iter()
            .find(create)
            .cloned()
            .ok_or(format!("{} spans", spans.len()))
    })
    .await;
    assert_eq!(attribute(&bought, "outcome"), Some("ok"));
    let root = eventually("so is the reconcile that called it", async || {
        let spans = collector.spans();
        let is_root =
            |span: &&Span| span.trace_id == bought.trace_id && span.parent_span_id.is_empty();
        spans
            .iter()
            .find(is_root)
            .cloned()
            .ok_or(format!("{} spans", spans.len()))
    })
    .await;
    assert_eq!(root.name, "reconcile");
    assert_eq!(attribute(&root, "kind"), Some("Instance"));
    assert_eq!(attribute(&root, "name"), Some("web-1"));
    assert_eq!(
        attribute(&root, "namespace"),
        Some(world.namespace.as_str())
    );
    // The writes of the intent before a call and of the receipt after it belong to the same trace.
    let spans = collector.spans();
    let writes = spans
        .iter()
        .filter(|span| span.trace_id == bought.trace_id && span.name == "kubernetes call");
    assert!(writes.count() >= 2, "{spans:#?}");
    let id: String = bought
        .trace_id
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let log = world.operator().log_text();
    let names_it = |line: &&str| line.contains(&id) && line.contains("web-1");
    assert!(log.lines().any(|line| names_it(&line)), "{id}: {log}");
    let sent = String::from_utf8_lossy(&collector.bytes.lock().unwrap()).into_owned();
    for secret in [World::TOKEN, World::PASSWORD] {
        assert!(!sent.contains(secret), "a secret was sent to the collector");
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_missing_or_silent_is_reported_once_and_delays_nothing() {
    // It accepts connections and answers nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    // No process listens at port 9 of loopback.
    let endpoints = [9, silent.local_addr().unwrap().port()];
    side_by_side(2, endpoints, useless_collector).await;
}

async fn useless_collector(port: u16) {
    let endpoint = format!("http://127.0.0.1:{port}");
    let mut world = Setup::default()
        .environment("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)
        .environment("OTEL_BSP_SCHEDULE_DELAY", "50")
        .begin("untraced")
        .await;
    world.apply(&instance("web-1")).await;
    world.ready("web-1").await;
    let message = "trace exporter failing";
    eventually("the log reports it", async || {
        let log = world.operator().log_text();
        log.contains(message).then_some(()).ok_or(log)
    })
    .await;
    world.delete("web-1").await;
    world.gone("web-1").await;
    let log = world.operator().log_text();
    assert_eq!(log.matches(message).count(), 1, "{log}");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_filter_changes_while_the_operator_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("filter");
    let mut world = Setup::default()
        .environment("CSO_LOG_FILTER_FILE", file.to_str().unwrap())
        .begin("filter")
        .await;
    let changed = |log: &str| log.matches("the log filter was changed").count();
    let is_changed = async |world: &mut World, times| {
        eventually("the log reports the changed filter", async || {
            let log = world.operator().log_text();
            (changed(&log) == times).then_some(()).ok_or(log)
        })
        .await;
    };
    let has_line_with = |log: &str, name: &str| log.lines().any(|line| line.contains(name));
    std::fs::write(&file, "error\n").unwrap();
    is_changed(&mut world, 1).await;
    world.apply(&instance("web-1")).await;
    world.ready("web-1").await;
    let quiet = world.operator().log_text();
    assert!(!has_line_with(&quiet, "web-1"), "{quiet}");
    // A missing file requests nothing: then RUST_LOG applies, which is info in tests.
    std::fs::remove_file(&file).unwrap();
    is_changed(&mut world, 2).await;
    world.apply(&instance("web-2")).await;
    world.ready("web-2").await;
    eventually("actions are logged again", async || {
        let log = world.operator().log_text();
        has_line_with(&log, "web-2").then_some(()).ok_or(log)
    })
    .await;
    std::fs::write(&file, "=,=").unwrap();
    eventually("the unreadable filter is reported", async || {
        let log = world.operator().log_text();
        let is_reported = has_line_with(&log, "the log filter is invalid");
        is_reported.then_some(()).ok_or(log)
    })
    .await;
    world.finish().await;
}
