//! Waiting for conditions, never for time.

use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Long enough for a slow machine that builds other things meanwhile; counts are asserted, times are not.
pub const PATIENCE: Duration = Duration::from_secs(240);
/// The first look after a look that failed comes this soon.
const POLL: Duration = Duration::from_millis(50);
/// What stands for longer than this is seen, also where it goes again.
const POLL_MAX: Duration = Duration::from_millis(300);

/// The time to the next look: a fixed share of what was waited already, so that a long wait costs few looks and no look comes
/// late by much. Many tests share the machine, and most of what they do is to wait.
fn pause(since: Instant) -> Duration {
    (since.elapsed() / 16).clamp(POLL, POLL_MAX)
}

/// Waits until `look` gives a value. When it never does, says what was waited for and which half was missing last.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let since = Instant::now();
    loop {
        let missing = match look().await {
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

/// Makes a call again while the apiserver cannot answer it for now: its store is slow, or it has too much to do. What it
/// answers is given, also where that is a refusal.
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

/// Watches that something stays so for a window. That nothing happens can only be seen by looking for a while: the caller
/// says why the window is long enough.
pub async fn stays(
    what: &str,
    window: Duration,
    mut holds: impl AsyncFnMut() -> Result<(), String>,
) {
    let end = Instant::now() + window;
    loop {
        // The last look is one after the window.
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

/// What our command says where nobody answered in time: it asks once, as its user wants, on a machine that others share.
const FOR_NOW: [&str; 6] = [
    "no answer from the apiserver",
    "could not be reached",
    "could not reach the service",
    "Too Many Requests",
    "TooManyRequests",
    "(re)initializing",
];

/// Whether a command of ours that failed would not have on a quieter machine.
pub fn is_for_now(words: &str) -> bool {
    FOR_NOW.iter().any(|part| words.contains(part))
}
