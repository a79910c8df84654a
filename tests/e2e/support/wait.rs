//! Waits for conditions instead of fixed times.

use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Long enough for a slow machine with other builds in progress; tests assert counts, not times.
pub const PATIENCE: Duration = Duration::from_secs(240);
/// The pause before the first repeated check.
const POLL: Duration = Duration::from_millis(50);
/// A state that lasts longer than this is noticed even if it ends again.
const POLL_MAX: Duration = Duration::from_millis(300);

/// The time to the next check: a fixed share of the time waited so far, so that a long wait costs few checks and no check is late
/// by much. Many tests share the machine, and they spend most of their time waiting.
fn pause(since: Instant) -> Duration {
    (since.elapsed() / 16).clamp(POLL, POLL_MAX)
}

/// Waits until `check` returns a value. If it never does, panics with the description and the last error.
pub async fn eventually<T>(what: &str, mut check: impl AsyncFnMut() -> Result<T, String>) -> T {
    let since = Instant::now();
    loop {
        let missing = match check().await {
            Ok(value) => return value,
            Err(missing) => missing,
        };
        assert!(
            since.elapsed() < PATIENCE,
            "never came true in {PATIENCE:?}: {what}; last: {missing}"
        );
        sleep(pause(since)).await;
    }
}

/// Repeats a call while the apiserver cannot answer it for now, because its store is slow or it is overloaded. Returns the
/// final answer, even if that is a refusal.
pub async fn insist<T>(
    what: &str,
    mut call: impl AsyncFnMut() -> kube::Result<T>,
) -> kube::Result<T> {
    eventually(what, async || match call().await {
        Ok(value) => Ok(Ok(value)),
        Err(kube::Error::Api(status)) if !matches!(status.code, 429 | 500..=504) => {
            Ok(Err(kube::Error::Api(status)))
        }
        Err(error) => Err(error.to_string()),
    })
    .await
}

/// Asserts that a condition holds throughout a window. The absence of an event can only be observed over time: the caller
/// explains why the window is long enough.
pub async fn stays(
    what: &str,
    window: Duration,
    mut holds: impl AsyncFnMut() -> Result<(), String>,
) {
    let end = Instant::now() + window;
    loop {
        // The last check comes after the window.
        let is_over = Instant::now() >= end;
        if let Err(why) = holds().await {
            panic!("did not stay so: {what}: {why}");
        }
        if is_over {
            return;
        }
        sleep(POLL_MAX).await;
    }
}

/// Messages of our command when it got no answer in time: it asks once, as its user expects, on a machine that others share.
const FOR_NOW: [&str; 6] = [
    "no answer from the apiserver",
    "no usable answer from the apiserver",
    "could not reach the service",
    "Too Many Requests",
    "TooManyRequests",
    "(re)initializing",
];

/// Whether a failure of our command is due to a busy machine.
pub fn is_for_now(words: &str) -> bool {
    FOR_NOW.iter().any(|part| words.contains(part))
}
