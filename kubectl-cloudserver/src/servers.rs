//! The servers of an account, from every known place. Each is an [`Offer`], the type for a row of any list of the service.

use super::completion::values;
use super::offers::{self, choose};
use super::owners::{Owners, Ownership, owners};
use super::progress::Progress;
use super::service::{Reached, ServiceArgs};
use super::unreadable;
use clap::Args;
use cloud_server_operator::api::Account;
use cloud_server_operator::catalog::{self, Choice};
use cloud_server_operator::cloud::{
    CallPriority, Client, Detail, IdAndName, List, Offer, Place, ServerId,
};
use std::collections::BTreeSet;

/// Flags that limit the places.
#[derive(Debug, Args)]
pub(super) struct Within {
    /// Only this region, by code or name.
    #[arg(long, value_name = "REGION", add = values::regions())]
    pub(super) region: Option<String>,

    /// Only this zone, by code or name.
    #[arg(long, value_name = "ZONE", add = values::zones())]
    pub(super) zone: Option<String>,
}

/// The places whose servers are listed.
pub(super) struct Places {
    all: Vec<Place>,
    /// The regions that the service lists.
    regions: Vec<Offer>,
    /// The codes of the requested region and zone.
    region: Option<String>,
    zone: Option<String>,
}

impl Places {
    /// Whether an Instance with this region and zone in its spec, by code or name, is in the requested region and zone. If none is
    /// requested, every Instance is included, even if its zone is unknown.
    pub(super) fn includes(&self, region: &str, zone: &str) -> bool {
        let region = match catalog::by_code_or_name(named(&self.regions), region) {
            Choice::One(code) => code,
            Choice::Many(_) | Choice::None(_) => region.to_owned(),
        };
        let zones = self.regions.iter().filter(|row| row.id == region);
        let zone = zone_code(zones, zone);
        let is = |wanted: &Option<String>, code: &String| wanted.as_ref().is_none_or(|w| w == code);
        is(&self.region, &region) && is(&self.zone, &zone)
    }
}

/// The servers of a service, and who owns them.
pub(super) struct Servers<'a> {
    pub(super) reached: Reached,
    pub(super) owners: Option<Owners>,
    pub(super) places: Places,
    pub(super) progress: &'a Progress,
}

impl<'a> Servers<'a> {
    /// Reads the owners, as far as the user may, and the places.
    pub(super) async fn reach(
        service: &ServiceArgs,
        within: &Within,
        progress: &'a Progress,
    ) -> Result<Self, String> {
        let reached = service.reach().await?;
        let owners = owners(&reached, progress).await;
        let account = reached.account.as_ref();
        Ok(Self {
            places: places(&reached.client, owners.as_ref(), account, within).await?,
            owners,
            reached,
            progress,
        })
    }

    pub(super) fn owner(&self, id: &str, name: Option<&str>) -> Ownership {
        let (owners, id) = (self.owners.as_ref(), ServerId::from(id));
        owners.map_or(Ownership::Unknown, |owners| owners.of(&id, name))
    }

    /// Reads the listing of every place, one after the other, and notes unreadable rows.
    pub(super) async fn read(&self) -> Result<Vec<Offer>, String> {
        let (client, count) = (&self.reached.client, self.places.all.len());
        let mut rows = Vec::new();
        for (number, place) in (1..).zip(&self.places.all) {
            let list = List::Servers(place.clone());
            let read = |page| {
                self.progress.show(|| {
                    format!("reading servers: {place} ({number} of {count}), page {page}")
                });
                client.offers(CallPriority::Urgent, &list, page)
            };
            let listed = catalog::read(&list, read).await;
            let listed = listed
                .map_err(|unread| unreadable(client, &format!("servers of {place}"), unread))?;
            if !listed.readable {
                self.progress.note(&format!(
                    "the list of {place} has malformed rows, which are omitted"
                ));
            }
            rows.extend(listed.rows);
        }
        Ok(rows)
    }
}

