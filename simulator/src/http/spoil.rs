//! Turns replies into bytes, intact or spoilt.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use crate::faults::Spoil;
use crate::wire::RawReply;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// The response for a reply.
pub(super) fn respond(
    reply: &RawReply,
    retry_after: Option<u64>,
    spoil: Option<&Spoil>,
) -> Response {
    let whole = || Bytes::from(reply.body.to_string());
    let mut kind = JSON;
    let mut length = None;
    let body = match spoil {
        None => Body::from(whole()),
        Some(Spoil::Truncate) => {
            let bytes = whole();
            length = Some(bytes.len());
            cut_off(bytes.slice(..bytes.len() / 2))
        }
        Some(Spoil::Garble) => Body::from(garbled(&whole())),
        Some(Spoil::Html) => {
            kind = HTML;
            Body::from(
                "<!DOCTYPE html><html><head><title>Bad gateway</title></head><body><h1>Bad gateway</h1></body></html>",
            )
        }
        Some(Spoil::WrongTypes) => Body::from(change(&reply.body, &wrong_type).to_string()),
        Some(Spoil::Nulls) => Body::from(change(&reply.body, &|_| Value::Null).to_string()),
        Some(Spoil::Huge(bytes)) => {
            let mut body = reply.body.clone();
            body["ballast"] = json!("x".repeat(*bytes));
            Body::from(body.to_string())
        }
        Some(Spoil::Quote(text)) => Body::from(quoting(&reply.body, text).to_string()),
        Some(Spoil::SlowBytes(pause)) => {
            let bytes = whole();
            length = Some(bytes.len());
            slowly(bytes, *pause)
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    if let Some(length) = length {
        response
            .headers_mut()
            .insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    if let Some(seconds) = retry_after {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A response that the service itself would never send.
pub(super) fn plain(status: u16, message: &'static str) -> Response {
    let body = json!({ "code": "Simulator.Error", "httpStatus": status, "message": message });
    respond(&RawReply { status, body }, None, None)
}

/// A body of these bytes, followed by the end of the connection.
fn cut_off(bytes: Bytes) -> Body {
    let first = stream::iter([Ok(bytes)]);
    // Yield between the bytes and the end, so that the server writes the bytes: an immediate end would discard them.
    let end = stream::once(async {
        tokio::task::yield_now().await;
        Err(io::Error::from(io::ErrorKind::UnexpectedEof))
    });
    Body::from_stream(first.chain(end))
}

fn slowly(bytes: Bytes, pause: Duration) -> Body {
    Body::from_stream(stream::unfold(bytes, move |mut left| async move {
        if left.is_empty() {
            return None;
        }
        tokio::time::sleep(pause).await;
        let byte = left.split_to(1);
        Some((Ok::<_, Infallible>(byte), left))
    }))
}

/// Inverts the bits of every third byte, so that the result is neither JSON nor text.
fn garbled(bytes: &[u8]) -> Vec<u8> {
    bytes
        .iter()
        .enumerate()
        .map(|(at, byte)| if at % 3 == 0 { !byte } else { *byte })
        .collect()
}

/// A copy with every scalar value changed.
fn change(value: &Value, to: &dyn Fn(&Value) -> Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), change(value, to)))
            .collect(),
        Value::Array(rows) => rows.iter().map(|row| change(row, to)).collect(),
        leaf => to(leaf),
    }
}

/// A copy in which every object has two additional fields with this text.
fn quoting(value: &Value, text: &str) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: serde_json::Map<_, _> = fields
                .iter()
                .map(|(name, value)| (name.clone(), quoting(value, text)))
                .collect();
            for field in ["password", "accessToken"] {
                fields.insert(field.to_owned(), json!(text));
            }
            Value::Object(fields)
        }
        Value::Array(rows) => rows.iter().map(|row| quoting(row, text)).collect(),
        leaf => leaf.clone(),
    }
}

fn wrong_type(leaf: &Value) -> Value {
    match leaf {
        Value::String(_) => json!(42),
        Value::Number(number) => json!(format!("{number} or so")),
        Value::Bool(_) => json!([]),
        _ => json!({}),
    }
}
