//! Bytes to the service and back: connections, deadlines, size limits. Knows no operation.

use std::time::{Duration, SystemTime};

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use reqwest::{Request, Response, redirect};

use super::error::{BuildError, Cause, Fault};

/// A connection that takes longer to open than this will not be a good one.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// An idle connection is closed from our side before the usual server or middlebox (60 s and more) does it.
const IDLE: Duration = Duration::from_secs(30);
/// A connection of HTTP/2 carries every read, so a dead one is looked for while reads wait on it.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_DEADLINE: Duration = Duration::from_secs(5);
/// The longest pause that a service may ask for. Beyond it, asking again is the lesser evil.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(600);
/// An error body is a few hundred bytes; more is somebody's web page.
const ERROR_BODY: usize = 64 * 1024;

/// The connections of the process. Cheap to clone; one for all accounts.
///
/// Reads share a pool. A mutating call always opens a connection of its own: written onto a pooled connection that the
/// other side just closed, a POST would be an unknown outcome, and an unknown outcome of a create costs minutes of
/// settling, a handshake costs milliseconds.
#[derive(Clone)]
pub struct Http(Way);

#[derive(Clone)]
enum Way {
    Network {
        reads: reqwest::Client,
        mutations: reqwest::Client,
    },
    Carried(Carrier),
}

/// Carries a request to a service in the same process, and its answer back, so that everything above the network can be run
/// in virtual time. May wait as long as it likes: the request's own deadline is kept around it.
pub type Carrier = Arc<dyn Fn(Request) -> BoxFuture<'static, Result<Carried, Lost>> + Send + Sync>;

/// What a [`Carrier`] brings back.
#[derive(Clone, Debug)]
pub struct Carried {
    /// The HTTP status.
    pub status: u16,
    /// `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The body.
    pub body: Vec<u8>,
}

/// Why a [`Carrier`] brings nothing back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// No connection was opened: the service cannot have seen the request.
    #[error("no connection was opened")]
    NotSent,
    /// The connection broke: the service may have seen it.
    #[error("the connection broke")]
    Broken,
}

/// How long a carried request may take that names no deadline of its own.
const CARRIED_DEADLINE: Duration = Duration::from_secs(60);

impl Http {
    /// Sets the connections up. Takes the TLS provider that the process installed, and installs ring if there is none.
    ///
    /// # Errors
    /// The platform's certificates cannot be used.
    pub fn new() -> Result<Self, BuildError> {
        // An error here means that another thread was first, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Self(Way::Network {
            reads: builder()
                .pool_idle_timeout(IDLE)
                .build()
                .map_err(BuildError::Http)?,
            mutations: builder()
                .pool_max_idle_per_host(0)
                .build()
                .map_err(BuildError::Http)?,
        }))
    }

    /// No network at all: every request goes to this carrier.
    pub fn carried(by: Carrier) -> Self {
        Self(Way::Carried(by))
    }

    /// Sends one request and reads its whole answer, at most `cap` bytes of it.
    pub(super) async fn exchange(
        &self,
        request: Request,
        is_mutating: bool,
        cap: usize,
    ) -> Result<Raw, Fault> {
        match &self.0 {
            Way::Network { reads, mutations } => {
                let client = if is_mutating { mutations } else { reads };
                exchange(client, request, cap).await
            }
            Way::Carried(carrier) => carried(carrier, request, cap).await,
        }
    }
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Http")
    }
}

fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(concat!(
            env!("CARGO_PKG_NAME"),
            "/",
            env!("CARGO_PKG_VERSION")
        ))
        .connect_timeout(CONNECT_DEADLINE)
        // A redirect would carry the token to a place that nobody configured.
        .redirect(redirect::Policy::none())
        // Whether a call may be repeated is decided by whoever knows what it does.
        .retry(reqwest::retry::never())
        .http2_keep_alive_interval(PING_EVERY)
        .http2_keep_alive_timeout(PING_DEADLINE)
}

/// What came back: a status that is a success and its bytes, or what to make of anything else.
pub(super) struct Raw {
    pub status: u16,
    pub retry_after: Option<Duration>,
    pub body: Vec<u8>,
}

