//! Who owns what is listed: the servers of nobody, and those of Instances that are gone.

use std::collections::HashMap;

use tokio::time::Instant;

use super::state::State;
use super::{Counts, PlaceCounts, Unowned};
use crate::api::Marker;
use crate::cloud::{Place, ServerId};

impl State {
    pub(super) fn bury(&mut self, marker: Marker, places: Vec<Place>, now: Instant) {
        for place in &places {
            self.places.entry(place.clone()).or_default().buried = true;
        }
        self.tombs.bury(marker, places, now);
    }

    pub(super) fn buried_alive(&mut self, now: Instant) -> Vec<(Marker, ServerId, Place)> {
        self.expire(now);
        let mut found = Vec::new();
        // A restored Instance goes on with its old marker: what bears it is not nobody's.
        for (marker, tomb) in self
            .tombs
            .iter()
            .filter(|(marker, _)| !self.markers.contains_key(*marker))
        {
            for place in &tomb.places {
                let newest = self
                    .places
                    .get(place)
                    .and_then(|watched| watched.view.newest.as_ref());
                let Some(pass) = newest.filter(|pass| pass.began > tomb.buried) else {
                    continue;
                };
                found.extend(
                    pass.bearing(marker)
                        .iter()
                        .map(|id| (marker.clone(), id.clone(), place.clone())),
                );
            }
        }
        found.sort_unstable();
        found
    }

    pub(super) fn expire(&mut self, now: Instant) {
        // Looking through all tombs in every turn of the driver would cost more than it forgets.
        if self
            .expired
            .is_some_and(|last| now < last + self.settings.tombstone / 360)
        {
            return;
        }
        self.expired = Some(now);
        self.tombs.expire(self.settings.tombstone, now);
        let Self { tombs, places, .. } = self;
        for (place, watched) in places.iter_mut().filter(|(_, watched)| watched.buried) {
            watched.buried = tombs.watch(place);
        }
    }

    pub(super) fn has_shown_ours(&self) -> bool {
        self.shown_ours
    }

    /// Every finalised UID that is remembered, and where its servers may be.
    pub(super) fn buried(&self) -> Vec<(Marker, Vec<Place>)> {
        let tombs = self.tombs.iter();
        tombs
            .map(|(marker, tomb)| (marker.clone(), tomb.places.clone()))
            .collect()
    }

    pub(super) fn listed_within(&self, time: std::time::Duration, now: Instant) -> bool {
        self.places
            .values()
            .filter_map(|place| place.view.newest())
            .any(|pass| now.saturating_duration_since(pass.ended) < time)
    }

    pub(super) fn counts(&self) -> Counts {
        let places = self.places.iter().map(|(place, watched)| {
            let rows = watched.view.newest.as_ref().map(|pass| &pass.rows);
            let counts = PlaceCounts {
                servers: rows.map_or(0, HashMap::len),
                unowned: rows.map_or(0, |rows| {
                    rows.values()
                        .filter(|row| !self.owns(&row.id, row.marker.as_ref()))
                        .count()
                }),
                passes: watched.passes,
                failures: watched.failures,
            };
            (place.clone(), counts)
        });
        Counts {
            places: places.collect(),
        }
    }

    pub(super) fn unowned(&self) -> Vec<Unowned> {
        let mut unowned = Vec::new();
        for (place, watched) in &self.places {
            let rows = watched
                .view
                .newest
                .iter()
                .flat_map(|pass| pass.rows.values());
            let nobodys = rows.filter(|row| !self.owns(&row.id, row.marker.as_ref()));
            unowned.extend(nobodys.map(|row| Unowned {
                id: row.id.clone(),
                name: row.name.clone(),
                place: place.clone(),
            }));
        }
        unowned.sort_unstable_by(|a, b| (&a.place, &a.id).cmp(&(&b.place, &b.id)));
        unowned
    }

    fn owns(&self, id: &ServerId, marker: Option<&Marker>) -> bool {
        self.ids.contains_key(id) || marker.is_some_and(|marker| self.markers.contains_key(marker))
    }
}
