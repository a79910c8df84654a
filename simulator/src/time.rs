//! Moments of the simulated service. The clock is explicit, so that the model never reads one.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A moment in milliseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The moment this many milliseconds after the epoch.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The moment a duration after this one. It saturates, so that "never" is a moment very far away.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)),
        )
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The current wall-clock time. For runners; the model gets its moments as arguments.
    #[must_use]
    pub fn wall_clock() -> Self {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self::default().plus(since_epoch)
    }
}

/// The format of the service, `YYYY-MM-DD HH:MM:SS`, in UTC.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = i64::try_from(self.0)
            .ok()
            .and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
        write!(
            f,
            "{}",
            moment
                .unwrap_or(jiff::Timestamp::MAX)
                .strftime("%Y-%m-%d %H:%M:%S")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_the_format_of_the_specification() {
        assert_eq!(
            Timestamp::from_millis(1_700_000_000_000).to_string(),
            "2023-11-14 22:13:20"
        );
    }

    #[test]
    fn far_away_does_not_overflow() {
        let never = Timestamp::from_millis(5).plus(Duration::MAX);
        assert_eq!(never.as_millis(), u64::MAX);
        assert!(!never.to_string().is_empty());
    }
}
