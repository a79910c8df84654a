//! The newest version of an object that this process knows.

use crate::instance::times;
use std::time::Duration;
use tokio::time::Instant;

/// How to proceed with a version that is older than the newest known one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lag {
    /// The watch is expected to show the newest version, or the apiserver was read recently: wait.
    Wait(Duration),
    /// Only a read from the apiserver can show why the watch stays behind.
    Ask,
}

/// The newest version that the watch showed or that answered our own write. Versions are integers that only grow, except in a
/// restore of etcd.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newest {
    version: u64,
    at: Instant,
    asked: Option<Instant>,
}

impl Newest {
    /// The newest of the former version and another one.
    pub(super) fn with(former: Option<Self>, version: u64, now: Instant) -> Self {
        former
            .filter(|former| version <= former.version)
            .unwrap_or(Self {
                version,
                at: now,
                asked: None,
            })
    }

    pub(super) fn version(self) -> u64 {
        self.version
    }

    /// Compares; None if no newer version is known. If the result is [`Lag::Ask`], notes that the apiserver is being read.
    pub(super) fn lag(&mut self, shown: u64, now: Instant) -> Option<Lag> {
        if shown >= self.version {
            return None;
        }
        if now < self.at + times::CACHE_CATCHES_UP_WITHIN {
            return Some(Lag::Wait(times::AFTER_OWN_WRITE));
        }
        let again = self
            .asked
            .map(|asked| asked + times::STALE_CACHE_ASKED_AGAIN);
        if again.is_some_and(|again| now < again) {
            return Some(Lag::Wait(times::STALE_CACHE_RECHECK));
        }
        self.asked = Some(now);
        Some(Lag::Ask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_apiserver_is_asked_about_an_older_version_that_lasts() {
        let now = Instant::now();
        let mut newest = Newest::with(None, 5, now);
        assert_eq!(newest.lag(5, now), None);
        newest = Newest::with(Some(newest), 8, now);
        newest = Newest::with(Some(newest), 4, now);
        let soon = Some(Lag::Wait(times::AFTER_OWN_WRITE));
        assert_eq!(newest.lag(4, now), soon);
        let later = now + times::CACHE_CATCHES_UP_WITHIN;
        assert_eq!(newest.lag(4, later), Some(Lag::Ask));
        let known = Some(Lag::Wait(times::STALE_CACHE_RECHECK));
        assert_eq!(newest.lag(4, later), known);
        let again = later + times::STALE_CACHE_ASKED_AGAIN;
        assert_eq!(newest.lag(4, again), Some(Lag::Ask));
        assert_eq!(newest.lag(8, again), None);
    }
}
