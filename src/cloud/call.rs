//! Making one call: what every operation has in common, from the deadline to the observer.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Request};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use tokio::time::Instant;
use url::Url;

use super::answer::{Answer, Reading, envelope};
use super::error::{BuildError, Error, Fault, Operation};
use super::gate::{Gate, Permit};
use super::paths::Paths;
use super::transport::Http;

/// Told of each call: what, how it ended (the error's category), how long it took.
pub type Observer = Arc<dyn Fn(Operation, Result<(), &'static str>, Duration) + Send + Sync>;

/// A read is repeated soon anyway; a longer wait would only hold a place at the gate.
const READ_DEADLINE: Duration = Duration::from_secs(30);
/// A mutating call that is given up is an unknown outcome, so it gets twice the patience, and still ends well within
/// the settling time that follows an unknown outcome.
const MUTATION_DEADLINE: Duration = Duration::from_secs(60);

/// A page of 50 rows is some 100 KiB; forty times that is no page.
const LIST_BODY: usize = 4 * 1024 * 1024;
/// Every other answer is a few KiB.
const OBJECT_BODY: usize = 256 * 1024;

/// The header that carries the token.
const TOKEN_HEADER: &str = "x-open-token";

/// What makes the calls of one client.
#[derive(Clone)]
pub(super) struct Caller {
    pub http: Http,
    pub endpoint: Url,
    pub token: SecretString,
    pub header: HeaderValue,
    pub paths: Paths,
    pub gate: Gate,
    pub missing_codes: Vec<String>,
    pub observer: Option<Observer>,
}

/// One call before it is made.
pub(super) struct Call<'a> {
    pub operation: Operation,
    pub query: &'a [(&'a str, &'a str)],
    pub body: Option<Value>,
    /// Secrets of the body, which no error may repeat.
    pub secret: Option<&'a str>,
    pub permit: Permit,
}

impl Caller {
    /// Makes the call, reads the answer, and tells the gate and the observer.
    pub(super) async fn run<T>(
        &self,
        call: Call<'_>,
        decode: impl FnOnce(Answer, &Reading<'_>) -> Result<T, Fault>,
    ) -> Result<T, Error> {
        let (operation, began) = (call.operation, Instant::now());
        let token = self.token.expose_secret();
        let secrets = [token, call.secret.unwrap_or_default()];
        let reading = Reading {
            missing_codes: &self.missing_codes,
            secrets: &secrets,
        };
        let outcome = self
            .exchange(&call, &reading)
            .await
            .and_then(|answer| decode(answer, &reading));
        let outcome = outcome.map_err(|fault| Error {
            operation,
            path: self.paths.of(operation).into(),
            fault,
        });
        match &outcome {
            Err(error) if error.is_rate_limited() => self.gate.refused(error.retry_after()),
            // Nothing was heard of the limit.
            Err(error) if error.status().is_none() => {}
            Ok(_) | Err(_) => self.gate.answered(),
        }
        if let Some(observer) = &self.observer {
            observer(
                operation,
                outcome.as_ref().map(|_| ()).map_err(Error::category),
                began.elapsed(),
            );
        }
        drop(call.permit);
        outcome
    }

    async fn exchange(&self, call: &Call<'_>, reading: &Reading<'_>) -> Result<Answer, Fault> {
        let is_mutating = call.operation.is_mutating();
        let cap = if call.operation.is_listing() {
            LIST_BODY
        } else {
            OBJECT_BODY
        };
        let request = self.request(call);
        let raw = self.http.exchange(request, is_mutating, cap).await?;
        if !(200..300).contains(&raw.status) {
            let refusal = envelope(&raw.body, reading);
            return Err(Fault::Answered {
                status: raw.status,
                refusal,
                retry_after: raw.retry_after,
            });
        }
        match serde_json::from_slice::<Map<String, Value>>(&raw.body) {
            Ok(body) => Ok(Answer {
                status: raw.status,
                retry_after: raw.retry_after,
                body,
            }),
            Err(_) => Err(Fault::Garbled {
                status: raw.status,
                what: "its body is no JSON object",
            }),
        }
    }

    fn request(&self, call: &Call<'_>) -> Request {
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
        *request.timeout_mut() = Some(if mutating {
            MUTATION_DEADLINE
        } else {
            READ_DEADLINE
        });
        request
    }
}

/// An endpoint that requests can be appended to.
pub(super) fn check_endpoint(endpoint: &str) -> Result<Url, BuildError> {
    let url = Url::parse(endpoint.trim()).map_err(|_| BuildError::Endpoint("is no URL"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(BuildError::Endpoint("is no http or https URL"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(BuildError::Endpoint("has user information in it"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(BuildError::Endpoint("has a query or a fragment"));
    }
    Ok(url)
}
