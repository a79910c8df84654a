//! The combined listings of all zones in which a server of one Instance may be.

use super::{Inventory, NoEvidence, Row, Sighting, View};
use crate::api::Marker;
use crate::cloud::{Place, ServerId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::time::Instant;

/// A snapshot of every zone of one Instance.
#[derive(Clone, Debug)]
pub struct ZoneViews {
    /// The last one is the zone of the recorded server, or else of the newest attempt.
    zones: Vec<(Place, View)>,
}

impl ZoneViews {
    /// Takes a snapshot of every zone, without I/O.
    pub fn of_places(inventory: &Inventory, places: &[Place]) -> Self {
        let zone = |place: &Place| (place.clone(), inventory.view(place));
        Self {
            zones: places.iter().map(zone).collect(),
        }
    }

    /// A listing of one zone, for tests.
    #[cfg(test)]
    pub(crate) fn of(place: Place, view: View) -> Self {
        Self {
            zones: vec![(place, view)],
        }
    }

    /// The zone that lists a server.
    pub fn place_of(&self, id: &ServerId) -> Option<&Place> {
        let mut zones = self.zones.iter();
        let shown = zones.find(|(_, view)| matches!(view.sighting(id), Sighting::Present(..)));
        shown.map(|(place, _)| place)
    }

    /// Whether a server is listed: present in one zone, absent from all, or unknown.
    pub fn sighting(&self, id: &ServerId) -> Sighting {
        let mut absent: Option<Instant> = None;
        let mut unknown = None;
        for (_, view) in self.known(None, 2) {
            match view.sighting(id) {
                Sighting::Present(row, at) => return Sighting::Present(row, at),
                Sighting::Absent { began } => {
                    absent = Some(absent.map_or(began, |other| other.min(began)));
                }
                Sighting::Unknown(why) => unknown = Some(why),
            }
        }
        match (unknown, absent) {
            (None, Some(began)) => Sighting::Absent { began },
            (Some(why), _) => Sighting::Unknown(why),
            (None, None) => Sighting::Unknown(NoEvidence::NoPass),
        }
    }

    /// The row of a server, and when it was listed.
    pub fn row(&self, id: &ServerId) -> Option<(Arc<Row>, Instant)> {
        match self.sighting(id) {
            Sighting::Present(row, at) => Some((row, at)),
            Sighting::Absent { .. } | Sighting::Unknown(_) => None,
        }
    }

    /// Servers with this marker in the newest passes.
    pub fn bearing(&self, marker: &Marker) -> BTreeSet<ServerId> {
        let bearing = self.views().flat_map(|view| view.bearing(marker));
        bearing.cloned().collect()
    }

    /// The servers of the newest passes, each once, by identifier.
    pub fn rows(&self) -> BTreeMap<&ServerId, &Row> {
        let passes = self.views().filter_map(|view| view.newest.as_ref());
        let rows = passes.flat_map(|pass| &pass.rows);
        rows.map(|(id, row)| (id, &**row)).collect()
    }

    /// Whether the newest pass of every zone began after this instant and is evidence of absence.
    pub fn is_whole(&self, since: Instant) -> bool {
        self.known(Some(since), 1)
            .all(|(_, view)| view.evidence(since, 1).is_ok())
    }

    /// Whether the two newest passes of a zone both show this server.
    pub fn shows_in_both(&self, id: &ServerId) -> bool {
        self.views().any(|view| view.shows_in_both(id))
    }

    /// Proof of absence: in every zone, two passes in a row that began after `since` agree and show no server with this marker
    /// or id.
    pub fn proven_absent(&self, marker: &Marker, id: Option<&ServerId>, since: Instant) -> bool {
        self.known(Some(since), 2)
            .all(|(_, view)| view.proven_absent(marker, id, since).is_ok())
    }

    /// Proof that this server is gone, regardless of others with the marker: in every zone, two passes in a row that began after
    /// `since` agree and do not show it.
    pub fn proven_gone(&self, id: &ServerId, since: Instant) -> bool {
        self.known(Some(since), 2)
            .all(|(_, view)| view.proven_gone(id, since).is_ok())
    }

    /// Whether the newest pass of every zone began after this instant.
    pub fn began_after(&self, instant: Instant) -> bool {
        self.known(Some(instant), 1)
            .all(|(_, view)| view.began_after(instant))
    }

    /// Whether many known servers vanished at once. Then absence proves nothing, and nothing may be bought or released.
    pub fn breaker_open(&self) -> bool {
        self.views().any(|view| view.breaker_open)
    }

    /// The first zone whose listing cannot be read.
    pub fn unread(&self) -> Option<&Place> {
        let mut known = self.known(None, 2);
        let unread = known.find(|(_, view)| view.failing.is_some());
        unread.map(|(place, _)| place)
    }

    fn views(&self) -> impl Iterator<Item = &View> {
        self.zones.iter().map(|(_, view)| view)
    }

    /// All zones except former ones for which the service answered "no such place" in at least `tries` passes that began after
    /// `since`. The last zone always counts.
    fn known(&self, since: Option<Instant>, tries: u8) -> impl Iterator<Item = &(Place, View)> {
        let last = self.zones.len().saturating_sub(1);
        let zones = self.zones.iter().enumerate();
        let known =
            zones.filter(move |(at, (_, view))| *at == last || !view.is_nowhere(since, tries));
        known.map(|(_, zone)| zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::testing::{pass, view, view_of_unknown_zone};
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn an_unknown_zone_does_not_prevent_a_proof_unless_it_is_the_current_one() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let unknown = view_of_unknown_zone([at(10), at(20)]);
        let empty = |began| pass(at(began), Vec::new(), Some(0));
        let known = view(Some(empty(10)), Some(empty(20)));
        let listing = |[former, own]: [View; 2]| ZoneViews {
            zones: vec![
                (Place::new("r", "former"), former),
                (Place::new("r", "own"), own),
            ],
        };
        let (marker, id) = (Marker::of_uid("mine"), ServerId::from("ecs-1"));
        let of_own = |listing: &ZoneViews, since| {
            (
                listing.proven_absent(&marker, Some(&id), at(since)),
                listing.proven_gone(&id, at(since)),
                matches!(listing.sighting(&id), Sighting::Absent { .. }),
                listing.is_whole(at(since)) && listing.began_after(at(since)),
            )
        };
        let former_is_nowhere = listing([unknown.clone(), known.clone()]);
        assert_eq!(of_own(&former_is_nowhere, 9), (true, true, true, true));
        // If the service does not know the server's own zone, that proves nothing about the server.
        let own_is_nowhere = listing([known, unknown.clone()]);
        assert_eq!(of_own(&own_is_nowhere, 9), (false, false, false, false));
        // One such answer is not enough where two are required.
        let answered_once = listing([unknown, view(Some(empty(16)), Some(empty(20)))]);
        let since = of_own(&answered_once, 15);
        assert_eq!((since.0, since.1, since.3), (false, false, true));
    }
}