async fn carried(carrier: &Carrier, request: Request, cap: usize) -> Result<Raw, Fault> {
    let deadline = request.timeout().copied().unwrap_or(CARRIED_DEADLINE);
    match tokio::time::timeout(deadline, carrier(request)).await {
        Ok(Ok(answer)) if answer.body.len() > cap => Err(too_long(answer.status)),
        Ok(Ok(answer)) => Ok(Raw {
            status: answer.status,
            retry_after: answer.retry_after,
            body: answer.body,
        }),
        Ok(Err(lost @ Lost::NotSent)) => Err(Fault::NotSent(Cause::Carrier(lost))),
        Ok(Err(lost @ Lost::Broken)) => Err(Fault::Broken(Cause::Carrier(lost))),
        Err(_) => Err(Fault::Timeout(Cause::Carrier(Lost::Broken))),
    }
}

async fn exchange(client: &reqwest::Client, request: Request, cap: usize) -> Result<Raw, Fault> {
    let response = client.execute(request).await.map_err(fault)?;
    let status = response.status().as_u16();
    let retry_after = retry_after(response.headers());
    if (200..300).contains(&status) {
        return Ok(Raw {
            status,
            retry_after,
            body: read(response, cap).await?.ok_or(too_long(status))?,
        });
    }
    // The status alone is already an answer: a body that breaks off or never ends only lacks its reason.
    let body = read(response, ERROR_BODY)
        .await
        .ok()
        .flatten()
        .unwrap_or_default();
    Ok(Raw {
        status,
        retry_after,
        body,
    })
}

fn too_long(status: u16) -> Fault {
    Fault::Garbled {
        status,
        what: "its body is longer than any such answer",
    }
}

/// The whole body, or nothing if it is longer than the cap.
async fn read(mut response: Response, cap: usize) -> Result<Option<Vec<u8>>, Fault> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(fault)? {
        if body.len() + chunk.len() > cap {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// Sorts an error of the transport. Only a connection that never opened is known to have carried nothing.
fn fault(error: reqwest::Error) -> Fault {
    // The URL is dropped: the error is shown with its path, and a query has no place in a log.
    let error = error.without_url();
    let (is_unsent, is_timeout) = (error.is_connect() || error.is_builder(), error.is_timeout());
    let cause = Cause::Network(error);
    match (is_unsent, is_timeout) {
        (true, _) => Fault::NotSent(cause),
        (false, true) => Fault::Timeout(cause),
        (false, false) => Fault::Broken(cause),
    }
}

/// `Retry-After`, in seconds or as a date. A date is taken against the answer's own `Date`, so that a clock that
/// differs from the service's does no harm.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let pause = match value.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let now = headers
                .get(DATE)
                .and_then(|date| date.to_str().ok())
                .and_then(http_date);
            let now = now.unwrap_or_else(|| {
                Timestamp::try_from(SystemTime::now()).unwrap_or(Timestamp::MAX)
            });
            http_date(value)?
                .duration_since(now)
                .try_into()
                .unwrap_or(Duration::ZERO)
        }
    };
    Some(pause.min(LONGEST_RETRY_AFTER))
}

fn http_date(text: &str) -> Option<Timestamp> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    PARSER.parse_timestamp(text).ok()
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn with(retry: &'static str, date: Option<&'static str>) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_static(retry));
        if let Some(date) = date {
            headers.insert(DATE, HeaderValue::from_static(date));
        }
        retry_after(&headers)
    }

    #[test]
    fn retry_after_is_read_in_both_forms_and_bounded() {
        let date = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(with("7", None), Some(Duration::from_secs(7)));
        assert_eq!(with(" 0 ", None), Some(Duration::ZERO));
        assert_eq!(with("86400", None), Some(Duration::from_secs(600)));
        assert_eq!(
            with("Sun, 06 Nov 1994 08:50:07 GMT", date),
            Some(Duration::from_secs(30))
        );
        assert_eq!(
            with("Sun, 06 Nov 1994 08:49:00 GMT", date),
            Some(Duration::ZERO)
        );
        assert_eq!(
            with("Sun, 06 Nov 1994 08:50:07 GMT", None),
            Some(Duration::ZERO)
        );
        assert_eq!(
            with("Fri, 06 Nov 2093 08:50:07 GMT", None),
            Some(Duration::from_secs(600))
        );
        assert_eq!(with("soon", date), None);
        assert_eq!(with("-1", date), None);
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
