//! A snapshot of a place, and the conclusions that it permits.

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;

use super::breaker::BreakerOpen;
use super::pass::{Pass, PassError};
use super::row::Row;
use crate::api::Marker;
use crate::cloud::ServerId;

/// A snapshot of a place. It is cheap to clone and immutable: one reconcile uses one view.
///
/// A row proves that a server exists. A server's absence from a pass proves little: the list may have shifted while it was read,
/// or belong to another account. Absence therefore comes in two strengths: [`View::sighting`] (one steady pass, good enough for a
/// report) and [`View::proven_absent`] (two in a row that show the same servers). A place whose circuit breaker is open proves
/// neither of them.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub(super) newest: Option<Arc<Pass>>,
    pub(super) previous: Option<Arc<Pass>>,
    pub(super) error: Option<Arc<PassError>>,
    pub(super) breaker_open: Option<BreakerOpen>,
    /// When the last two passes began to which the service answered "no such place", the newest last. Only for a place that was
    /// never listed.
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

/// Whether a server is known not to exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absence {
    /// It does not exist.
    Proven,
    /// It exists: these servers.
    Present(Vec<ServerId>),
    /// It is not known yet.
    NotYet(NoEvidence),
}

/// Why a listing proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoEvidence {
    /// No pass was completed yet.
    NoPass,
    /// The available passes began too early.
    Stale,
    /// The list changed while it was read.
    Unsteady(&'static str),
    /// Two passes in a row do not show the same servers.
    Changed,
    /// Rows have no names, so no marker can be searched for.
    Nameless,
    /// Many known servers vanished at once.
    BreakerOpen,
}

impl fmt::Display for NoEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPass => f.write_str("the instance list has not been read yet"),
            Self::Stale => f.write_str("the instance list has not been read since"),
            Self::Unsteady(doubt) => {
                write!(f, "the instance list changed while it was read: {doubt}")
            }
            Self::Changed => f.write_str("two readings of the instance list differ"),
            Self::Nameless => f.write_str("the instance list gives no names"),
            Self::BreakerOpen => {
                f.write_str("many known servers vanished from the instance list at once")
            }
        }
    }
}

impl View {
    pub fn newest(&self) -> Option<&Pass> {
        self.newest.as_deref()
    }

    /// The pass before it.
    pub fn previous(&self) -> Option<&Pass> {
        self.previous.as_deref()
    }

    /// Why the latest attempt at a pass failed, if it did.
    pub fn last_error(&self) -> Option<&PassError> {
        self.error.as_deref()
    }

    /// The circuit breaker, if it is open: too many known servers vanished at once to conclude anything.
    pub fn breaker_open(&self) -> Option<BreakerOpen> {
        self.breaker_open
    }

    /// Whether the newest pass began after an instant.
    pub fn began_after(&self, instant: Instant) -> bool {
        self.newest
            .as_ref()
            .is_some_and(|pass| pass.began > instant)
    }

    /// The server in the newest pass.
    pub fn sighting(&self, id: &ServerId) -> Sighting {
        let Some(pass) = &self.newest else {
            return Sighting::Unknown(NoEvidence::NoPass);
        };
        match (pass.rows.get(id), self.breaker_open, pass.doubt) {
            (Some(row), _, _) => Sighting::Present(row.clone(), pass.ended),
            (None, Some(_), _) => Sighting::Unknown(NoEvidence::BreakerOpen),
            (None, None, Some(doubt)) => Sighting::Unknown(NoEvidence::Unsteady(doubt)),
            (None, None, None) => Sighting::Absent { began: pass.began },
        }
    }

    /// The servers whose names bear a marker, in the newest pass.
    pub fn bearing(&self, marker: &Marker) -> Vec<ServerId> {
        self.newest
            .as_ref()
            .map(|pass| pass.bearing(marker).to_vec())
            .unwrap_or_default()
    }

    /// The servers of the newest pass, in no order.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        let rows = self.newest.iter().flat_map(|pass| pass.rows.values());
        rows.map(AsRef::as_ref)
    }

    /// Whether the newest pass began after this instant and is evidence of absence.
    pub fn is_whole(&self, since: Instant) -> bool {
        self.evidence(since, 1).is_ok()
    }

    /// Whether both of the two newest passes show a server.
    pub fn shows_in_both(&self, id: &ServerId) -> bool {
        let shows =
            |pass: &Option<Arc<Pass>>| pass.as_ref().is_some_and(|pass| pass.rows.contains_key(id));
        shows(&self.newest) && shows(&self.previous)
    }

    /// Whether two passes in a row, both begun after `since`, prove that this server is gone, regardless of other servers.
    pub fn proven_gone(&self, id: &ServerId, since: Instant) -> Absence {
        let is_listed = |pass: &Arc<Pass>| pass.rows.contains_key(id);
        if self.newest.as_ref().is_some_and(is_listed) {
            return Absence::Present(vec![id.clone()]);
        }
        // Two passes that count as evidence show the same servers, so the previous pass does not show it either.
        match self.evidence(since, 2) {
            Ok(()) => Absence::Proven,
            Err(why) => Absence::NotYet(why),
        }
    }

    /// Whether two passes in a row, both begun after `since`, prove that no server has the marker and none has the id.
    pub fn proven_absent(&self, marker: &Marker, id: Option<&ServerId>, since: Instant) -> Absence {
        let listed = |pass: &Pass| {
            let other =
                id.filter(|id| pass.rows.contains_key(*id) && !pass.bearing(marker).contains(id));
            pass.bearing(marker)
                .iter()
                .chain(other)
                .cloned()
                .collect::<Vec<_>>()
        };
        if let Some(ids) = self
            .newest
            .as_deref()
            .map(listed)
            .filter(|ids| !ids.is_empty())
        {
            return Absence::Present(ids);
        }
        // A place that the service does not know and never listed holds no server, unless a server there is on record.
        if id.is_none() && self.is_nowhere(Some(since), 2) {
            return Absence::Proven;
        }
        if let Err(why) = self.evidence(since, 2) {
            return Absence::NotYet(why);
        }
        if self.newest.as_ref().is_some_and(|pass| pass.nameless) {
            return Absence::NotYet(NoEvidence::Nameless);
        }
        Absence::Proven
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
        if self.breaker_open.is_some() {
            return Err(NoEvidence::BreakerOpen);
        }
        if let Some(doubt) = newest.doubt {
            return Err(NoEvidence::Unsteady(doubt));
        }
        if passes < 2 {
            return Ok(());
        }
        let previous = self
            .previous
            .as_deref()
            .filter(|pass| pass.began > since)
            .ok_or(NoEvidence::Stale)?;
        if let Some(doubt) = previous.doubt {
            return Err(NoEvidence::Unsteady(doubt));
        }
        if newest.same_ids(previous) {
            Ok(())
        } else {
            Err(NoEvidence::Changed)
        }
    }
}

#[cfg(test)]
mod tests;
