//! Tombstones: the markers of finalized Instances. A create that takes effect hours late makes a server for a deleted Instance.
//! The tombstone identifies it as a late server rather than a user's.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::api::Marker;
use crate::cloud::Place;

/// More Instances than are usually finalized while a tombstone lasts (`Settings::tombstone`). Beyond this number, the oldest
/// tombstone is dropped.
const MOST: usize = 50_000;

#[derive(Debug)]
pub(super) struct Tombstone {
    pub since: Instant,
    pub places: Vec<Place>,
}

#[derive(Debug, Default)]
pub(super) struct Tombstones {
    by_marker: HashMap<Marker, Tombstone>,
}

impl Tombstones {
    /// Sets a tombstone for a marker, or renews it.
    pub(super) fn add_tombstone(&mut self, marker: Marker, places: Vec<Place>, now: Instant) {
        if self.by_marker.len() >= MOST && !self.by_marker.contains_key(&marker) {
            let oldest = self
                .by_marker
                .iter()
                .min_by_key(|(_, tombstone)| tombstone.since)
                .map(|(marker, _)| marker.clone());
            oldest.map(|oldest| self.by_marker.remove(&oldest));
        }
        self.by_marker
            .insert(marker, Tombstone { since: now, places });
    }

    /// Removes the tombstones that have reached this age.
    pub(super) fn expire(&mut self, age: Duration, now: Instant) {
        self.by_marker
            .retain(|_, tombstone| now.saturating_duration_since(tombstone.since) < age);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Marker, &Tombstone)> {
        self.by_marker.iter()
    }

    /// Whether a tombstone names this place, so that the place is listed for late servers.
    pub(super) fn watch(&self, place: &Place) -> bool {
        self.by_marker
            .values()
            .any(|tombstone| tombstone.places.contains(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_tombstone_expires() {
        let (place, start) = (Place::new("r", "z"), Instant::now());
        let mut tombstones = Tombstones::default();
        tombstones.add_tombstone(Marker::of_uid("first"), vec![place.clone()], start);
        tombstones.expire(Duration::from_secs(10), start + Duration::from_secs(9));
        assert!(tombstones.watch(&place));
        tombstones.expire(Duration::from_secs(10), start + Duration::from_secs(10));
        assert!(!tombstones.watch(&place));
    }
}
