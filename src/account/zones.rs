//! What status tells of the zones: each for itself, so that one which cannot be listed hides nothing of another.

use super::times;
use crate::api::names::DEFAULT_ACCOUNT;
use crate::api::{Account, AccountStatus, Imports, PlaceInventory, UnownedServer, printable};
use crate::cloud::Place;
use crate::inventory::{Failing, InventorySummary, PlaceSummary};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use tokio::time::Instant;

/// As many places and servers stand in status as the schema allows: it is no database. All of them are counted.
const PLACES: usize = 100;
pub(super) const UNOWNED: usize = 20;

/// No identifier of the service comes near this; a longer one would make status large.
const LONGEST_ID: usize = 253;

/// Longest message of a zone, in characters.
const MESSAGE_MAX: usize = 500;

/// Whether status says the same, but for when zones were listed.
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

/// Whether a zone was listed so much later than status says that this alone is to be written. A clock that was set back is no
/// reason to write again and again, nor to keep what lies ahead.
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

/// What status tells of the listings. A zone that was not listed since the process began stands as it stood.
///
/// `trusted_since`: since when the service answers, so that a zone which fails since fails for itself; none while the service
/// does not answer, and then the condition Ready tells of it.
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
    // None where nothing is known, which is not the same as no servers.
    let total = |of: fn(&PlaceInventory) -> Option<i64>| {
        let known = inventory.iter().filter_map(of);
        known.fold(None, |sum: Option<i64>, n| {
            Some(sum.unwrap_or_default().saturating_add(n))
        })
    };
    let (servers, unowned_servers) = (total(|zone| zone.servers), total(|zone| zone.unowned));
    if inventory.len() > PLACES {
        // Somebody has to mend those that fail, and looks for them.
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

/// What is told of one zone.
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
            // It failed already when this process began, and was not listed since.
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

/// The first servers of nobody: those that are listed, and those that stood in status of a zone that was not listed since.
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

/// The command that makes a manifest of a server: what it says follows from the server and the Account alone, so that a status
/// with it is as quiet as one without. Where nothing may be imported there is none. The service chooses the identifiers, and
/// somebody pastes this into a shell: one that is no plain word gets none.
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
