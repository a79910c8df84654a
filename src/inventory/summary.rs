//! Who owns what is listed: the servers of nobody, and those of Instances that are gone.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::state::State;
use super::watched::Watched;
use super::{Counts, Failing, InventorySummary, PlaceCounts, PlaceSummary, Row, Unowned};
use crate::api::Marker;
use crate::cloud::{Place, ServerId};
use crate::runtime::metrics::Listings;

/// A place as it is listed. It stands apart from the state, so that nobody who is asked whether he owns a server is asked under
/// its lock: he may hold one of his own and look at listings.
pub(super) struct Listed {
    place: Place,
    counts: PlaceCounts,
    /// What nobody with an interest owns.
    strangers: Vec<Arc<Row>>,
    /// Somebody has an interest. Else only servers of Instances that are gone are looked for, and that it cannot be listed concerns
    /// nobody.
    is_wanted: bool,
    ended: Option<Instant>,
    listed_at: Option<Timestamp>,
    failing: Option<Failing>,
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
        // A restored Instance goes on with its old marker: what bears it is not nobody's.
        for (marker, tombstone) in self
            .tombstones
            .iter()
            .filter(|(marker, _)| !self.markers.contains_key(*marker))
        {
            for place in &tombstone.places {
                let newest = self
                    .places
                    .get(place)
                    .and_then(|watched| watched.view.newest.as_ref());
                let Some(pass) = newest.filter(|pass| pass.began > tombstone.since) else {
                    continue;
                };
                found.extend(
                    pass.bearing(marker)
                        .iter()
                        // One that was taken over is somebody's, whatever its name says.
                        .filter(|id| !self.ids.contains_key(*id))
                        .map(|id| (marker.clone(), id.clone(), place.clone())),
                );
            }
        }
        found.sort_unstable();
        found
    }

    pub(super) fn expire(&mut self, now: Instant) {
        // Looking through all tombstones in every reconcile of the driver would cost more than it forgets.
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

    /// Every finalised UID that is remembered, and where its servers may be.
    pub(super) fn tombstones(&self) -> Vec<(Marker, Vec<Place>)> {
        let tombstones = self.tombstones.iter();
        tombstones
            .map(|(marker, tombstone)| (marker.clone(), tombstone.places.clone()))
            .collect()
    }

    pub(super) fn listed_within(&self, time: std::time::Duration, now: Instant) -> bool {
        self.places
            .values()
            .filter_map(|place| place.view.newest())
            .any(|pass| now.saturating_duration_since(pass.ended) < time)
    }

    /// Every watched place as it is listed.
    pub(super) fn listed(&self) -> Vec<Listed> {
        let places = self.places.iter();
        places
            .map(|(place, watched)| self.listed_in(place, watched))
            .collect()
    }

    fn listed_in(&self, place: &Place, watched: &Watched) -> Listed {
        let newest = watched.view.newest.as_ref();
        let rows = newest.into_iter().flat_map(|pass| pass.rows.values());
        let is_nobodys = |row: &&Arc<Row>| !self.owns(&row.id, row.marker.as_ref());
        let strangers: Vec<_> = rows.filter(is_nobodys).cloned().collect();
        Listed {
            place: place.clone(),
            counts: PlaceCounts {
                servers: newest.map_or(0, |pass| pass.rows.len()),
                unowned: strangers.len(),
                in_flight: watched.in_flight + watched.followed,
                passes: watched.passes,
                failures: watched.failures,
            },
            strangers,
            is_wanted: !watched.members.is_empty(),
            ended: newest.map(|pass| pass.ended),
            listed_at: watched.listed,
            failing: watched.failing.clone(),
        }
    }

    fn owns(&self, id: &ServerId, marker: Option<&Marker>) -> bool {
        self.ids.contains_key(id) || marker.is_some_and(|marker| self.markers.contains_key(marker))
    }
}

impl Listed {
    fn judged(mut self, owns: &impl Fn(&ServerId, Option<&Marker>) -> bool) -> Self {
        self.strangers
            .retain(|row| !owns(&row.id, row.marker.as_ref()));
        self.counts.unowned = self.strangers.len();
        self
    }

    /// As part of figures of many.
    fn figures(&self, now: Instant) -> Listings {
        // Where nothing was ever listed, it is as old as the tries are.
        let since = self
            .ended
            .or(self.failing.as_ref().map(|failing| failing.since));
        let since = since.filter(|_| self.is_wanted);
        Listings {
            servers: u32::try_from(self.counts.servers).unwrap_or(u32::MAX),
            unowned: u32::try_from(self.counts.unowned).unwrap_or(u32::MAX),
            failing: u32::from(self.is_wanted && self.failing.is_some()),
            oldest: since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since)),
        }
    }
}

/// Figures of each place. What others than those with an interest own counts as nobody's.
pub(super) fn counts(listed: Vec<Listed>) -> Counts {
    let places = listed.into_iter();
    let places = places.map(|listed| (listed.place, listed.counts)).collect();
    Counts { places }
}

/// Figures of each place, and so many of the servers of nobody.
pub(super) fn summary(
    listed: Vec<Listed>,
    most: usize,
    owns: &impl Fn(&ServerId, Option<&Marker>) -> bool,
) -> InventorySummary {
    let places = listed.into_iter();
    let known = places.filter(|listed| listed.is_wanted || listed.ended.is_some());
    let known: Vec<_> = known.map(|listed| listed.judged(owns)).collect();
    let unowned = nobodys(&known, most);
    let places = known.into_iter().map(|listed| {
        let known = PlaceSummary {
            listed: listed.ended.map(|_| listed.counts),
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

/// Figures of all places together.
pub(super) fn listings(
    listed: Vec<Listed>,
    now: Instant,
    owns: &impl Fn(&ServerId, Option<&Marker>) -> bool,
) -> Listings {
    let judged = listed.into_iter().map(|listed| listed.judged(owns));
    let figures = judged.map(|listed| listed.figures(now));
    figures.fold(Listings::default(), Listings::and)
}

/// The first ones of those that nobody owns: a listing may show a hundred thousand.
pub(super) fn nobodys(listed: &[Listed], most: usize) -> Vec<Unowned> {
    let places = listed.iter();
    let mut unowned: Vec<_> = places
        .flat_map(|listed| listed.strangers.iter().map(|row| (&listed.place, row)))
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
