//! `/livez`, `/readyz` and `/metrics` on one port.

use super::watch::Synced;
use super::{Metrics, Pulses};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[derive(Clone)]
struct Shared {
    metrics: Metrics,
    watches: Arc<Vec<(String, Synced)>>,
    pulses: Pulses,
}

/// Serves until cancelled; gives the address it listens on, which matters when the port was 0.
///
/// # Errors
/// The address cannot be bound.
pub async fn serve(
    listen: SocketAddr,
    metrics: Metrics,
    watches: Vec<(String, Synced)>,
    pulses: Pulses,
    cancel: CancellationToken,
) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    let app = routes(Shared {
        metrics,
        watches: Arc::new(watches),
        pulses,
    });
    tokio::spawn(async move {
        let served = axum::serve(listener, app)
            .with_graceful_shutdown(cancel.cancelled_owned())
            .await;
        if let Err(error) = served {
            tracing::error!(%error, "the health endpoint ended");
        }
    });
    Ok(address)
}

fn routes(shared: Shared) -> Router {
    Router::new()
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .route("/metrics", get(scrape))
        .with_state(shared)
}

/// Alive while every task of this process gets on with its work. What others do to it does not count: a new process would
/// not help, and would have forgotten what this one knows.
async fn live(State(shared): State<Shared>) -> (StatusCode, String) {
    let silent = shared.pulses.missing();
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

/// Ready when every watch has read its first listing.
async fn ready(State(shared): State<Shared>) -> (StatusCode, String) {
    let missing: Vec<&str> = shared
        .watches
        .iter()
        .filter(|(_, synced)| !*synced.borrow())
        .map(|(name, _)| name.as_str())
        .collect();
    if missing.is_empty() {
        (StatusCode::OK, "ok\n".to_owned())
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("not listed yet: {}\n", missing.join(", ")),
        )
    }
}

async fn scrape(State(shared): State<Shared>) -> impl IntoResponse {
    let text = shared.metrics.encode();
    (
        [(
            header::CONTENT_TYPE,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        )],
        text,
    )
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
        let pulses = Pulses::default();
        let pulse = pulses.expect("queue", Duration::from_secs(60));
        let app = routes(Shared {
            metrics: Metrics::default(),
            watches: Arc::default(),
            pulses,
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
        pulse.beat();
        assert_eq!(livez().await.0, StatusCode::OK);
    }
}
