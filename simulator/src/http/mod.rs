//! HTTP around the model: reads requests, carries out plans, writes replies. The meaning of calls is defined in the model.

mod conn;
mod pipeline;
mod spoil;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::connect_info::ConnectInfo;
use axum::extract::{Query, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::secret::Secret;
use crate::service::Service;
use crate::wire::{Paths, RawRequest};
use conn::{Connection, Connections, TrackedListener};

/// The largest body that is read. The body of a create is smaller than a kilobyte.
const LARGEST_BODY: usize = 1 << 20;

/// The HTTP side of a running service.
#[derive(Debug)]
pub(crate) struct Front {
    address: SocketAddr,
    connections: Arc<Connections>,
    server: JoinHandle<()>,
}

impl Front {
    /// Serves on a listener until it is closed.
    ///
    /// # Errors
    /// The listener has no address.
    pub(crate) fn serve(
        listener: TcpListener,
        service: Arc<Service>,
        paths: Paths,
    ) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        let connections = Arc::new(Connections::default());
        let listener = TrackedListener::new(listener, Arc::clone(&connections));
        let state = (service, Arc::new(paths));
        let router = Router::new().fallback(handle).with_state(state);
        let app = router.into_make_service_with_connect_info::<Connection>();
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, app).await {
                tracing::error!(%error, "the service stopped listening");
            }
        });
        Ok(Self {
            address,
            connections,
            server,
        })
    }

    /// The address that it listens on.
    #[must_use]
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops listening and aborts every connection.
    pub(crate) fn close(&self) {
        self.server.abort();
        self.connections.abort_all();
    }
}

async fn handle(
    State((service, paths)): State<(Arc<Service>, Arc<Paths>)>,
    ConnectInfo(connection): ConnectInfo<Connection>,
    request: Request,
) -> Response {
    let raw = match read(request, &paths).await {
        Ok(raw) => raw,
        Err(refused) => return refused,
    };
    // If the client disconnects, this future is dropped. The work for the client continues in its own task, which learns of the
    // disconnect through this token.
    let gone = CancellationToken::new();
    let _leaving = gone.clone().drop_guard();
    let served = tokio::spawn(pipeline::serve(service, connection.clone(), raw, gone));
    match served.await {
        Ok(Some(response)) => response,
        Ok(None) => {
            connection.abort();
            std::future::pending().await
        }
        Err(error) => {
            tracing::error!(%error, "a call failed inside the simulator");
            spoil::plain(500, "the simulator failed")
        }
    }
}

async fn read(request: Request, paths: &Paths) -> Result<RawRequest, Response> {
    let (parts, body) = request.into_parts();
    let query = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
    let Query(query) = query.map_err(axum::response::IntoResponse::into_response)?;
    let header = |name: &str| {
        let value = parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok());
        value.map(str::to_owned)
    };
    let raw = RawRequest {
        method: parts.method.as_str().to_owned(),
        path: paths.own(parts.uri.path()),
        query,
        token: header("x-open-token").map(Secret::from),
        content_type: header(CONTENT_TYPE.as_str()),
        body: Vec::new(),
    };
    let too_large = |_| axum::http::StatusCode::PAYLOAD_TOO_LARGE.into_response();
    let body = to_bytes(body, LARGEST_BODY).await.map_err(too_large)?;
    Ok(RawRequest {
        body: body.to_vec(),
        ..raw
    })
}
