//! Serves `/livez`, `/readyz` and `/metrics` on one port, or the last one on a port of its own, optionally with TLS and
//! authentication. Probes stay unauthenticated: a kubelet has no token for them.

use super::access::{Access, MetricsAuthorizer};
use super::serve::{Certificate, serve};
use super::watch::Synced;
use super::{Heartbeats, Metrics};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::net::SocketAddr;
use tokio_util::sync::CancellationToken;

/// The path for scrapes.
const METRICS: &str = "/metrics";

/// The watches by name, and whether each has its initial list.
type Watches = Vec<(String, Synced)>;

#[derive(Clone)]
struct Shared {
    watches: Watches,
    heartbeats: Heartbeats,
}

#[derive(Clone)]
struct Page {
    metrics: Metrics,
    authorizer: Option<MetricsAuthorizer>,
}

/// A separate port for metrics.
pub struct MetricsPort {
    pub listen: SocketAddr,
    /// TLS, if requested.
    pub certificate: Option<Certificate>,
    /// Checks whether the caller may read metrics, if requested.
    pub authorizer: Option<MetricsAuthorizer>,
}

/// The addresses of the probes, and of the metrics if they have a port of their own.
pub struct Addresses {
    /// /livez, /readyz, and without a port of its own /metrics.
    pub probes: SocketAddr,
    /// /metrics, if it has a port of its own.
    pub metrics: Option<SocketAddr>,
}

/// Serves until cancelled; returns the addresses on which it listens, which matter for port 0.
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
) -> Result<Addresses, String> {
    let unbound = |address| move |error| format!("cannot listen on {address}: {error}");
    let mut app = probes(Shared {
        watches,
        heartbeats,
    });
    let metrics = match port {
        None => {
            app = app.merge(page(metrics, None));
            None
        }
        Some(MetricsPort {
            listen,
            certificate,
            authorizer,
        }) => {
            let app = page(metrics, authorizer);
            let bound = serve(listen, app, certificate, cancel.clone()).await;
            Some(bound.map_err(unbound(listen))?)
        }
    };
    let probes = serve(listen, app, None, cancel).await;
    Ok(Addresses {
        probes: probes.map_err(unbound(listen))?,
        metrics,
    })
}

fn probes(shared: Shared) -> Router {
    Router::new()
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .with_state(shared)
}

fn page(metrics: Metrics, authorizer: Option<MetricsAuthorizer>) -> Router {
    Router::new().route(METRICS, get(scrape)).with_state(Page {
        metrics,
        authorizer,
    })
}

/// Alive while every task of this process makes progress. External failures do not count: a new process would not help, and
/// would lack the state of this one.
async fn live(State(shared): State<Shared>) -> (StatusCode, String) {
    let silent = shared.heartbeats.missing();
    if silent.is_empty() {
        (StatusCode::OK, "ok\n".to_owned())
    } else {
        tracing::error!(?silent, "no sign of life");
        (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("no sign of life: {}\n", silent.join(", ")),
        )
    }
}

/// Ready when every watch has its initial list, even while the process waits for its Lease: a rolling update waits for each Pod
/// to become ready, and a new Pod may wait for the Leases of the old ones.
async fn ready(State(shared): State<Shared>) -> (StatusCode, String) {
    let watches = shared.watches.iter();
    let unlisted = watches.filter(|(_, synced)| !*synced.borrow());
    let missing: Vec<&str> = unlisted.map(|(name, _)| name.as_str()).collect();
    if missing.is_empty() {
        (StatusCode::OK, "ok\n".to_owned())
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("not listed yet: {}\n", missing.join(", ")),
        )
    }
}

async fn scrape(State(page): State<Page>, head: HeaderMap) -> Response {
    if let Some(authorizer) = &page.authorizer
        && let Err(refused) = admit(authorizer, &head).await
    {
        return refused.into_response();
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], page.metrics.encode()).into_response()
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
        Ok(Access::Allowed) => Ok(()),
        Ok(Access::UnknownToken) => Err((StatusCode::UNAUTHORIZED, "the token is not known\n")),
        Ok(Access::Forbidden) => Err((
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
    async fn a_task_that_shows_no_sign_of_life_turns_livez_red_and_is_named() {
        let heartbeats = Heartbeats::default();
        let heartbeat = heartbeats.expect("queue", Duration::from_secs(60));
        let app = probes(Shared {
            watches: Vec::new(),
            heartbeats,
        });
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
