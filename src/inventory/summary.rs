//! Sums up the listings: counts, unowned servers, and late servers of deleted Instances.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::state::State;
use super::watched::Watched;
use super::{Failing, InventorySummary, PlaceCounts, PlaceSummary, Row, Unowned};
use crate::api::Marker;
use crate::cloud::{Place, ServerId};
use crate::runtime::metrics::Listings;

/// A copy of a place's listing, outside the state. Owners are looked up in it without holding the state's lock, since that takes
/// a lock of their own.
pub(super) struct Listed {
    place: Place,
    servers: usize,
    in_flight: usize,
    /// All servers; after [`Listed::without`] those that no Instance owns.
    unowned: Vec<Arc<Row>>,
    /// Whether there is a subscriber. Otherwise the place is listed only for late servers of deleted Instances, and no user is
    /// concerned if its listing fails.
    is_wanted: bool,
    ended: Option<Instant>,
    listed_at: Option<Timestamp>,
    failing: Option<Arc<Failing>>,
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
            .expired
            .is_some_and(|last| now < last + self.settings.tombstone / 360)
        {
            return;
        }
        self.expired = Some(now);
        self.tombstones.expire(self.settings.tombstone, now);
        let Self {
            tombstones, places, ..
        } = self;
        for (place, watched) in places
            .iter_mut()
            .filter(|(_, watched)| watched.has_tombstone)
        {
            watched.has_tombstone = tombstones.watch(place);
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

    pub(super) fn listed_within(&self, time: std::time::Duration, now: Instant) -> bool {
        self.places
            .values()
            .filter_map(|place| place.view.newest.as_ref())
            .any(|pass| now.saturating_duration_since(pass.ended) < time)
    }

    /// Copies of all watched places.
    pub(super) fn listed(&self) -> Vec<Listed> {
        let places = self.places.iter();
        places
            .map(|(place, watched)| Listed::of(place, watched))
            .collect()
    }
}

impl Listed {
    fn of(place: &Place, watched: &Watched) -> Self {
        let newest = watched.view.newest.as_ref();
        let rows = newest.into_iter().flat_map(|pass| pass.rows.values());
        let unowned: Vec<_> = rows.cloned().collect();
        Self {
            place: place.clone(),
            servers: unowned.len(),
            in_flight: watched.in_flight + watched.followed,
            unowned,
            is_wanted: !watched.members.is_empty(),
            ended: newest.map(|pass| pass.ended),
            listed_at: watched.listed,
            failing: watched.view.failing.clone(),
        }
    }

    /// Leaves the servers that no Instance owns.
    pub(super) fn without(mut self, owns: &impl Fn(&ServerId, Option<&Marker>) -> bool) -> Self {
        self.unowned
            .retain(|row| !owns(&row.id, row.marker.as_ref()));
        self
    }

    /// The place's part of the combined counts.
    fn figures(&self, now: Instant) -> Listings {
        // If the place was never listed, its age is that of the first failure.
        let since = self
            .ended
            .or(self.failing.as_ref().map(|failing| failing.since));
        let since = since.filter(|_| self.is_wanted);
        Listings {
            unowned: u32::try_from(self.unowned.len()).unwrap_or(u32::MAX),
            oldest: since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since)),
        }
    }
}

/// The state of each place, and at most `most` unowned servers.
pub(super) fn summary(mut listed: Vec<Listed>, most: usize) -> InventorySummary {
    listed.retain(|listed| listed.is_wanted || listed.ended.is_some());
    let unowned = first_unowned(&listed, most);
    let places = listed.into_iter().map(|listed| {
        let counts = PlaceCounts {
            servers: listed.servers,
            unowned: listed.unowned.len(),
            in_flight: listed.in_flight,
        };
        let known = PlaceSummary {
            listed: listed.ended.map(|_| counts),
            listed_at: listed.listed_at,
            failing: listed.failing.filter(|_| listed.is_wanted),
        };
        (listed.place, known)
    });
    InventorySummary {
        places: places.collect(),
        unowned,
    }
}

/// Combined counts of all places.
pub(super) fn listings(listed: &[Listed], now: Instant) -> Listings {
    let figures = listed.iter().map(|listed| listed.figures(now));
    figures.fold(Listings::default(), Listings::and)
}

/// The first unowned servers; a listing may show a hundred thousand.
fn first_unowned(listed: &[Listed], most: usize) -> Vec<Unowned> {
    let places = listed.iter();
    let mut unowned: Vec<_> = places
        .flat_map(|listed| listed.unowned.iter().map(|row| (&listed.place, row)))
        .collect();
    unowned.sort_unstable_by(|(a, row), (b, other)| (a, &row.id).cmp(&(b, &other.id)));
    let first = unowned.into_iter().take(most);
    first
        .map(|(place, row)| Unowned {
            id: row.id.clone(),
            name: row.name.clone().map(String::from),
            place: place.clone(),
            image: row.image.clone(),
        })
        .collect()
}
