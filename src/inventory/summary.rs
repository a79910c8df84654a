//! Summaries of the listings: counts, unowned servers, and late servers of deleted Instances.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::state::State;
use super::{ListingFailure, Row};
use crate::api::Marker;
use crate::cloud::{Place, ServerId};
use crate::runtime::metrics::Listings;

/// A copy of the newest listing of a place. The owners of its servers are looked up without the lock of the state, since the index
/// of owners has a lock of its own.
#[derive(Clone, Debug)]
pub struct PlaceListing {
    pub place: Place,
    /// The number of servers.
    pub servers: usize,
    /// Its servers that no Instance owns, by id or by marker.
    pub unowned: Vec<Arc<Row>>,
    /// The number of subscribers that have something in flight in this place.
    pub in_flight: usize,
    /// Whether there is a subscriber. Otherwise the place is listed only for late servers of deleted Instances, and no user is
    /// concerned if its listing fails.
    pub is_wanted: bool,
    /// When the listing ended; None before the first complete one, which may never come.
    pub ended: Option<Instant>,
    /// The same as a wall-clock time, for status.
    pub listed_at: Option<Timestamp>,
    /// Set while listings fail.
    pub failing: Option<Arc<ListingFailure>>,
}

impl State {
    pub(super) fn add_tombstone(&mut self, marker: Marker, places: Vec<Place>, now: Instant) {
        for place in &places {
            self.places.entry(place.clone()).or_default().has_tombstone = true;
        }
        self.tombstones.add_tombstone(marker, places, now);
    }

    pub(super) fn late_servers(&mut self, now: Instant) -> Vec<(Marker, ServerId, Place)> {
        self.expire(now);
        let mut found = Vec::new();
        for (marker, tombstone) in self.tombstones.iter() {
            for place in &tombstone.places {
                let newest = self
                    .places
                    .get(place)
                    .and_then(|watched| watched.view.newest.as_ref());
                let Some(pass) = newest.filter(|pass| pass.began > tombstone.since) else {
                    continue;
                };
                let ids = pass.bearing(marker).iter();
                found.extend(ids.map(|id| (marker.clone(), id.clone(), place.clone())));
            }
        }
        found.sort_unstable();
        found
    }

    pub(super) fn expire(&mut self, now: Instant) {
        // Checking all tombstones in every iteration of the driver would cost more than it frees.
        if self
            .tombstones_checked
            .is_some_and(|last| now < last + self.settings.tombstone / 360)
        {
            return;
        }
        self.tombstones_checked = Some(now);
        self.tombstones.expire(self.settings.tombstone, now);
        for (place, watched) in &mut self.places {
            watched.has_tombstone = watched.has_tombstone && self.tombstones.watch(place);
        }
    }

    pub(super) fn has_shown(&self, credential: &str, region: &str) -> bool {
        let regions = self.shown.get(credential);
        regions.is_some_and(|regions| regions.contains(region))
    }

    /// Every tombstone's marker, and where its servers may be.
    pub(super) fn tombstones(&self) -> Vec<(Marker, Vec<Place>)> {
        let tombstones = self.tombstones.iter();
        tombstones
            .map(|(marker, tombstone)| (marker.clone(), tombstone.places.clone()))
            .collect()
    }

    pub(super) fn listed_within(&self, time: Duration, now: Instant) -> bool {
        self.places
            .values()
            .filter_map(|place| place.view.newest.as_ref())
            .any(|pass| now.saturating_duration_since(pass.ended) < time)
    }

    /// The listings of all places that were listed or have a subscriber, each with all its servers as unowned ones.
    pub(super) fn listings(&self) -> Vec<PlaceListing> {
        let listings = self.places.iter().map(|(place, watched)| {
            let newest = watched.view.newest.as_ref();
            let rows = newest.into_iter().flat_map(|pass| pass.rows.values());
            let is_wanted = !watched.members.is_empty();
            PlaceListing {
                place: place.clone(),
                servers: newest.map_or(0, |pass| pass.rows.len()),
                unowned: rows.cloned().collect(),
                in_flight: watched.in_flight + watched.followed,
                is_wanted,
                ended: newest.map(|pass| pass.ended),
                listed_at: watched.listed,
                failing: watched.view.failing.clone().filter(|_| is_wanted),
            }
        });
        listings
            .filter(|listing| listing.is_wanted || listing.ended.is_some())
            .collect()
    }
}

impl PlaceListing {
    /// The place's part of the combined counts.
    pub(super) fn counts(&self, now: Instant) -> Listings {
        // If the place was never listed, its age is that of the first failure.
        let failing = self.failing.as_ref();
        let since = self.ended.or(failing.map(|failing| failing.since));
        let since = since.filter(|_| self.is_wanted);
        Listings {
            unowned: u32::try_from(self.unowned.len()).unwrap_or(u32::MAX),
            oldest: since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since)),
        }
    }
}
