//! A snapshot of a place, and the conclusions that it permits.

use std::sync::Arc;

use tokio::time::Instant;

use super::ListingFailure;
use super::pass::Pass;
use super::row::Row;
use crate::api::Marker;
use crate::cloud::ServerId;

/// A snapshot of a place. It is cheap to clone and immutable: one reconcile uses one view.
///
/// A row proves that a server exists. A server's absence from a pass proves little: the list may have shifted while it was read,
/// or belong to another account. Absence therefore comes in two strengths: [`View::sighting`] (one steady pass, good enough for
/// a report) and [`View::proven_absent`] (two in a row that show the same servers). While the circuit breaker of a place is
/// open, its listings prove neither.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub(super) newest: Option<Arc<Pass>>,
    pub(super) previous: Option<Arc<Pass>>,
    /// Set while passes fail.
    pub(super) failing: Option<Arc<ListingFailure>>,
    /// So many known servers vanished at once that the listings prove no absence.
    pub(super) breaker_open: bool,
    /// The beginnings of the last two passes that were answered with "no such place", the newest last. Counts only in a place
    /// that was never listed.
    pub(super) nowhere: [Option<Instant>; 2],
}

/// One server in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// It was listed; the instant is the end of the pass.
    Present(Arc<Row>, Instant),
    /// A steady pass did not list it.
    Absent {
        /// When that pass began.
        began: Instant,
    },
    /// The listing shows nothing about it.
    Unknown(NoEvidence),
}

/// Why the listings do not prove that a server does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoEvidence {
    /// The newest listing shows the server, or one with its marker.
    Listed,
    /// No pass was completed yet.
    NoPass,
    /// Too few passes began late enough: the newest did not, or a second one is missing.
    Stale,
    /// The list changed while it was read.
    Unsteady,
    /// Two passes in a row do not show the same servers.
    Changed,
    /// A row has no name, so its server may bear the marker.
    Nameless,
    /// Many known servers vanished at once.
    BreakerOpen,
}

impl View {
    /// Whether the newest pass began after an instant.
    pub fn began_after(&self, instant: Instant) -> bool {
        let newest = self.newest.as_ref();
        newest.is_some_and(|pass| pass.began > instant)
    }

    /// The server in the newest pass.
    pub fn sighting(&self, id: &ServerId) -> Sighting {
        let Some(pass) = &self.newest else {
            return Sighting::Unknown(NoEvidence::NoPass);
        };
        match pass.rows.get(id) {
            Some(row) => Sighting::Present(row.clone(), pass.ended),
            None if self.breaker_open => Sighting::Unknown(NoEvidence::BreakerOpen),
            None if !pass.steady => Sighting::Unknown(NoEvidence::Unsteady),
            None => Sighting::Absent { began: pass.began },
        }
    }

    /// The servers whose names bear a marker, in the newest pass.
    pub fn bearing(&self, marker: &Marker) -> &[ServerId] {
        let newest = self.newest.as_ref();
        newest.map_or(&[], |pass| pass.bearing(marker))
    }

    /// Whether both of the two newest passes show a server.
    pub fn shows_in_both(&self, id: &ServerId) -> bool {
        let shows = |pass: &Arc<Pass>| pass.rows.contains_key(id);
        self.newest.as_ref().is_some_and(shows) && self.previous.as_ref().is_some_and(shows)
    }

    /// Whether two passes in a row, both begun after `since`, prove that this server is gone, regardless of others with its
    /// marker.
    ///
    /// # Errors
    /// They prove nothing, or the newest pass shows the server.
    pub fn proven_gone(&self, id: &ServerId, since: Instant) -> Result<(), NoEvidence> {
        let newest = self.newest.as_ref();
        if newest.is_some_and(|pass| pass.rows.contains_key(id)) {
            return Err(NoEvidence::Listed);
        }
        // Two passes that count as evidence show the same servers, so the previous pass does not show it either.
        self.evidence(since, 2)
    }

    /// Whether two passes in a row, both begun after `since`, prove that no server has the marker and none has the id.
    ///
    /// # Errors
    /// They prove nothing, or the newest pass shows such a server.
    pub fn proven_absent(
        &self,
        marker: &Marker,
        id: Option<&ServerId>,
        since: Instant,
    ) -> Result<(), NoEvidence> {
        let newest = self.newest.as_ref();
        if newest.is_some_and(|pass| pass.shows(id, marker)) {
            return Err(NoEvidence::Listed);
        }
        // A place that the service does not know and never listed holds no server, unless a server there is on record.
        if id.is_none() && self.is_nowhere(Some(since), 2) {
            return Ok(());
        }
        self.evidence(since, 2)?;
        match newest.is_some_and(|pass| pass.nameless) {
            true => Err(NoEvidence::Nameless),
            false => Ok(()),
        }
    }

    /// Whether the service answered "no such place" in at least `tries` passes that began after `since`.
    pub fn is_nowhere(&self, since: Option<Instant>, tries: u8) -> bool {
        let is_after = |began: &&Instant| since.is_none_or(|since| **began > since);
        let answers = self.nowhere.iter().flatten().filter(is_after);
        self.newest.is_none() && answers.count() >= usize::from(tries)
    }

    /// Whether the newest pass, or the two newest, are evidence of absence.
    pub(super) fn evidence(&self, since: Instant, passes: u8) -> Result<(), NoEvidence> {
        let newest = self.newest.as_deref().ok_or(NoEvidence::NoPass)?;
        if newest.began <= since {
            return Err(NoEvidence::Stale);
        }
        if self.breaker_open {
            return Err(NoEvidence::BreakerOpen);
        }
        if !newest.steady {
            return Err(NoEvidence::Unsteady);
        }
        if passes < 2 {
            return Ok(());
        }
        let previous = self
            .previous
            .as_deref()
            .filter(|pass| pass.began > since)
            .ok_or(NoEvidence::Stale)?;
        if !previous.steady {
            return Err(NoEvidence::Unsteady);
        }
        match newest.same_ids(previous) {
            true => Ok(()),
            false => Err(NoEvidence::Changed),
        }
    }
}

#[cfg(test)]
mod tests;
