//! Durations on the command line.

use std::time::Duration;

/// A duration as Go writes it: `15s`, `1m30s`, `500ms`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let parsed: kube::core::Duration = text
        .parse()
        .map_err(|error: kube::core::duration::ParseError| error.to_string())?;
    if parsed.is_negative() {
        return Err("a duration cannot be negative".to_owned());
    }
    Ok(parsed.into())
}
