//! The offers of the service, each list read to its end.

use crate::unreadable;
use cloud_server_operator::catalog::{self, Candidates};
use cloud_server_operator::cloud::{
    CallPriority, Client, Error, Firewall, Image, Key, Offer, Offers, Package, Region,
};

/// A list of the service.
pub(super) struct Listed<T> {
    pub(super) rows: Vec<T>,
    /// Why rows may be missing.
    pub(super) doubt: Option<&'static str>,
}

const URGENT: CallPriority = CallPriority::Urgent;

pub(super) async fn regions(client: &Client) -> Result<Listed<Region>, String> {
    single(client, "regions", client.regions(URGENT).await)
}

/// The packages of a region, or of one of its zones.
pub(super) async fn packages(
    client: &Client,
    region: &str,
    zone: Option<&str>,
) -> Result<Listed<Package>, String> {
    let answer = client.packages(URGENT, region, zone).await;
    single(client, "packages", answer)
}

pub(super) async fn images(client: &Client, region: &str) -> Result<Listed<Image>, String> {
    let page = |page| client.images_page(URGENT, region, page);
    paged(client, "images", page).await
}

pub(super) async fn firewalls(client: &Client, region: &str) -> Result<Listed<Firewall>, String> {
    let page = |page| client.firewalls_page(URGENT, region, page);
    paged(client, "security groups", page).await
}

pub(super) async fn keys(client: &Client) -> Result<Listed<Key>, String> {
    paged(client, "key pairs", |page| client.keys_page(URGENT, page)).await
}

/// A list that arrives in one answer.
fn single<T>(
    client: &Client,
    what: &str,
    answer: Result<Offers<T>, Error>,
) -> Result<Listed<T>, String> {
    let offers = answer.map_err(|error| unreadable(client, what, error))?;
    let doubt = catalog::doubt(true, offers.unreadable == 0);
    let rows = offers.rows;
    Ok(Listed { rows, doubt })
}

async fn paged<T: Offer, F>(
    client: &Client,
    what: &str,
    page: impl Fn(u32) -> F,
) -> Result<Listed<T>, String>
where
    F: Future<Output = Result<Offers<T>, Error>>,
{
    let listing = catalog::all(page).await;
    let listing = listing.map_err(|unread| unreadable(client, what, unread))?;
    let doubt = listing.doubt();
    let rows = listing.rows;
    Ok(Listed { rows, doubt })
}

/// The remedy for a flag with a value that the service does not list, or lists several times.
pub(super) fn choose(flag: &str, near: &Candidates) -> String {
    match near.is_empty() {
        true => format!("it lists none: leave {flag} out"),
        false => format!("it lists {near}: name one of these with {flag}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_left_out_where_the_service_lists_nothing_for_it() {
        let near = Candidates::of([("r-1-a".to_owned(), Some("A".to_owned()))]);
        assert_eq!(
            choose("--zone", &near),
            "it lists r-1-a (A): name one of these with --zone"
        );
        assert_eq!(
            choose("--zone", &Candidates::default()),
            "it lists none: leave --zone out"
        );
    }
}
