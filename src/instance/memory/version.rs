//! The newest version of an object that this process knows.

use crate::instance::times;
use tokio::time::Instant;

/// How a shown version compares with the newest known one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lag {
    /// It is the newest.
    None,
    /// It is older than our own write, and will catch up soon.
    Soon,
    /// It has been older for longer than that, and the apiserver was read recently.
    Known,
    /// It is older, and only a read from the apiserver can show why.
    Unknown,
}

/// The newest version that the watch showed or that answered our own write. Versions are integers that only grow, except in a
/// restore of etcd.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newest {
    version: u64,
    at: Instant,
    /// The watch showed an older version after this one.
    went_back: bool,
    asked: Option<Instant>,
}

impl Newest {
    /// The newest of the former version and another one.
    pub(super) fn with(former: Option<Self>, version: u64, is_shown: bool, now: Instant) -> Self {
        match former {
            Some(former) if version < former.version => Self {
                went_back: former.went_back || is_shown,
                ..former
            },
            Some(former) if version == former.version => Self {
                went_back: former.went_back && !is_shown,
                ..former
            },
            _ => Self {
                version,
                at: now,
                went_back: false,
                asked: None,
            },
        }
    }

    pub(super) fn version(self) -> u64 {
        self.version
    }

    /// Compares. If the result is [`Lag::Unknown`], notes that the apiserver is being read.
    pub(super) fn lag(&mut self, shown: u64, now: Instant) -> Lag {
        if shown >= self.version {
            return Lag::None;
        }
        if !self.went_back && now < self.at + times::CACHE_CATCHES_UP_WITHIN {
            return Lag::Soon;
        }
        if self
            .asked
            .is_some_and(|asked| now < asked + times::STALE_CACHE_ASKED_AGAIN)
        {
            return Lag::Known;
        }
        self.asked = Some(now);
        Lag::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_older_sight_is_asked_about_at_once_after_a_newer_one_and_later_after_a_write_of_ours()
     {
        let now = Instant::now();
        let mut newest = Newest::with(None, 5, true, now);
        assert_eq!(newest.lag(5, now), Lag::None);
        let mut written = Newest::with(Some(newest), 8, false, now);
        assert_eq!(written.lag(5, now), Lag::Soon);
        assert_eq!(
            written.lag(5, now + times::CACHE_CATCHES_UP_WITHIN),
            Lag::Unknown
        );
        assert_eq!(
            written.lag(5, now + times::CACHE_CATCHES_UP_WITHIN),
            Lag::Known
        );
        let again = now + times::CACHE_CATCHES_UP_WITHIN + times::STALE_CACHE_ASKED_AGAIN;
        assert_eq!(written.lag(5, again), Lag::Unknown);
        newest = Newest::with(Some(newest), 4, true, now);
        assert_eq!(newest.lag(4, now), Lag::Unknown);
        assert_eq!(newest.lag(4, now), Lag::Known);
        newest = Newest::with(Some(newest), 5, true, now);
        assert_eq!(newest.lag(5, now), Lag::None);
    }
}
