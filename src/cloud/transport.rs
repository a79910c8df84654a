//! Sends requests to the service: connections and deadlines. It knows no operations.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Request, Response, redirect};
use tokio::time::timeout;

use super::error::{Fault, TransportError};
use super::times;

const USER_AGENT: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));
/// Idle connections per endpoint. Each keeps the buffer that its largest answer needed.
const IDLE_AT_MOST: usize = 2;
/// How many bytes a service may send that this process has not read yet, for one answer and for one HTTP/2 connection (whose
/// default is 5 MiB). The limit for an answer costs one more round trip per page.
const HTTP2_AHEAD: u32 = 64 * 1024;
const HTTP2_AHEAD_IN_ALL: u32 = 256 * 1024;
/// The head of an HTTP/2 answer: the default, made explicit. For HTTP/1 the library has limits of 408 KiB and a hundred fields.
const HTTP2_HEAD: u32 = 16 * 1024;

/// The transport for the calls to one service. Cheap to clone.
#[derive(Clone)]
pub(super) enum Transport {
    Network(Arc<Pair>),
    Carried(Carrier),
}

/// Reads share a pool. A mutating call always opens its own connection: if a POST were written to a pooled connection that the
/// other side just closed, its outcome would be unknown. An unknown outcome of a create costs minutes of settling time; a
/// handshake costs milliseconds.
pub(super) struct Pair {
    reads: reqwest::Client,
    mutations: reqwest::Client,
}

/// Carries a request to a service in the same process, and its answer back, so that everything above the network can run in
/// virtual time. It may wait for any time: the request's own deadline still applies.
pub type Carrier =
    Arc<dyn Fn(Request) -> BoxFuture<'static, Result<Carried, CarrierError>> + Send + Sync>;

/// The answer that a [`Carrier`] returns.
pub type Carried = http::Response<reqwest::Body>;

/// The reason why a [`Carrier`] returns no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CarrierError {
    /// The service cannot have received the request.
    #[error("no connection was opened")]
    NotSent,
    /// The service may have received the request.
    #[error("the connection broke")]
    Broken,
}

impl Pair {
    /// Creates both clients from their common settings.
    pub(super) fn of(
        common: impl Fn() -> reqwest::Result<reqwest::ClientBuilder>,
    ) -> reqwest::Result<Self> {
        let reads = common()?
            .pool_idle_timeout(times::CONNECTION_IDLE_MAX)
            .pool_max_idle_per_host(IDLE_AT_MOST);
        Ok(Self {
            reads: reads.build()?,
            mutations: common()?.pool_max_idle_per_host(0).build()?,
        })
    }
}

impl Transport {
    /// Sends one request and waits for the head of its answer.
    pub(super) async fn send(
        &self,
        request: Request,
        is_mutating: bool,
    ) -> Result<Response, Fault> {
        let client = match self {
            Self::Network(pair) if is_mutating => &pair.mutations,
            Self::Network(pair) => &pair.reads,
            Self::Carried(carrier) => return carried(carrier, request).await,
        };
        client.execute(request).await.map_err(fault)
    }
}

/// The settings that all clients share.
pub(super) fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .connect_timeout(times::CONNECT_DEADLINE)
        // A redirect would send the token to a host that is not configured.
        .redirect(redirect::Policy::none())
        // Only the caller knows whether a call may be repeated.
        .retry(reqwest::retry::never())
        .http2_keep_alive_interval(times::PING_EVERY)
        .http2_keep_alive_timeout(times::PING_DEADLINE)
        .http2_initial_stream_window_size(HTTP2_AHEAD)
        .http2_initial_connection_window_size(HTTP2_AHEAD_IN_ALL)
        .http2_max_header_list_size(HTTP2_HEAD)
}

async fn carried(carrier: &Carrier, request: Request) -> Result<Response, Fault> {
    let deadline = request.timeout().copied().unwrap_or_default();
    match timeout(deadline, carrier(request)).await {
        Ok(Ok(answer)) => Ok(answer.into()),
        Ok(Err(CarrierError::NotSent)) => Err(Fault::NotSent(TransportError::Carrier)),
        Ok(Err(CarrierError::Broken)) => Err(Fault::Broken(TransportError::Carrier)),
        Err(_) => Err(Fault::Timeout(TransportError::Carrier)),
    }
}

/// Classifies an error of the transport. Only if no connection was opened is it certain that nothing was sent.
pub(super) fn fault(error: reqwest::Error) -> Fault {
    // Remove the URL: the error is shown with its path, and a query does not belong in a log.
    let error = error.without_url();
    let (is_unsent, is_timeout) = (error.is_connect() || error.is_builder(), error.is_timeout());
    let cause = TransportError::Network(error);
    match (is_unsent, is_timeout) {
        (true, _) => Fault::NotSent(cause),
        (false, true) => Fault::Timeout(cause),
        (false, false) => Fault::Broken(cause),
    }
}

/// `Retry-After` in seconds. A date counts as absent: it would depend on the clocks of two machines.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    let seconds = text.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(times::RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn retry_after_is_read_in_seconds_and_bounded() {
        let with = |retry: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static(retry));
            retry_after(&headers)
        };
        assert_eq!(with("7"), Some(Duration::from_secs(7)));
        assert_eq!(with(" 0 "), Some(Duration::ZERO));
        assert_eq!(with("86400"), Some(Duration::from_secs(600)));
        for none in ["Sun, 06 Nov 1994 08:50:07 GMT", "soon", "-1"] {
            assert_eq!(with(none), None, "{none}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
