//! The handling of a message that is common to all proxies of these tests.

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;

/// An answer with these headers.
pub fn reply(status: StatusCode, headers: &HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers.clone();
    response
}

/// The headers without the hop-by-hop ones.
pub fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in [
        header::HOST,
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
    ] {
        headers.remove(name);
    }
    headers
}
