//! Classifies an answer as a result, a refusal, or neither.
//!
//! The specification leaves error bodies open, and its field notes report refusals with a success status. So the body decides
//! whether an answer with a success status is a result. A body with a result that denies success, or has an error status, is
//! neither result nor refusal: for a mutating call the outcome is then unknown, and a read has learned nothing.

use std::time::Duration;

use serde_json::{Map, Value};

use super::decode::Unfit;
use super::error::{Envelope, Fault};
use super::password::hide_in;
use crate::api::printable;

/// A body with its HTTP status.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: u16,
    pub retry_after: Option<Duration>,
    /// The body without the rows of the requested list.
    pub body: Map<String, Value>,
    /// Whether the body contains that list.
    pub listed: bool,
}

/// The parameters for reading an answer.
pub(super) struct Reading<'a> {
    /// Fragments of codes that mean "no such thing".
    pub missing_codes: &'a [String],
    /// Texts that neither a message nor a value may repeat: a service may quote the value that it refuses.
    pub secrets: &'a [&'a str],
}

/// Longest message that is passed on, in characters: enough for a sentence, too short for a body.
const LONGEST_MESSAGE: usize = 200;
/// Longest text that is accepted as a code, a name or an identifier, in bytes.
const LONGEST_WORD: usize = 256;

/// Codes that services of this kind send with a success. On their own they indicate no refusal.
const GOOD_CODES: [&str; 5] = ["ok", "success", "0", "200", "202"];

impl Answer {
    /// Extracts the result from a 2xx body, if the body is unambiguous.
    pub(super) fn result<T>(
        self,
        payload: Option<T>,
        lacks: &'static str,
        reading: &Reading<'_>,
    ) -> Result<T, Fault> {
        let garbled = |what| Fault::Unfit {
            status: self.status,
            unfit: Unfit::Malformed(what),
        };
        let inner = status_field(&self.body);
        match (success_field(&self.body), payload) {
            (Some(false), Some(_)) => Err(garbled("it denies success and carries a result")),
            (_, Some(_)) if inner.is_some_and(|status| status >= 400) => {
                Err(garbled("it carries an error status and a result"))
            }
            (_, Some(payload)) => Ok(payload),
            (Some(false), None) => Err(self.refused(reading)),
            (None, None) if reports_an_error(&self.body) => Err(self.refused(reading)),
            (Some(true) | None, None) => Err(garbled(lacks)),
        }
    }

    fn refused(&self, reading: &Reading<'_>) -> Fault {
        let refusal = Some(refusal(&self.body, reading));
        Fault::Answered {
            status: self.status,
            refusal,
            retry_after: self.retry_after,
        }
    }
}

/// The error envelope in an answer without a success status. A code, or a success field that is false, makes an envelope. A
/// message alone does not, since any proxy or web framework sends one.
pub(super) fn envelope(body: &Map<String, Value>, reading: &Reading<'_>) -> Option<Envelope> {
    (word(body, "code").is_some() || success_field(body) == Some(false))
        .then(|| refusal(body, reading))
}

/// `rowCount`. The specification does not define whether it counts the page or the whole list.
pub(super) fn row_count(body: &Map<String, Value>) -> Option<u64> {
    word(body, "rowCount")?.parse().ok()
}

/// A short text, or a number as text.
pub(super) fn word(object: &Map<String, Value>, key: &str) -> Option<String> {
    let text = match object.get(key)? {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let usable = !text.is_empty() && text.len() <= LONGEST_WORD && printable(&text) == text;
    usable.then_some(text)
}

/// A text with these secrets replaced.
pub(super) fn clean_of(text: &str, secrets: &[&str]) -> String {
    let known = secrets.iter().filter(|secret| !secret.is_empty());
    known.fold(text.to_owned(), |text, secret| {
        text.replace(secret, "[redacted]")
    })
}

/// Makes a text of the service fit for a message: one line, no control characters, limited length, and no secrets.
pub(super) fn clean(text: &str, secrets: &[&str]) -> String {
    let text = clean_of(text, secrets);
    let joined = printable(&text)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    match joined.char_indices().nth(LONGEST_MESSAGE) {
        Some((cut, _)) => format!("{}…", &joined[..cut]),
        None => joined,
    }
}

/// A sentence of the service, fit for a message: it may also quote a password that this call did not send, such as the previous
/// one.
pub(super) fn sentence(text: &str, secrets: &[&str]) -> String {
    clean(&hide_in(&clean_of(text, secrets)), &[])
}

/// Whether a body without a result is a refusal: it has an error code and a message. A body with a result may have both, since a
/// service may send any code with a success.
fn reports_an_error(body: &Map<String, Value>) -> bool {
    bears_bad_code(body) && body.get("message").is_some_and(Value::is_string)
}

/// Whether a body has a code that does not accompany a success.
pub(super) fn bears_bad_code(body: &Map<String, Value>) -> bool {
    let code = word(body, "code").map(|code| code.to_ascii_lowercase());
    code.is_some_and(|code| !GOOD_CODES.contains(&code.as_str()))
}

fn refusal(body: &Map<String, Value>, reading: &Reading<'_>) -> Envelope {
    let code = word(body, "code");
    let missing = code.as_deref().is_some_and(|code| {
        let code = code.to_ascii_lowercase();
        reading
            .missing_codes
            .iter()
            .any(|part| code.contains(&part.to_ascii_lowercase()))
    });
    let message = body.get("message").and_then(Value::as_str);
    Envelope {
        status: status_field(body),
        code: code.map(|code| clean(&code, reading.secrets)),
        message: message
            .map(|message| sentence(message, reading.secrets))
            .filter(|message| !message.is_empty()),
        missing,
    }
}

fn status_field(body: &Map<String, Value>) -> Option<u16> {
    word(body, "httpStatus")?.parse().ok()
}

fn success_field(body: &Map<String, Value>) -> Option<bool> {
    match body.get("success")? {
        Value::Bool(success) => Some(*success),
        Value::String(text) => text.trim().to_ascii_lowercase().parse().ok(),
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_the_service_becomes_one_short_line_without_secrets() {
        let text = format!("bad\npassword\u{1b}[31m Hunter2! {}", "x".repeat(300));
        let clean = clean(&text, &["Hunter2!", ""]);
        assert!(
            clean.starts_with("bad password [31m [redacted] xxx"),
            "{clean}"
        );
        assert_eq!(clean.chars().count(), LONGEST_MESSAGE + 1);
    }

    #[test]
    fn a_status_word_is_short_and_may_be_a_number() {
        let object = serde_json::json!({"a": " x ", "b": 7, "c": "", "d": null, "e": "a\nb", "f": "y".repeat(300), "g": []});
        let object = object.as_object().unwrap();
        assert_eq!(word(object, "a").as_deref(), Some("x"));
        assert_eq!(word(object, "b").as_deref(), Some("7"));
        for key in ["c", "d", "e", "f", "g", "h"] {
            assert_eq!(word(object, key), None, "{key}");
        }
    }
}
