//! A cache of listings. Each listing is read by one reconcile at a time, and others that need it wait for that result.

use super::pages::{OfferList, Unread};
use crate::cloud::List;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

/// How long a listing is used in which the caller found its thing: names change rarely.
const TTL: Duration = Duration::from_secs(300);
/// A listing without the thing that a caller looks for is not read again sooner than this, regardless of the number of Instances.
const REREAD_AFTER_MISS: Duration = Duration::from_secs(30);
/// The same for each call that a reading takes: one object that looks in vain costs four calls a minute, regardless of the length
/// of the list.
const REREAD_AFTER_MISS_PER_CALL: Duration = Duration::from_secs(15);
/// A listing that changed while it was read, or could not be read, is not read again sooner than this.
const REREAD_AFTER_TROUBLE: Duration = Duration::from_secs(10);
/// Longest wait for a reading, including the request limit, since the reconcile has other work to do.
const LIST_DEADLINE: Duration = Duration::from_secs(60);
/// More lists than the Instances of one process use. Beyond, entries are dropped that no reconcile waits for.
const MOST: usize = 512;

#[derive(Debug, Default)]
pub(super) struct ListCache {
    all: Mutex<HashMap<List, Arc<AsyncMutex<CachedList>>>>,
}

#[derive(Debug, Default)]
struct CachedList {
    listing: Option<(Arc<OfferList>, Instant)>,
    trouble: Option<(Unread, Instant)>,
}

impl ListCache {
    /// The cached listing, or a new one.
    pub(super) async fn get<F>(
        &self,
        key: &List,
        serves: impl Fn(&OfferList) -> bool,
        read: impl FnOnce() -> F,
    ) -> Result<Arc<OfferList>, Unread>
    where
        F: Future<Output = Result<OfferList, Unread>>,
    {
        let list_cache = self.of(key);
        let mut kept = list_cache.lock().await;
        if let Some(standing) = kept.standing(serves, Instant::now()) {
            return standing;
        }
        let outcome = tokio::time::timeout(LIST_DEADLINE, read()).await;
        let outcome = outcome.unwrap_or_else(|_| {
            Err(Unread {
                why: "the request limit left no room to read it".to_owned(),
                unauthorized: false,
            })
        });
        let now = Instant::now();
        match outcome {
            Ok(listing) => {
                let listing = Arc::new(listing);
                kept.listing = Some((listing.clone(), now));
                kept.trouble = None;
                Ok(listing)
            }
            Err(unread) => {
                kept.trouble = Some((unread.clone(), now));
                Err(unread)
            }
        }
    }

    fn of(&self, key: &List) -> Arc<AsyncMutex<CachedList>> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST && !all.contains_key(key) {
            all.retain(|_, list_cache| Arc::strong_count(list_cache) > 1);
        }
        all.entry(key.clone()).or_default().clone()
    }
}

impl CachedList {
    /// The answer that needs no call.
    fn standing(
        &self,
        serves: impl Fn(&OfferList) -> bool,
        now: Instant,
    ) -> Option<Result<Arc<OfferList>, Unread>> {
        let known = self.listing.as_ref();
        let known = known.map(|(listing, at)| (listing, now.saturating_duration_since(*at)));
        let good = known.filter(|(listing, age)| *age < TTL && serves(listing));
        if let Some((listing, _)) = good {
            return Some(Ok(listing.clone()));
        }
        let trouble = self.trouble.as_ref();
        if let Some((unread, _)) = trouble.filter(|(_, at)| now < *at + REREAD_AFTER_TROUBLE) {
            return Some(Err(unread.clone()));
        }
        let fresh = known.filter(|(listing, age)| *age < again(listing));
        fresh.map(|(listing, _)| Ok(listing.clone()))
    }
}

/// How long a listing is used in which a caller did not find its thing.
fn again(listing: &OfferList) -> Duration {
    if listing.steady {
        REREAD_AFTER_MISS.max(REREAD_AFTER_MISS_PER_CALL * listing.pages)
    } else {
        REREAD_AFTER_TROUBLE.max(REREAD_AFTER_MISS_PER_CALL * listing.pages)
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
            charges: Vec::new(),
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

        async fn look(
            &self,
            wanted: u32,
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
                rows.any(|row| row.id == wanted.to_string())
            };
            let looked = self.lists.get(&List::Keys, found, read).await;
            looked
                .map(|listing| found(&listing))
                .map_err(|unread| unread.why)
        }

        fn reads(&self) -> u32 {
            self.reads.load(Ordering::SeqCst)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_listing_with_what_is_looked_for_serves_all_for_its_lifetime() {
        let bench = Bench::new();
        let looks = (0..20).map(|_| bench.look(1, Ok(vec![1])));
        for found in futures::future::join_all(looks).await {
            assert_eq!(found, Ok(true));
        }
        assert_eq!(bench.reads(), 1, "whoever comes meanwhile waits");
        tokio::time::advance(TTL - Duration::from_secs(1)).await;
        assert_eq!(bench.look(1, Ok(vec![])).await, Ok(true));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(bench.look(1, Ok(vec![])).await, Ok(false));
        assert_eq!(bench.reads(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_missing_is_looked_for_again_at_most_twice_a_minute() {
        let bench = Bench::new();
        for _ in 0..60 {
            assert_eq!(bench.look(2, Ok(vec![1])).await, Ok(false));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(bench.reads(), 2);
        assert_eq!(
            bench.look(1, Ok(vec![])).await,
            Ok(true),
            "others are served"
        );
        tokio::time::advance(REREAD_AFTER_MISS).await;
        assert_eq!(bench.look(2, Ok(vec![1, 2])).await, Ok(true));
    }

    #[tokio::test(start_paused = true)]
    async fn trouble_is_not_absence_and_is_shared_for_a_moment() {
        let bench = Bench::new();
        assert_eq!(bench.look(1, Err("down")).await, Err("down".to_owned()));
        assert_eq!(bench.look(1, Ok(vec![1])).await, Err("down".to_owned()));
        tokio::time::advance(REREAD_AFTER_TROUBLE).await;
        assert_eq!(bench.look(1, Ok(vec![1])).await, Ok(true));
        tokio::time::advance(REREAD_AFTER_MISS).await;
        assert_eq!(bench.look(2, Err("down")).await, Err("down".to_owned()));
        assert_eq!(
            bench.look(1, Err("down")).await,
            Ok(true),
            "what is known stands"
        );
    }
}
