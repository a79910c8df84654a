//! Makes one call: the steps that all operations share, from the reservation of memory for the answer to the record of the result.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Request, Response};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;
use url::Url;

use super::answer::{Answer, Reading, envelope};
use super::bounds::{Bounds, ExceededBound};
use super::budget::{Reservation, Share};
use super::cloud_call::CloudCall;
use super::decode::{Decoded, Decoder, TakeRow, Unfit};
use super::error::{Error, Fault, TransportError};
use super::health::Health;
use super::paths::Paths;
use super::rate_limiter::{Passage, RateLimiter};
use super::times;
use super::transport::{Transport, fault, retry_after};
use crate::runtime::traces;

/// Notified of the end of each call: its operation, its result (with the category of an error), and its duration.
pub type Observer = Arc<dyn Fn(CloudCall, Result<(), &'static str>, Duration) + Send + Sync>;

/// The header that carries the token.
const TOKEN_HEADER: &str = "x-open-token";

/// Makes the calls of one client.
#[derive(Clone)]
pub(super) struct Caller {
    pub http: Transport,
    /// This client's share of the memory for answers.
    pub share: Share,
    pub endpoint: Url,
    pub token: SecretString,
    /// The token as the value of [`TOKEN_HEADER`].
    pub header: HeaderValue,
    pub paths: Paths,
    pub limiter: RateLimiter,
    pub health: Health,
    pub missing_codes: Vec<String>,
    pub observer: Option<Observer>,
    /// Whether rows of lists keep every field of the answer.
    pub whole_rows: bool,
}

/// A permit for one call: a passage of the rate limiter, and memory for the answer. Dropping the permit returns both. A mutating
/// call has the memory before its intent is recorded; a read waits for memory within its deadline.
#[derive(Debug)]
#[must_use = "a permit holds a passage of the rate limiter, and memory, until it is dropped"]
pub struct Permit {
    pub(super) _passage: Passage,
    pub(super) memory: Option<Reservation>,
}

/// One call before it is made.
pub(super) struct Call<'a> {
    pub operation: CloudCall,
    /// The limits on how much of its answer is read.
    pub bounds: Bounds,
    pub query: &'a [(&'a str, &'a str)],
    pub body: Option<Value>,
    /// The secret in the body, which no error may repeat.
    pub secret: Option<&'a str>,
    pub permit: Permit,
}

