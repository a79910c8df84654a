//! Status of the zones. Each zone is reported on its own, so that one that cannot be listed hides nothing of another.

use super::times;
use crate::api::names::DEFAULT_ACCOUNT;
use crate::api::{Account, AccountStatus, Imports, PlaceInventory, UnownedServer, printable};
use crate::cloud::Place;
use crate::inventory::{Failing, InventorySummary, PlaceSummary};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use tokio::time::Instant;

/// Status shows as many places and servers as the schema allows, since it is no database. The counts cover all of them.
const PLACES: usize = 100;
pub(super) const UNOWNED: usize = 20;

/// Identifiers of the service are far shorter; a longer one would bloat status.
const LONGEST_ID: usize = 253;

/// Longest message of a zone, in characters.
const MESSAGE_MAX: usize = 500;

/// Whether two statuses differ only in the times of listings.
pub(super) fn differ_in_times_alone(next: &AccountStatus, former: &AccountStatus) -> bool {
    let timeless = |status: &AccountStatus| {
        let mut status = status.clone();
        for zone in &mut status.inventory {
            zone.last_listed_time = None;
        }
        status
    };
    timeless(next) == timeless(former)
}

/// Whether the time of a zone's listing is far enough from the one in status to be written on its own. Compares the absolute
/// difference, so that a clock that was set back neither causes repeated writes nor preserves a time in the future.
pub(super) fn is_out_of_date(next: &AccountStatus, former: &AccountStatus) -> bool {
    let pairs = next.inventory.iter().zip(&former.inventory);
    pairs.into_iter().any(|(next, former)| {
        match (&next.last_listed_time, &former.last_listed_time) {
            (Some(next), Some(former)) => {
                let apart = next.0.duration_since(former.0).unsigned_abs();
                apart >= times::LISTED_TIMES_REWRITE
            }
            (next, former) => next != former,
        }
    })
}

/// The status of the listings. A zone that was not listed since the process began keeps its former status.
///
/// `trusted_since`: since when the service answers. A zone that fails after that fails for a reason of its own. None while the
/// service does not answer, which the condition Ready reports.
pub(super) fn counted(
    summary: &InventorySummary,
    former: &AccountStatus,
    account: &Account,
    trusted_since: Option<Instant>,
) -> AccountStatus {
    let mut inventory: Vec<_> = summary
        .places
        .iter()
        .map(|(place, known)| {
            let mut former = former.inventory.iter();
            let former = former.find(|former| is_at(place, &former.region, &former.zone));
            zone(place, known, former, trusted_since)
        })
        .collect();
    let is_whole = |zone: &&PlaceInventory| zone.servers.is_some() && zone.failing_since.is_none();
    let listed = inventory.iter().filter(is_whole).count();
    // None if nothing is known, which differs from zero servers.
    let total = |of: fn(&PlaceInventory) -> Option<i64>| {
        let known = inventory.iter().filter_map(of);
        known.fold(None, |sum: Option<i64>, n| {
            Some(sum.unwrap_or_default().saturating_add(n))
        })
    };
    let (servers, unowned_servers) = (total(|zone| zone.servers), total(|zone| zone.unowned));
    if inventory.len() > PLACES {
        // Keep failing zones when the list is cut: a user looks for them and has to fix them.
        inventory.sort_by_key(|zone| zone.failing_since.is_none());
        inventory.truncate(PLACES);
        inventory.sort_by(|a, b| (&a.region, &a.zone).cmp(&(&b.region, &b.zone)));
    }
    AccountStatus {
        servers,
        unowned_servers,
        listed_zones: Some(format!("{listed}/{}", summary.places.len())),
        unowned: unowned(summary, former, account),
        inventory,
        ..AccountStatus::default()
    }
}

fn is_at(place: &Place, region: &str, zone: &str) -> bool {
    place.region == region && place.zone == zone
}

/// The status of one zone.
fn zone(
    place: &Place,
    known: &PlaceSummary,
    former: Option<&PlaceInventory>,
    trusted_since: Option<Instant>,
) -> PlaceInventory {
    let stood = former.cloned().unwrap_or_default();
    let told = PlaceInventory {
        region: place.region.clone(),
        zone: place.zone.clone(),
        ..stood.clone()
    };
    let told = match known.listed {
        Some(counts) => PlaceInventory {
            servers: Some(count(counts.servers)),
            owned: Some(count(counts.servers.saturating_sub(counts.unowned))),
            unowned: Some(count(counts.unowned)),
            in_flight: count(counts.in_flight),
            ..told
        },
        None => told,
    };
    let (failing_since, message) = match (&known.failing, known.listed) {
        (None, Some(_)) => (None, None),
        (Some(failing), _) if has_lasted(failing, trusted_since) => {
            // The zone was already failing when this process began, and was not listed since.
            let stood = stood.failing_since.filter(|_| known.listed.is_none());
            let since = stood.unwrap_or(Time(failing.began));
            (Some(since), Some(words(&failing.message)))
        }
        (Some(_) | None, _) => (stood.failing_since, stood.message),
    };
    PlaceInventory {
        last_listed_time: known.listed_at.map(Time).or(stood.last_listed_time),
        failing_since,
        message,
        ..told
    }
}

fn has_lasted(failing: &Failing, trusted_since: Option<Instant>) -> bool {
    trusted_since
        .is_some_and(|since| failing.since.max(since).elapsed() >= times::ZONE_FAILING_SHOWN_AFTER)
}

fn words(message: &str) -> String {
    printable(message).chars().take(MESSAGE_MAX).collect()
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The first unowned servers: the listed ones, and those in the former status of zones that were not listed since.
fn unowned(
    summary: &InventorySummary,
    former: &AccountStatus,
    account: &Account,
) -> Vec<UnownedServer> {
    let is_unlisted = |server: &&UnownedServer| {
        let mut places = summary.places.iter();
        places.any(|(place, known)| {
            known.listed.is_none() && is_at(place, &server.region, &server.zone)
        })
    };
    let stood = former.unowned.iter().filter(is_unlisted).cloned();
    let listed = summary.unowned.iter().map(|server| UnownedServer {
        id: server.id.to_string(),
        name: server
            .name
            .as_deref()
            .map(|name| printable(name).into_owned()),
        region: server.place.region.clone(),
        zone: server.place.zone.clone(),
        image: server.image.as_ref().map(ToString::to_string),
        import: import(account, server.id.as_str()),
    });
    let mut all: Vec<_> = listed.chain(stood).collect();
    all.sort_by(|a, b| (&a.region, &a.zone, &a.id).cmp(&(&b.region, &b.zone, &b.id)));
    all.truncate(UNOWNED);
    all
}

/// The command that makes a manifest for a server. It depends on server and Account only, so it causes no additional status
/// writes. None if the Account does not allow imports. The service chooses identifiers, and users paste the command into a shell,
/// so an identifier with special characters gets no command.
fn import(account: &Account, id: &str) -> Option<String> {
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
