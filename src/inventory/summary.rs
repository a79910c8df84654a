//! Who owns what is listed: the servers of nobody, and those of Instances that are gone.

use std::time::Duration;

use tokio::time::Instant;

use super::state::State;
use super::watched::Watched;
use super::{Counts, InventorySummary, PlaceCounts, PlaceSummary, Row, Unowned};
use crate::api::Marker;
use crate::cloud::{Place, ServerId};
use crate::runtime::metrics::Listings;

/// Whether somebody who has no interest yet owns a server.
type Claim<'a> = &'a dyn Fn(&ServerId, Option<&Marker>) -> bool;

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

    pub(super) fn has_shown(&self, credential: &str) -> bool {
        self.shown.contains(credential)
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

    pub(super) fn counts(&self) -> Counts {
        let places = self.places.iter();
        let places = places
            .map(|(place, watched)| (place.clone(), self.count(watched, &|_, _| false)))
            .collect();
        Counts { places }
    }

    fn count(&self, watched: &Watched, owns: Claim<'_>) -> PlaceCounts {
        let rows = watched.view.newest.as_ref().map(|pass| &pass.rows);
        let rows = || rows.iter().flat_map(|rows| rows.values());
        PlaceCounts {
            servers: rows().count(),
            unowned: rows().filter(|row| self.is_nobodys(row, owns)).count(),
            in_flight: watched.in_flight + watched.followed,
            passes: watched.passes,
            failures: watched.failures,
        }
    }

    pub(super) fn summary(&self, most: usize, owns: Claim<'_>) -> InventorySummary {
        // A zone in which only servers of Instances that are gone are looked for: that it cannot be listed concerns nobody.
        let concerns = |watched: &Watched| !watched.members.is_empty();
        let places = self.places.iter();
        let known =
            places.filter(|(_, watched)| concerns(watched) || watched.view.newest.is_some());
        let places = known.map(|(place, watched)| {
            let newest = watched.view.newest.as_ref();
            let known = PlaceSummary {
                listed: newest.map(|_| self.count(watched, owns)),
                listed_at: watched.listed,
                failing: watched.failing.clone().filter(|_| concerns(watched)),
            };
            (place.clone(), known)
        });
        InventorySummary {
            places: places.collect(),
            unowned: self.nobodys(most, owns),
        }
    }

    pub(super) fn listings(&self, now: Instant, owns: Claim<'_>) -> Listings {
        let places = self.places.values();
        let of = |watched: &Watched| {
            let counts = self.count(watched, owns);
            let newest = watched.view.newest.as_ref().map(|pass| pass.ended);
            // Where nothing was ever listed, it is as old as the tries are.
            let since = newest.or(watched.failing.as_ref().map(|failing| failing.since));
            let is_wanted = !watched.members.is_empty();
            let since = since.filter(|_| is_wanted);
            Listings {
                servers: u32::try_from(counts.servers).unwrap_or(u32::MAX),
                unowned: u32::try_from(counts.unowned).unwrap_or(u32::MAX),
                failing: u32::from(is_wanted && watched.failing.is_some()),
                oldest: since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since)),
            }
        };
        places.map(of).fold(Listings::default(), Listings::and)
    }

    pub(super) fn unowned(&self) -> Vec<Unowned> {
        self.nobodys(usize::MAX, &|_, _| false)
    }

    /// The first ones of those that nobody owns: a listing may show a hundred thousand.
    fn nobodys(&self, most: usize, owns: Claim<'_>) -> Vec<Unowned> {
        let mut unowned = Vec::new();
        for (place, watched) in &self.places {
            let rows = watched
                .view
                .newest
                .iter()
                .flat_map(|pass| pass.rows.values());
            let nobodys = rows.filter(|row| self.is_nobodys(row, owns));
            unowned.extend(nobodys.map(|row| (place, row)));
        }
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

    fn is_nobodys(&self, row: &Row, owns: Claim<'_>) -> bool {
        !self.owns(&row.id, row.marker.as_ref()) && !owns(&row.id, row.marker.as_ref())
    }

    fn owns(&self, id: &ServerId, marker: Option<&Marker>) -> bool {
        self.ids.contains_key(id) || marker.is_some_and(|marker| self.markers.contains_key(marker))
    }
}
