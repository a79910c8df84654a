//! Waiting for conditions, never for time.

use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Long enough for a machine that builds three other things meanwhile; counts are asserted, times are not.
pub const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(100);

/// Waits until `look` gives a value. When it never does, says what was waited for and which half was missing last.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let missing = match look().await {
            Ok(value) => return value,
            Err(missing) => missing,
        };
        assert!(
            Instant::now() < deadline,
            "never came true in {PATIENCE:?}: {what}; last: {missing}"
        );
        sleep(POLL).await;
    }
}

/// Watches that something stays so for a window. That nothing happens can only be seen by looking for a while: the caller
/// says why the window is long enough.
pub async fn stays(
    what: &str,
    window: Duration,
    mut holds: impl AsyncFnMut() -> Result<(), String>,
) {
    let end = Instant::now() + window;
    while Instant::now() < end {
        if let Err(why) = holds().await {
            panic!("did not stay so: {what}: {why}");
        }
        sleep(POLL * 2).await;
    }
}
