//! Spans of a reconcile: one trace for each reconcile, with its calls to the service and to the apiserver.
//!
//! The program configures the collector together with its log. Without a collector, no span is created. Spans contain names of
//! objects and operations and the results of calls. They contain no external text, and so no secrets.

use opentelemetry::trace::{TraceContextExt, TraceId};
use std::fmt::Display;
use tracing::field::Empty;
use tracing::{Span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The target of all spans, which excludes them from the log.
pub const TARGET: &str = concat!(env!("CARGO_CRATE_NAME"), "::traces");

/// One reconcile of one object.
#[must_use]
pub fn reconcile(kind: &str, namespace: &str, name: &str) -> Span {
    info_span!(target: TARGET, "reconcile", kind, namespace, name)
}

/// One call to the service or to the apiserver. `name` is that of the span; [`ended`] records the outcome.
#[must_use]
pub fn call(name: &str, operation: &str) -> Span {
    info_span!(
        target: TARGET,
        "call",
        otel.name = name,
        otel.kind = "client",
        operation,
        outcome = Empty,
        otel.status_code = Empty,
    )
}

/// The wait for a permit of the rate limiter.
#[must_use]
pub fn wait_for_permit(priority: &str) -> Span {
    info_span!(target: TARGET, "wait for a permit", priority)
}

/// Records the end of a call, with the category of its error, if any.
pub fn ended(span: &Span, error: Option<&'static str>) {
    span.record("outcome", error.unwrap_or("ok"));
    if error.is_some() {
        span.record("otel.status_code", "ERROR");
    }
}

/// The current trace, for a line of the log. None if traces are not collected.
#[must_use]
pub fn id() -> Option<impl Display> {
    let span = Span::current();
    if span.is_disabled() {
        return None;
    }
    let id = span.context().span().span_context().trace_id();
    (id != TraceId::INVALID).then_some(id)
}
