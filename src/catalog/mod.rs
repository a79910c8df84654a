//! The service's offers: regions, packages, images, security groups and key pairs. Each list is read to its end and cached for
//! all Instances of one (endpoint, token).
//!
//! A caller states what it looks for. A listing that contains it is used for five minutes; one without it is read again, at most
//! twice a minute, since the thing may have been created meanwhile. Concurrent callers share one reading. No list is read without
//! a caller.

mod list_cache;
mod pages;
mod resolve;
mod select;
mod size;

pub use pages::{Listing, Unread, all, doubt};
pub use resolve::{Query, Unresolved, Written, written};
pub use select::{
    Candidates, Choice, exact, firewall, image, is_large_enough, key, order, package, region, zone,
};
pub use size::{Unlike, smaller, unlike};

use crate::cloud::{CallPriority, Client, Firewall, Image, Key, Package, Place, Region};
use list_cache::ListCache;
use std::sync::Arc;

/// The offers to one (endpoint, token); cheap to clone.
#[derive(Clone, Debug)]
pub struct Catalog {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    client: Client,
    regions: ListCache<(), Region>,
    packages: ListCache<Place, Package>,
    images: ListCache<String, Image>,
    firewalls: ListCache<String, Firewall>,
    keys: ListCache<(), Key>,
}

pub type Looked<T> = Result<Arc<Listing<T>>, Unread>;

impl Catalog {
    pub fn new(client: Client) -> Self {
        let inner = Inner {
            client,
            regions: ListCache::default(),
            packages: ListCache::default(),
            images: ListCache::default(),
            firewalls: ListCache::default(),
            keys: ListCache::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The regions. `serves` decides whether a cached listing answers the caller's question.
    ///
    /// # Errors
    /// The list could not be read.
    pub async fn regions(&self, serves: impl Fn(&Listing<Region>) -> bool) -> Looked<Region> {
        let client = &self.inner.client;
        let read = || async { pages::single(client.regions(CallPriority::Urgent).await) };
        self.inner.regions.get(&(), serves, read).await
    }

    /// The packages of a zone; see [`Catalog::regions`].
    ///
    /// # Errors
    /// The list could not be read.
    pub async fn packages(
        &self,
        place: &Place,
        serves: impl Fn(&Listing<Package>) -> bool,
    ) -> Looked<Package> {
        let client = &self.inner.client;
        let Place { region, zone } = place;
        let read = || async {
            pages::single(
                client
                    .packages(CallPriority::Urgent, region, Some(zone))
                    .await,
            )
        };
        self.inner.packages.get(place, serves, read).await
    }

    /// The images of a region; see [`Catalog::regions`].
    ///
    /// # Errors
    /// The list could not be read.
    pub async fn images(
        &self,
        region: &str,
        serves: impl Fn(&Listing<Image>) -> bool,
    ) -> Looked<Image> {
        let client = &self.inner.client;
        let read = || pages::all(|page| client.images_page(CallPriority::Urgent, region, page));
        self.inner
            .images
            .get(&region.to_owned(), serves, read)
            .await
    }

    /// The security groups of a region; see [`Catalog::regions`].
    ///
    /// # Errors
    /// The list could not be read.
    pub async fn firewalls(
        &self,
        region: &str,
        serves: impl Fn(&Listing<Firewall>) -> bool,
    ) -> Looked<Firewall> {
        let client = &self.inner.client;
        let read = || pages::all(|page| client.firewalls_page(CallPriority::Urgent, region, page));
        self.inner
            .firewalls
            .get(&region.to_owned(), serves, read)
            .await
    }

    /// The key pairs; see [`Catalog::regions`].
    ///
    /// # Errors
    /// The list could not be read.
    pub async fn keys(&self, serves: impl Fn(&Listing<Key>) -> bool) -> Looked<Key> {
        let client = &self.inner.client;
        let read = || pages::all(|page| client.keys_page(CallPriority::Urgent, page));
        self.inner.keys.get(&(), serves, read).await
    }
}
