//! Fields of a server's detail.

use serde_json::{Map, Value};

/// Whether the service reports no running operation: the field is `NONE`, empty or missing.
pub fn is_idle(pending: Option<&str>) -> bool {
    pending.is_none_or(|word| word.is_empty() || word == "NONE")
}

/// A field of a detail, if it is a text that is not empty.
pub fn text<'a>(detail: &'a Map<String, Value>, field: &str) -> Option<&'a str> {
    detail
        .get(field)
        .and_then(Value::as_str)
        .filter(|word| !word.is_empty())
}

/// The operation that the service reports as running, or `NONE`: see [`is_idle`].
pub fn pending(detail: &Map<String, Value>) -> Option<&str> {
    text(detail, "ecsPendingStatus")
}
