//! The interface on the wire: paths, fields and statuses as in the specification. This layer has no sockets.

mod endpoint;
mod parse;
mod paths;
mod render;
#[cfg(test)]
mod tests;

pub use endpoint::Endpoint;
pub use parse::{Unserved, parse};
pub use paths::Paths;
pub use render::{render, render_refusal, unmodelled};

use crate::model::{TaskScript, World};
use crate::secret::Secret;
use crate::time::Timestamp;

/// A request as received.
#[derive(Clone, Debug, Default)]
pub struct RawRequest {
    /// `GET` or `POST`.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The query's pairs, decoded.
    pub query: Vec<(String, String)>,
    /// The header `x-open-token`.
    pub token: Option<Secret>,
    /// The header `Content-Type`.
    pub content_type: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

impl RawRequest {
    /// A GET.
    #[must_use]
    pub fn get(path: &str, query: &[(&str, &str)], token: &str) -> Self {
        Self {
            method: "GET".to_owned(),
            path: path.to_owned(),
            query: query
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            token: Some(Secret::from(token)),
            ..Self::default()
        }
    }

    /// A POST with a JSON body.
    #[must_use]
    pub fn post(path: &str, body: &serde_json::Value, token: &str) -> Self {
        Self {
            method: "POST".to_owned(),
            path: path.to_owned(),
            token: Some(Secret::from(token)),
            content_type: Some("application/json".to_owned()),
            body: body.to_string().into_bytes(),
            ..Self::default()
        }
    }
}

/// A reply as sent.
#[derive(Clone, Debug, PartialEq)]
pub struct RawReply {
    /// The HTTP status.
    pub status: u16,
    /// The JSON body.
    pub body: serde_json::Value,
}

/// One exchange with a world, as over HTTP but without sockets. For tests in virtual time.
pub fn exchange(world: &mut World, now: Timestamp, raw: &RawRequest) -> RawReply {
    exchange_scripted(world, now, raw, TaskScript::Succeed)
}

/// One exchange. If the call starts a task, the task follows `script`.
pub fn exchange_scripted(
    world: &mut World,
    now: Timestamp,
    raw: &RawRequest,
    script: TaskScript,
) -> RawReply {
    match parse(raw) {
        Ok((endpoint, request)) => {
            let token = raw.token.as_ref().map(Secret::reveal);
            let reply = world.call_scripted(now, token, &request, script);
            render(endpoint, world.readings(), &reply.outcome)
        }
        Err(Unserved::Refused(refusal)) => {
            let token = raw.token.as_ref().map(Secret::reveal);
            let refusal = world.check_token(token).err().unwrap_or(refusal);
            render_refusal(world.readings(), &refusal)
        }
        Err(Unserved::Unmodelled) => {
            let token = raw.token.as_ref().map(Secret::reveal);
            match world.check_token(token) {
                Err(refusal) => render_refusal(world.readings(), &refusal),
                Ok(()) => unmodelled(&raw.method, &raw.path),
            }
        }
    }
}
