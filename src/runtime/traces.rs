//! Spans of what a reconcile does: one trace for each reconcile, with its calls to the service and to the apiserver.
//!
//! Who collects them, the program says where it begins its log. Where nobody does, none of these is made. They hold the names of
//! objects and of operations, and how a call ended: no text that came from outside, so no secret.

use opentelemetry::trace::{TraceContextExt, TraceId};
use std::fmt::Display;
use tracing::field::Empty;
use tracing::{Span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The target of all spans: they are no lines of the log.
pub const TARGET: &str = concat!(env!("CARGO_CRATE_NAME"), "::traces");

/// One reconcile of one object.
#[must_use]
pub fn reconcile(kind: &str, namespace: &str, name: &str) -> Span {
    info_span!(target: TARGET, "reconcile", kind, namespace, name)
}

/// One call to the service, by the name that metrics have for it. Its outcome comes by [`ended`].
#[must_use]
pub fn service_call(operation: &str) -> Span {
    info_span!(
        target: TARGET,
        "service call",
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

/// One call to the apiserver. Its outcome comes by [`ended`].
#[must_use]
pub fn kubernetes_call(operation: &str) -> Span {
    info_span!(
        target: TARGET,
        "kubernetes call",
        otel.kind = "client",
        operation,
        outcome = Empty,
        otel.status_code = Empty,
    )
}

/// A call ended: the category of its error, if it is one.
pub fn ended(span: &Span, error: Option<&'static str>) {
    span.record("outcome", error.unwrap_or("ok"));
    if error.is_some() {
        span.record("otel.status_code", "ERROR");
    }
}

/// The trace that this belongs to, for a line of the log. None where traces are not collected.
#[must_use]
pub fn id() -> Option<impl Display> {
    let span = Span::current();
    if span.is_disabled() {
        return None;
    }
    let id = span.context().span().span_context().trace_id();
    (id != TraceId::INVALID).then_some(id)
}
