//! A cache of the service's lists. One caller at a time reads a list; other callers that need the list wait for that reading.

use super::pages::{OfferList, Unread};
use crate::cloud::List;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

/// How long a list is used that has the offer which the caller needs: offers change rarely.
const TTL: Duration = Duration::from_secs(300);
/// A list without the offer that a caller needs is read again after this time for each call that a reading takes. So lookups of a
/// missing offer cost at most four calls a minute, regardless of the length of the list and of the number of Instances.
const REREAD_AFTER_MISS_PER_CALL: Duration = Duration::from_secs(15);
/// A list that arrives in one call counts as two calls.
const CALLS_MIN: u32 = 2;
/// A list that could not be read is not read again sooner than this.
const REREAD_AFTER_TROUBLE: Duration = Duration::from_secs(10);
/// Longest time for a reading, including the waits for the rate limiter, since the reconcile has other work to do.
const LIST_DEADLINE: Duration = Duration::from_secs(60);
/// More lists than the Instances of one session use. Beyond, all entries are dropped that no caller uses at that moment.
const LISTS_MAX: usize = 512;

#[derive(Debug, Default)]
pub(super) struct ListCache {
    all: Mutex<HashMap<List, Arc<AsyncMutex<Option<LatestReading>>>>>,
}

/// The result of the latest reading of a list, and its time.
type LatestReading = (Result<Arc<OfferList>, Unread>, Instant);

impl ListCache {
    /// The list of the latest reading, or of a new one.
    pub(super) async fn get<F>(
        &self,
        key: &List,
        serves: impl Fn(&OfferList) -> bool,
        read: impl FnOnce() -> F,
    ) -> Result<Arc<OfferList>, Unread>
    where
        F: Future<Output = Result<OfferList, Unread>>,
    {
        let latest = self.of(key);
        let mut latest = latest.lock().await;
        if let Some((outcome, at)) = &*latest {
            let age = at.elapsed();
            let is_usable = match outcome {
                Ok(list) if serves(list) => age < TTL,
                Ok(list) => age < REREAD_AFTER_MISS_PER_CALL * list.pages.max(CALLS_MIN),
                Err(_) => age < REREAD_AFTER_TROUBLE,
            };
            if is_usable {
                return outcome.clone();
            }
        }
        let outcome = match tokio::time::timeout(LIST_DEADLINE, read()).await {
            Ok(outcome) => outcome.map(Arc::new),
            Err(_) => Err(Unread {
                why: "reading it took too long (slow service or request limit)".to_owned(),
                unauthorized: false,
            }),
        };
        *latest = Some((outcome.clone(), Instant::now()));
        outcome
    }

    fn of(&self, key: &List) -> Arc<AsyncMutex<Option<LatestReading>>> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= LISTS_MAX && !all.contains_key(key) {
            all.retain(|_, latest| Arc::strong_count(latest) > 1);
        }
        all.entry(key.clone()).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::Offer;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn listing(numbers: Vec<u32>) -> OfferList {
        let row = |number: u32| Offer {
            id: number.to_string(),
            ..Offer::default()
        };
        OfferList {
            rows: numbers.into_iter().map(row).collect(),
            steady: true,
            readable: true,
            pages: 2,
            read: Instant::now(),
            memory: Vec::new(),
        }
    }

    struct Bench {
        lists: ListCache,
        reads: AtomicU32,
    }

    impl Bench {
        fn new() -> Self {
            Self {
                lists: ListCache::default(),
                reads: AtomicU32::new(0),
            }
        }

        async fn has_row(
            &self,
            id: u32,
            now_listed: Result<Vec<u32>, &str>,
        ) -> Result<bool, String> {
            let read = || async {
                self.reads.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                now_listed.map(listing).map_err(|why| Unread {
                    why: why.to_owned(),
                    unauthorized: false,
                })
            };
            let found = |listing: &OfferList| {
                let mut rows = listing.rows.iter();
                rows.any(|row| row.id == id.to_string())
            };
            let listing = self.lists.get(&List::Keys, found, read).await;
            listing
                .map(|listing| found(&listing))
                .map_err(|unread| unread.why)
        }

        fn reads(&self) -> u32 {
            self.reads.load(Ordering::SeqCst)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_listing_serves_all_lookups_for_its_lifetime() {
        let bench = Bench::new();
        let lookups = (0..20).map(|_| bench.has_row(1, Ok(vec![1])));
        for found in futures::future::join_all(lookups).await {
            assert_eq!(found, Ok(true));
        }
        assert_eq!(bench.reads(), 1, "lookups during a read wait for it");
        tokio::time::advance(TTL - Duration::from_secs(1)).await;
        assert_eq!(bench.has_row(1, Ok(vec![])).await, Ok(true));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(bench.has_row(1, Ok(vec![])).await, Ok(false));
        assert_eq!(bench.reads(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_row_is_read_again_at_most_twice_a_minute() {
        let bench = Bench::new();
        for _ in 0..60 {
            assert_eq!(bench.has_row(2, Ok(vec![1])).await, Ok(false));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(bench.reads(), 2);
        assert_eq!(
            bench.has_row(1, Ok(vec![])).await,
            Ok(true),
            "other lookups are served"
        );
        tokio::time::advance(2 * REREAD_AFTER_MISS_PER_CALL).await;
        assert_eq!(bench.has_row(2, Ok(vec![1, 2])).await, Ok(true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_read_is_not_absence_and_is_shared_for_a_moment() {
        let bench = Bench::new();
        assert_eq!(bench.has_row(1, Err("down")).await, Err("down".to_owned()));
        assert_eq!(bench.has_row(1, Ok(vec![1])).await, Err("down".to_owned()));
        tokio::time::advance(REREAD_AFTER_TROUBLE).await;
        assert_eq!(bench.has_row(1, Ok(vec![1])).await, Ok(true));
        tokio::time::advance(2 * REREAD_AFTER_MISS_PER_CALL).await;
        assert_eq!(bench.has_row(2, Err("down")).await, Err("down".to_owned()));
    }
}
