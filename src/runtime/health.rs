//! Serves `/livez`, `/readyz` and `/metrics` on one port, or `/metrics` on a port of its own, optionally with TLS and
//! authorization. Probes stay unauthenticated: a kubelet has no token for them.

use super::access::{MetricsAuthorizer, Review};
use super::serve::{Certificate, serve};
use super::watch::Synced;
use super::{Heartbeats, Metrics};
use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::net::SocketAddr;
use tokio_util::sync::CancellationToken;

/// The path for scrapes.
const METRICS: &str = "/metrics";

/// The watches by name, and whether each has its initial list.
type Watches = Vec<(String, Synced)>;

/// A separate port for metrics.
pub struct MetricsPort {
    pub listen: SocketAddr,
    /// TLS, if requested.
    pub certificate: Option<Certificate>,
    /// Checks whether the caller may read metrics, if requested.
    pub authorizer: Option<MetricsAuthorizer>,
}

/// Begins to serve, until `cancel`. Logs the addresses: with port 0, only the log shows the port.
///
/// # Errors
/// An address cannot be bound: names the address and the reason.
pub async fn begin(
    listen: SocketAddr,
    port: Option<MetricsPort>,
    metrics: Metrics,
    watches: Watches,
    heartbeats: Heartbeats,
    cancel: CancellationToken,
) -> Result<(), String> {
    let serve = async |listen, app, tls| {
        let served = serve(listen, app, tls, cancel.clone()).await;
        served.map_err(|error| format!("cannot listen on {listen}: {error}"))
    };
    let probes = probes(watches, heartbeats);
    let (probes, metrics) = match port {
        None => {
            let both = probes.merge(page(metrics, None));
            let address = serve(listen, both, None).await?;
            (address, address)
        }
        Some(port) => {
            let page = page(metrics, port.authorizer);
            let metrics = serve(port.listen, page, port.certificate).await?;
            (serve(listen, probes, None).await?, metrics)
        }
    };
    tracing::info!(address = %probes, %metrics, "serving /livez, /readyz and /metrics");
    Ok(())
}

fn probes(watches: Watches, heartbeats: Heartbeats) -> Router {
    Router::new()
        .route("/livez", get(async move || live(&heartbeats)))
        .route("/readyz", get(async move || ready(&watches)))
}

fn page(metrics: Metrics, authorizer: Option<MetricsAuthorizer>) -> Router {
    let scrape = async move |head: HeaderMap| scrape(&metrics, authorizer.as_ref(), &head).await;
    Router::new().route(METRICS, get(scrape))
}

/// Alive while every task that has a heartbeat makes progress. External failures do not count: a new process would not help, and
/// would lack the state of this one.
fn live(heartbeats: &Heartbeats) -> (StatusCode, String) {
    let silent = heartbeats.missing();
    if !silent.is_empty() {
        tracing::error!(?silent, "no sign of life");
    }
    answer("no sign of life", &silent)
}

/// Ready when every watch has its initial list, even while the process waits for its Lease: a rolling update waits for each Pod
/// to become ready, and a new Pod may wait for the Leases of the old ones.
fn ready(watches: &Watches) -> (StatusCode, String) {
    let unlisted = watches.iter().filter(|(_, synced)| !*synced.borrow());
    let missing: Vec<String> = unlisted.map(|(name, _)| name.clone()).collect();
    answer("not listed yet", &missing)
}

/// The answer to a probe: OK if nothing is missing.
fn answer(problem: &str, missing: &[String]) -> (StatusCode, String) {
    match missing.is_empty() {
        true => (StatusCode::OK, "ok\n".to_owned()),
        false => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("{problem}: {}\n", missing.join(", ")),
        ),
    }
}

async fn scrape(
    metrics: &Metrics,
    authorizer: Option<&MetricsAuthorizer>,
    head: &HeaderMap,
) -> Response {
    if let Some(authorizer) = authorizer
        && let Err(refused) = admit(authorizer, head).await
    {
        return refused.into_response();
    }
    let format = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, format)], metrics.encode()).into_response()
}

/// Admits a caller whose token belongs to a user with permission to read the page.
async fn admit(
    authorizer: &MetricsAuthorizer,
    head: &HeaderMap,
) -> Result<(), (StatusCode, &'static str)> {
    let token = head
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "))
        .ok_or((StatusCode::UNAUTHORIZED, "a bearer token is needed\n"))?;
    match authorizer.review(token, METRICS).await {
        Ok(Review::Allowed) => Ok(()),
        Ok(Review::UnknownToken) => Err((StatusCode::UNAUTHORIZED, "the token is not known\n")),
        Ok(Review::Forbidden) => Err((
            StatusCode::FORBIDDEN,
            "get of the nonResourceURL /metrics is not allowed\n",
        )),
        Err(error) => {
            tracing::warn!(%error, "a request for metrics was not reviewed; deploy/metrics-auth grants the rights for it");
            let message = "the apiserver did not review the token\n";
            Err((StatusCode::SERVICE_UNAVAILABLE, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::Request;
    use std::time::Duration;
    use tower::ServiceExt;

    #[tokio::test(start_paused = true)]
    async fn a_task_without_a_heartbeat_fails_livez_and_is_named() {
        let heartbeats = Heartbeats::default();
        let heartbeat = heartbeats.expect("queue", Duration::from_secs(60));
        let app = probes(Vec::new(), heartbeats);
        let livez = async || {
            let request = Request::get("/livez").body(Body::empty()).unwrap();
            let answer = app.clone().oneshot(request).await.unwrap();
            let (head, body) = answer.into_parts();
            let body = axum::body::to_bytes(body, 1000).await.unwrap();
            (head.status, String::from_utf8(body.to_vec()).unwrap())
        };
        assert_eq!(livez().await, (StatusCode::OK, "ok\n".to_owned()));
        tokio::time::advance(Duration::from_secs(61)).await;
        let (status, words) = livez().await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(words, "no sign of life: queue\n");
        heartbeat.beat();
        assert_eq!(livez().await.0, StatusCode::OK);
    }
}
