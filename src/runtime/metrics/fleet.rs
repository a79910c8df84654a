//! The values of metrics about all objects, which are computed for each scrape instead of at each change.

use std::time::Duration;

/// The state of an object: words of a fixed set, so that they can be labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectState {
    /// `ready`, `reconciling`, `stalled` or `unknown`.
    pub state: &'static str,
    /// A reason of the conditions, or `Unknown`.
    pub reason: &'static str,
}

/// The state of the listings of all watched zones, of one session or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Listings {
    /// The number of servers that no Instance owns.
    pub unowned: u32,
    /// The age of the newest complete listing, in the zone where that is oldest.
    pub oldest: Duration,
}

impl Listings {
    /// The state of both: the sum of the servers, and the greater age.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            unowned: self.unowned.saturating_add(other.unowned),
            oldest: self.oldest.max(other.oldest),
        }
    }
}
