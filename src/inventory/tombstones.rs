//! The memory of finalised UIDs. A create that is executed hours late makes a server for an Instance that is gone; by
//! its marker it is known as a late one, and not as somebody's.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::api::Marker;
use crate::cloud::Place;

/// More than are finalised in the hours of the memory at the usual request limit; beyond, the oldest goes.
const MOST: usize = 50_000;

/// One finalised UID.
#[derive(Debug)]
pub(super) struct Tombstone {
    pub since: Instant,
    pub places: Vec<Place>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    by_marker: HashMap<Marker, Tombstone>,
}

impl Tombstones {
    /// Sets a tombstone for a marker, or sets it again: the later one counts.
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

    /// Forgets what is older than the memory is long.
    pub(super) fn expire(&mut self, memory: Duration, now: Instant) {
        self.by_marker
            .retain(|_, tombstone| now.saturating_duration_since(tombstone.since) < memory);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Marker, &Tombstone)> {
        self.by_marker.iter()
    }

    /// Whether a place is watched for late servers.
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
    async fn a_tomb_is_forgotten_after_its_time_and_the_number_is_bounded() {
        let (place, start) = (Place::new("r", "z"), Instant::now());
        let mut tombstones = Tombstones::default();
        tombstones.add_tombstone(Marker::of_uid("first"), vec![place.clone()], start);
        tombstones.expire(Duration::from_secs(10), start + Duration::from_secs(9));
        assert!(tombstones.watch(&place));
        tombstones.expire(Duration::from_secs(10), start + Duration::from_secs(10));
        assert!(!tombstones.watch(&place));
    }
}