/// The places in which an account may have servers: those that the service lists, those of the Instances' servers, and those in
/// the Account's status, since a sold-out region disappears from the service's list. Only places in `within` are returned.
async fn places(
    client: &Client,
    owners: Option<&Owners>,
    account: Option<&Account>,
    within: &Within,
) -> Result<Places, String> {
    let regions = offers::read(client, &List::Regions).await?.rows;
    let of_region = |region: &Offer| {
        let code = region.id.clone();
        let zones = region.zones.clone().into_iter();
        zones.map(move |(zone, _)| Place::new(code.clone(), zone))
    };
    let mut all: BTreeSet<Place> = regions.iter().flat_map(of_region).collect();
    all.extend(owners.iter().flat_map(|owners| owners.places()));
    let status = account.and_then(|account| account.status.as_ref());
    let inventory = status.iter().flat_map(|status| &status.inventory);
    all.extend(inventory.map(|place| Place::new(place.region.as_str(), place.zone.as_str())));
    let region = match &within.region {
        // A region that is sold out is missing in the service's list.
        Some(code) if all.iter().any(|place| place.region == *code) => Some(code.clone()),
        Some(text) => Some(region_code(&regions, text)?),
        None => None,
    };
    let is_in_region = |code: &str| region.as_ref().is_none_or(|it| it == code);
    let zones = regions.iter().filter(|row| is_in_region(&row.id));
    let zone = (within.zone.as_deref()).map(|text| zone_code(zones, text));
    all.retain(|place| is_in_region(&place.region));
    all.retain(|place| zone.as_ref().is_none_or(|code| place.zone == *code));
    if all.is_empty() {
        return Err("no known zone matches: try without --region and --zone".to_owned());
    }
    Ok(Places {
        all: all.into_iter().collect(),
        regions,
        region,
        zone,
    })
}

/// The code of the zone of these regions that `text` names by code or name; `text` itself if there is not exactly one.
fn zone_code<'a>(regions: impl Iterator<Item = &'a Offer>, text: &str) -> String {
    let zones: Vec<IdAndName> = regions.flat_map(|region| &region.zones).cloned().collect();
    match catalog::by_code_or_name(zones, text) {
        Choice::One(code) => code,
        Choice::Many(_) | Choice::None(_) => text.to_owned(),
    }
}

/// The code of the region that `text` names by code or name.
pub(super) fn region_code(regions: &[Offer], text: &str) -> Result<String, String> {
    match catalog::by_code_or_name(named(regions), text) {
        Choice::One(code) => Ok(code),
        Choice::Many(near) | Choice::None(near) => Err(format!(
            "region {text} is ambiguous or not listed (a sold-out region may be missing); {}",
            choose("--region", &near)
        )),
    }
}

fn named(rows: &[Offer]) -> Vec<IdAndName> {
    rows.iter().map(Offer::named).collect()
}

/// Everything that the service reports of a server.
pub(super) async fn detail(client: &Client, id: &ServerId) -> Result<Detail, String> {
    let read = client.detail(CallPriority::Urgent, id).await;
    read.map_err(|error| unreadable(client, &format!("detail of server {id}"), error))
}

/// The row, with the fields of the server's detail if the listing lacks some that tables show.
pub(super) async fn with_detail(client: &Client, mut row: Offer) -> Result<Offer, String> {
    let shown = ["publicIpAddress", "imageName", "cpu"];
    if shown.iter().all(|field| row.fields.contains_key(*field)) {
        return Ok(row);
    }
    let id = ServerId::from(row.id.as_str());
    match client.detail(CallPriority::Urgent, &id).await {
        Ok(detail) => row.fields.extend(detail.fields),
        // The server was released meanwhile.
        Err(error) if error.is_no_such_instance() => {}
        Err(error) => {
            let what = format!("detail of server {id}");
            return Err(unreadable(client, &what, error));
        }
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn places(region: Option<&str>, zone: Option<&str>) -> Places {
        let rows = json!([
            {"regionCode": "r-1", "regionName": "One", "zones": [
                {"zoneCode": "r-1-a", "zoneName": "A"}, {"zoneCode": "r-1-b", "zoneName": "B"}]},
            {"regionCode": "r-2", "regionName": "Two", "zones": [{"zoneCode": "r-2-a", "zoneName": "A"}]},
        ]);
        let rows = rows.as_array().unwrap().iter();
        let rows = rows.map(|row| Offer::read(&List::Regions, row.as_object().unwrap()).unwrap());
        Places {
            all: Vec::new(),
            regions: rows.collect(),
            region: region.map(ToOwned::to_owned),
            zone: zone.map(ToOwned::to_owned),
        }
    }

    #[test]
    fn an_instance_fits_the_requested_zone_by_code_or_name() {
        let (anywhere, here) = (places(None, None), places(None, Some("r-1-b")));
        for (region, zone, fits) in [
            ("r-1", "r-1-b", true),
            ("One", "B", true),
            ("r-1", "r-1-a", false),
            ("Two", "A", false),
            ("r-1", "mistyped", false),
        ] {
            assert_eq!(here.includes(region, zone), fits, "{region} {zone}");
            assert!(anywhere.includes(region, zone));
        }
        let why = region_code(&anywhere.regions, "r-9").unwrap_err();
        assert!(why.contains("name one of these with --region"), "{why}");
        let region = places(Some("r-1"), None);
        assert!(region.includes("One", "mistyped") && !region.includes("r-2", "r-2-a"));
    }
}
