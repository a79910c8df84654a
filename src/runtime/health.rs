//! `/livez`, `/readyz` and `/metrics` on one port.

use super::Metrics;
use super::watch::Synced;
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
}

/// Serves until cancelled; gives the address it listens on, which matters when the port was 0.
///
/// # Errors
/// The address cannot be bound.
pub async fn serve(
    listen: SocketAddr,
    metrics: Metrics,
    watches: Vec<(String, Synced)>,
    cancel: CancellationToken,
) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    let app = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(scrape))
        .with_state(Shared {
            metrics,
            watches: Arc::new(watches),
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
