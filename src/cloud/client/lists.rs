//! The lists of the service other than instances: an operation for each list, and one common way to read them.

use secrecy::ExposeSecret;

use super::super::answer::{Answer, Reading, row_count};
use super::super::cloud_call::CloudCall;
use super::super::error::Error;
use super::super::ids::Place;
use super::super::offers::{
    Collected, Firewall, Image, Key, Offer, Offers, Package, Region, Server,
};
use super::super::rate_limiter::CallPriority;
use super::{Client, PAGE_SIZE};

impl Client {
    /// Field note 7: one page of the instances of a place, with whole rows, to be shown. [`Client::instances_page`] reads pages
    /// as evidence about servers.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn servers_page(
        &self,
        priority: CallPriority,
        place: &Place,
        page: u32,
    ) -> Result<Offers<Server>, Error> {
        let query = [
            ("regionCode", place.region.as_str()),
            ("zoneCode", place.zone.as_str()),
        ];
        self.offers_page(priority, CloudCall::Instances, &query, page)
            .await
    }

    /// Field note 8: the regions, in one answer. A region that is sold out may be missing.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn regions(&self, priority: CallPriority) -> Result<Offers<Region>, Error> {
        self.offers(priority, CloudCall::Regions, &[]).await
    }

    /// Section 4.8: the packages of a region, or of one of its zones, in one answer. Packages of other places are dropped, even
    /// if the service sends them.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn packages(
        &self,
        priority: CallPriority,
        region: &str,
        zone: Option<&str>,
    ) -> Result<Offers<Package>, Error> {
        let mut query = vec![("regionCode", region)];
        query.extend(zone.map(|zone| ("zoneCode", zone)));
        let served = self.offers(priority, CloudCall::Packages, &query).await?;
        Ok(served.within(region, zone))
    }

    /// Section 4.6: one page of the images of a region, from page 1.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn images_page(
        &self,
        priority: CallPriority,
        region: &str,
        page: u32,
    ) -> Result<Offers<Image>, Error> {
        let query = [("regionCode", region)];
        self.offers_page(priority, CloudCall::Images, &query, page)
            .await
    }

    /// Section 4.5: one page of the security groups of a region, from page 1.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn firewalls_page(
        &self,
        priority: CallPriority,
        region: &str,
        page: u32,
    ) -> Result<Offers<Firewall>, Error> {
        let query = [("regionCode", region)];
        self.offers_page(priority, CloudCall::Firewalls, &query, page)
            .await
    }

    /// Section 4.7: one page of the key pairs of the account, from page 1.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn keys_page(&self, priority: CallPriority, page: u32) -> Result<Offers<Key>, Error> {
        self.offers_page(priority, CloudCall::Keys, &[], page).await
    }

    async fn offers_page<T: Offer>(
        &self,
        priority: CallPriority,
        operation: CloudCall,
        query: &[(&str, &str)],
        page: u32,
    ) -> Result<Offers<T>, Error> {
        let (page, size) = (page.to_string(), PAGE_SIZE.to_string());
        let paging = [("page", page.as_str()), ("pageSize", size.as_str())];
        let query = [query, &paging].concat();
        self.offers(priority, operation, &query).await
    }

    async fn offers<T: Offer>(
        &self,
        priority: CallPriority,
        operation: CloudCall,
        query: &[(&str, &str)],
    ) -> Result<Offers<T>, Error> {
        let call = self.read(priority, operation, query).await;
        let token = self.caller.token.expose_secret();
        let mut collected =
            Collected::new(self.caller.share.clone(), token, self.caller.whole_rows);
        let counted = |answer: Answer, reading: &Reading<'_>| {
            let count = answer.listed.then(|| row_count(&answer.body));
            answer.result(count, "it carries no such list", reading)
        };
        let mut take = |text: &[u8]| collected.take(text);
        let row_count = self.caller.run(call, &mut take, counted).await?;
        Ok(collected.offers(row_count))
    }
}
