//! Status of the zones. Each zone is reported on its own, so that a zone that cannot be listed does not hide the others.

use super::times;
use crate::api::names::DEFAULT_ACCOUNT;
use crate::api::{Account, AccountStatus, Imports, PlaceInventory, UnownedServer, printable};
use crate::cloud::Place;
use crate::inventory::{ListingFailure, PlaceListing};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use std::cmp::Ordering;
use tokio::time::Instant;

/// Status shows as many zones and unowned servers as the schema allows. Its counts cover all of them.
const ZONES: usize = 100;
const UNOWNED: usize = 20;

/// The longest identifier that `spec.import.id` admits; a longer one gets no command.
const LONGEST_ID: usize = 253;

/// Longest message of a zone, in characters.
const MESSAGE_MAX: usize = 500;

/// Writes the state of the listings into a status that contains the former state. A zone that this process has not listed yet
/// keeps its former state. Until every Instance has had a reconcile, a zone that no Instance has requested yet stays, too: after a
/// restart, after an outage, and while the Account is not usable.
///
/// `usable_since`: since when the Account is usable. A zone that fails after that fails for a reason of its own. None while the
/// Account is not usable, which the condition Ready reports.
pub(super) fn write_listings(
    status: &mut AccountStatus,
    listings: &[PlaceListing],
    account: &Account,
    usable_since: Option<Instant>,
) {
    let mut inventory: Vec<_> = listings
        .iter()
        .map(|listing| {
            let mut former = status.inventory.iter();
            let former = former.find(|it| is_at(&listing.place, &it.region, &it.zone));
            zone(listing, former, usable_since)
        })
        .collect();
    if !all_had_a_reconcile(usable_since) {
        let is_missing = |it: &&PlaceInventory| {
            let mut listings = listings.iter();
            !listings.any(|listing| is_at(&listing.place, &it.region, &it.zone))
        };
        inventory.extend(status.inventory.iter().filter(is_missing).cloned());
        inventory.sort_by(by_place);
    }
    keep_times(&mut inventory, &status.inventory);
    status.unowned = unowned(listings, &inventory, &status.unowned, account);
    let is_listed = |zone: &&PlaceInventory| zone.servers.is_some() && zone.failing_since.is_none();
    let listed = inventory.iter().filter(is_listed).count();
    status.listed_zones = Some(format!("{listed}/{}", inventory.len()));
    // None if nothing is known, which differs from zero servers.
    let total = |of: fn(&PlaceInventory) -> Option<i64>| {
        let known = inventory.iter().filter_map(of);
        known.reduce(i64::saturating_add)
    };
    status.servers = total(|zone| zone.servers);
    status.unowned_servers = total(|zone| zone.unowned);
    if inventory.len() > ZONES {
        // Keep failing zones when the list is cut: a user looks for them and has to fix them.
        inventory.sort_by_key(|zone| zone.failing_since.is_none());
        inventory.truncate(ZONES);
        inventory.sort_by(by_place);
    }
    status.inventory = inventory;
}

fn by_place(a: &PlaceInventory, b: &PlaceInventory) -> Ordering {
    (&a.region, &a.zone).cmp(&(&b.region, &b.zone))
}

/// Whether, by an estimate, every Instance has had a reconcile since the Account became usable, so that all zones and waiting
/// Instances are known.
pub(super) fn all_had_a_reconcile(usable_since: Option<Instant>) -> bool {
    usable_since.is_some_and(|since| since.elapsed() >= times::ALL_HAD_A_RECONCILE_AFTER)
}

/// Keeps the written times of listings until one of them is too old, so that listings alone cause few writes. Compares the
/// absolute difference, so that a clock that was set back neither causes repeated writes nor preserves a time in the future.
fn keep_times(next: &mut [PlaceInventory], former: &[PlaceInventory]) {
    let written = |zone: &PlaceInventory| {
        let mut former = former.iter();
        let former = former.find(|it| it.region == zone.region && it.zone == zone.zone);
        former.and_then(|former| former.last_listed_time.clone())
    };
    let is_due = |zone: &PlaceInventory| match (&zone.last_listed_time, written(zone)) {
        (Some(next), Some(former)) => {
            next.0.duration_since(former.0).unsigned_abs() >= times::LISTED_TIMES_REWRITE
        }
        (next, former) => *next != former,
    };
    if !next.iter().any(is_due) {
        for zone in next {
            zone.last_listed_time = written(zone);
        }
    }
}