impl Caller {
    /// Makes the call, reads the answer, and reports the result to the health tracker, the rate limiter, the share of memory and
    /// the observer.
    /// `rows` gets the rows of the list as they arrive; they are valid only if the call succeeds.
    pub(super) async fn run<T>(
        &self,
        call: Call<'_>,
        rows: &mut TakeRow<'_>,
        decode: impl FnOnce(Answer, &Reading<'_>) -> Result<T, Fault>,
    ) -> Result<T, Error> {
        let (operation, began) = (call.operation, Instant::now());
        let token = self.token.expose_secret();
        let secrets = [token, call.secret.unwrap_or_default()];
        let reading = Reading {
            missing_codes: &self.missing_codes,
            secrets: &secrets,
        };
        let deadline = match operation {
            CloudCall::Detail | CloudCall::Task => times::QUERY_DEADLINE,
            _ if operation.is_mutating() => times::MUTATION_DEADLINE,
            _ => times::READ_DEADLINE,
        };
        let ends = began + deadline;
        let span = traces::call("service call", operation.as_str());
        let outcome = match self.memory(&call, ends).await {
            Ok(_room) => {
                let exchange = self.exchange(&call, ends, rows, &reading);
                self.health.watch(exchange).instrument(span.clone()).await
            }
            Err(fault) => Err(fault),
        };
        let outcome = outcome.and_then(|answer| decode(answer, &reading));
        let outcome = outcome.map_err(|fault| Error {
            operation,
            path: self.paths.of(operation).into(),
            fault,
        });
        self.health.ended(operation, began, outcome.as_ref().err());
        match &outcome {
            Err(error) if error.is_rate_limited() => self.limiter.refused(error.retry_after()),
            // Without an answer, nothing is known about the service's rate limit.
            Err(error) if error.status().is_none() => {}
            Ok(_) | Err(_) => self.limiter.answered(),
        }
        // Without memory for the call, nothing is recorded; an answer without memory for its rows was readable all the same.
        match outcome.as_ref().map_err(|error| &error.fault) {
            Err(Fault::NotSent(TransportError::NoAnswerMemory)) => {}
            Ok(_) | Err(Fault::Answered { .. }) => self.share.ended(true),
            Err(Fault::Unfit { unfit, .. }) => {
                self.share.ended(matches!(unfit, Unfit::NoMemory(_)));
            }
            Err(_) => self.share.ended(false),
        }
        let ended = outcome.as_ref().map(|_| ()).map_err(Error::category);
        traces::ended(&span, ended.err());
        if let Some(observer) = &self.observer {
            observer(operation, ended, began.elapsed());
        }
        drop(call.permit);
        outcome
    }

    /// Reserves memory for the answer unless the permit includes it. This is done before the request is sent, since the answer may
    /// follow immediately.
    async fn memory(&self, call: &Call<'_>, ends: Instant) -> Result<Option<Reservation>, Fault> {
        if call.permit.memory.is_some() {
            return Ok(None);
        }
        let memory = timeout_at(ends, self.share.reserve(call.bounds.memory())).await;
        memory
            .map(Some)
            .map_err(|_| Fault::NotSent(TransportError::NoAnswerMemory))
    }

    /// Sends the request and reads the answer, all within one deadline.
    async fn exchange(
        &self,
        call: &Call<'_>,
        ends: Instant,
        rows: &mut TakeRow<'_>,
        reading: &Reading<'_>,
    ) -> Result<Answer, Fault> {
        let is_mutating = call.operation.is_mutating();
        let request = self.request(call, ends.saturating_duration_since(Instant::now()));
        let mut response = self.http.send(request, is_mutating).await?;
        let status = response.status().as_u16();
        let retry_after = retry_after(response.headers());
        // The rest of the head is not needed and may be long.
        response.headers_mut().clear();
        if !(200..300).contains(&status) {
            // The status alone is an answer. If the body breaks off or is too long, the refusal in it is missing, so the outcome of
            // a mutating call is unknown.
            let body = read(response, Bounds::short(), &mut |_| Ok(())).await;
            let body = body.ok().and_then(Result::ok);
            return Err(Fault::Answered {
                status,
                refusal: body.and_then(|read| envelope(&read.body, reading)),
                retry_after,
            });
        }
        let decoded = read(response, call.bounds, rows).await?;
        let Decoded { body, listed } = decoded.map_err(|unfit| Fault::Unfit { status, unfit })?;
        Ok(Answer {
            status,
            retry_after,
            body,
            listed,
        })
    }

    fn request(&self, call: &Call<'_>, left: Duration) -> Request {
        let mut url = self.endpoint.clone();
        url.set_path(&format!(
            "{}{}",
            url.path().trim_end_matches('/'),
            self.paths.of(call.operation)
        ));
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(call.query);
        }
        let mutating = call.operation.is_mutating();
        let mut request = Request::new(if mutating { Method::POST } else { Method::GET }, url);
        let headers = request.headers_mut();
        headers.insert(TOKEN_HEADER, self.header.clone());
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(body) = &call.body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            *request.body_mut() = Some(body.to_string().into());
        }
        *request.timeout_mut() = Some(left);
        request
    }
}

/// Decodes a body as it arrives. If a piece shows that the body cannot be used, the rest is not read, which ends the connection
/// (HTTP/1) or the stream (HTTP/2).
async fn read(
    mut response: Response,
    bounds: Bounds,
    rows: &mut TakeRow<'_>,
) -> Result<Result<Decoded, Unfit>, Fault> {
    // A body that announces an excessive length is not read at all.
    let length = response.content_length();
    if length.is_some_and(|length| length > bounds.body as u64) {
        return Ok(Err(ExceededBound::Body(bounds.body).into()));
    }
    let mut decoder = Decoder::new(bounds);
    while let Some(piece) = response.chunk().await.map_err(fault)? {
        if let Err(unfit) = decoder.push(&piece, rows) {
            return Ok(Err(unfit));
        }
    }
    Ok(decoder.finish())
}
