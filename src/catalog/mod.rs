//! The service's offers: regions, packages, images, security groups and key pairs. Each list is read to its end and cached for
//! all Instances of one session.
//!
//! A caller states the offer that it needs. A cached list with that offer is used for five minutes; one without it is read again,
//! at most twice a minute, since the offer may have been created meanwhile. Concurrent callers share one reading. No list is read
//! without a caller.

mod list_cache;
mod pages;
mod resolve;
mod select;
mod size;

pub use pages::{OfferList, Unread, doubt, read};
pub use resolve::{Query, SpecReference, Unresolved, in_spec};
pub use select::{Candidates, Choice, by_code_or_name, exact, is_large_enough, order};
pub use size::{Unlike, smaller, unlike};

use crate::cloud::{CallPriority, Client, List};
use list_cache::ListCache;
use std::sync::Arc;

/// The offers of the service at one (endpoint, token); cheap to clone.
#[derive(Clone, Debug)]
pub struct Catalog {
    client: Client,
    lists: Arc<ListCache>,
}

impl Catalog {
    pub fn new(client: Client) -> Self {
        Self {
            client,
            lists: Arc::default(),
        }
    }

    /// A list, from the cache or read now. `serves` decides whether a cached one has the offer that the caller needs.
    ///
    /// # Errors
    /// The list could not be read.
    pub async fn list(
        &self,
        list: &List,
        serves: impl Fn(&OfferList) -> bool,
    ) -> Result<Arc<OfferList>, Unread> {
        let page = |page| self.client.offers(CallPriority::Urgent, list, page);
        self.lists.get(list, serves, || read(list, page)).await
    }
}