fn is_at(place: &Place, region: &str, zone: &str) -> bool {
    place.region == region && place.zone == zone
}

/// The status of one zone.
fn zone(
    listing: &PlaceListing,
    former: Option<&PlaceInventory>,
    usable_since: Option<Instant>,
) -> PlaceInventory {
    let mut zone = former.cloned().unwrap_or_default();
    (zone.region, zone.zone) = (listing.place.region.clone(), listing.place.zone.clone());
    let is_listed = listing.ended.is_some();
    if is_listed {
        let unowned = listing.unowned.len();
        zone.servers = Some(number(listing.servers));
        zone.owned = Some(number(listing.servers.saturating_sub(unowned)));
        zone.unowned = Some(number(unowned));
        zone.in_flight = number(listing.in_flight);
    }
    if let Some(at) = listing.listed_at {
        zone.last_listed_time = Some(Time(at));
    }
    match &listing.failing {
        None if is_listed => (zone.failing_since, zone.message) = (None, None),
        Some(failing) if has_lasted(failing, usable_since) => {
            // A zone that this process has not listed yet may have failed since before this process: it keeps the time in status.
            let former = zone.failing_since.filter(|_| !is_listed);
            zone.failing_since = Some(former.unwrap_or(Time(failing.began)));
            let message = printable(&failing.message);
            zone.message = Some(message.chars().take(MESSAGE_MAX).collect());
        }
        None | Some(_) => {}
    }
    zone
}

fn has_lasted(failing: &ListingFailure, usable_since: Option<Instant>) -> bool {
    usable_since
        .is_some_and(|since| failing.since.max(since).elapsed() >= times::ZONE_FAILING_SHOWN_AFTER)
}

pub(super) fn number(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The first unowned servers: those of the listings (there may be a hundred thousand), and for a zone that this process has not
/// listed yet, those that status already shows.
fn unowned(
    listings: &[PlaceListing],
    inventory: &[PlaceInventory],
    former: &[UnownedServer],
    account: &Account,
) -> Vec<UnownedServer> {
    let is_kept = |server: &&UnownedServer| {
        let (mut zones, mut listed) = (inventory.iter(), listings.iter());
        zones.any(|zone| (&zone.region, &zone.zone) == (&server.region, &server.zone))
            && !listed
                .any(|it| it.ended.is_some() && is_at(&it.place, &server.region, &server.zone))
    };
    let kept = former.iter().filter(is_kept).cloned();
    let rows = listings
        .iter()
        .flat_map(|listing| listing.unowned.iter().map(|row| (&listing.place, row)));
    let mut rows: Vec<_> = rows.collect();
    rows.sort_unstable_by(|(a, row), (b, other)| (a, &row.id).cmp(&(b, &other.id)));
    let listed = rows.into_iter().take(UNOWNED);
    let listed = listed.map(|(place, row)| UnownedServer {
        id: row.id.to_string(),
        name: row.name.as_deref().map(|name| printable(name).into_owned()),
        region: place.region.clone(),
        zone: place.zone.clone(),
        image: row.image.as_ref().map(ToString::to_string),
        import: import_command(account, row.id.as_str()),
    });
    let mut all: Vec<_> = listed.chain(kept).collect();
    all.sort_by(|a, b| (&a.region, &a.zone, &a.id).cmp(&(&b.region, &b.zone, &b.id)));
    all.truncate(UNOWNED);
    all
}

/// The command that makes a manifest for a server. It depends on server and Account only, so it causes no additional status
/// writes. None if the Account does not allow imports. The service chooses identifiers, and users paste the command into a shell,
/// so an identifier with special characters gets no command.
fn import_command(account: &Account, id: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_word = id.starts_with(|c: char| c.is_ascii_alphanumeric()) && id.chars().all(is_plain);
    let (namespace, name) = (account.namespace().unwrap_or_default(), account.name_any());
    let chosen = match name == DEFAULT_ACCOUNT {
        true => String::new(),
        false => format!(" --account {name}"),
    };
    let is_allowed = account.spec.imports == Imports::Allowed;
    (is_allowed && is_word && id.len() <= LONGEST_ID)
        .then(|| format!("kubectl cloudserver import {id} -n {namespace}{chosen}"))
}

#[cfg(test)]
mod tests;
