//! The servers of an account, row by row, from every place that is known.

use super::owners::Owners;
use super::progress::Progress;
use crate::api::Account;
use crate::catalog::{self, Catalog, Choice};
use crate::cloud::{Client, Lane, Offer, Place, Region, Server};
use std::cell::Cell;
use std::collections::BTreeSet;

/// Where to look.
#[derive(Debug, Default)]
pub(super) struct Within<'a> {
    pub(super) region: Option<&'a str>,
    pub(super) zone: Option<&'a str>,
}

/// What was listed.
pub(super) struct Servers {
    pub(super) rows: Vec<Server>,
    /// What the reader should know of the list.
    pub(super) notes: Vec<String>,
}

/// Reads the listing of every place, one after the other.
pub(super) async fn read(
    client: &Client,
    places: &[Place],
    progress: &Progress,
) -> Result<Servers, String> {
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    for (number, place) in places.iter().enumerate() {
        let pages = Cell::new(0);
        let read = |page| {
            pages.set(page);
            progress.say(|| {
                let count = places.len();
                format!(
                    "reading servers: {place} ({} of {count}), page {page}",
                    number + 1
                )
            });
            client.servers_page(Lane::Urgent, place, page)
        };
        let listed = catalog::all(read).await.map_err(|unread| {
            let what = format!("servers of {place}");
            super::unreadable(client, &what, unread)
        })?;
        if !listed.readable {
            let note =
                format!("the list of {place} has rows that make no sense: they are left out");
            notes.push(note);
        }
        rows.extend(listed.rows);
    }
    Ok(Servers { rows, notes })
}

/// The places in which an account may have servers: those that the service lists, those in which Instances have servers, and
/// those that the Account's status tells, since a region that is sold out leaves the service's list.
pub(super) async fn places(
    client: &Client,
    owners: Option<&Owners>,
    account: Option<&Account>,
    within: &Within<'_>,
) -> Result<Vec<Place>, String> {
    let regions = Catalog::new(client.clone()).regions(|_| true).await;
    let regions = regions.map_err(|unread| super::unreadable(client, "regions", unread))?;
    let of_region = |region: &Region| {
        let code = region.code.clone();
        let zones = region.zones.clone().into_iter();
        zones.map(move |zone| Place::new(code.clone(), zone.code))
    };
    let mut all: BTreeSet<Place> = regions.rows.iter().flat_map(of_region).collect();
    all.extend(owners.iter().flat_map(|owners| owners.places()));
    let status = account.and_then(|account| account.status.as_ref());
    let told = status.iter().flat_map(|status| &status.inventory);
    all.extend(told.map(|place| Place::new(place.region.as_str(), place.zone.as_str())));
    if let Some(text) = within.region {
        let code = region_code(&regions.rows, &all, text)?;
        all.retain(|place| place.region == code);
    }
    if let Some(text) = within.zone {
        let zones = regions.rows.iter().flat_map(|region| &region.zones);
        let zones: Vec<_> = zones.cloned().collect();
        let code = match catalog::zone(&zones, text) {
            Choice::One(code) => code,
            Choice::Many(_) | Choice::None(_) => text.to_owned(),
        };
        all.retain(|place| place.zone == code);
    }
    if all.is_empty() {
        return Err("no zone is known that fits: try without --region and --zone".to_owned());
    }
    Ok(all.into_iter().collect())
}

fn region_code(rows: &[Region], known: &BTreeSet<Place>, text: &str) -> Result<String, String> {
    match catalog::region(rows, text) {
        Choice::One(code) => Ok(code),
        _ if known.iter().any(|place| place.region == text) => Ok(text.to_owned()),
        Choice::Many(several) => Err(format!(
            "several regions are called {text}: {several}: name one by its code with --region"
        )),
        Choice::None(near) => Err(format!(
            "the service lists no region {text} (one that is sold out may be missing); it lists {near}: name one of these \
             with --region"
        )),
    }
}

/// The row with all that its detail tells, where the listing tells too little.
pub(super) async fn completed(client: &Client, row: Server) -> Result<Server, String> {
    let is_whole = ["publicIpAddress", "imageName", "cpu"];
    if is_whole
        .iter()
        .all(|field| row.fields().contains_key(*field))
    {
        return Ok(row);
    }
    match client.detail(Lane::Urgent, &row.id).await {
        Ok(detail) => Ok(row.with_detail(detail)),
        // It went meanwhile.
        Err(error) if error.is_no_such_instance() => Ok(row),
        Err(error) => {
            let what = format!("detail of server {}", row.id);
            Err(super::unreadable(client, &what, error))
        }
    }
}
