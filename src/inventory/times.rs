//! The driver's fixed constants, each with its reason; the others are in `Settings`.

use std::time::Duration;

/// Pause before the driver restarts after a panic, since the cause may still be there.
pub(super) const RESTART_AFTER_PANIC: Duration = Duration::from_secs(1);

/// Longest pause after a failed pass for which an Instance waits, so that the Instance goes on within half a minute after the
/// service is back. Other passes keep their interval.
pub(super) const FAILED_PASS_RETRY_MAX: Duration = Duration::from_secs(20);

/// Longest pause of this kind while the service refuses the token. With its jitter the pause stays within half a minute.
pub(super) const REFUSED_PASS_RETRY_MAX: Duration = Duration::from_secs(25);

/// The share of the request limit that all listing passes for which no Instance waits may take together: watching for external
/// changes is worth at most half of the limit.
pub(super) const LISTING_SHARE: f64 = 0.5;

/// Longest interval between the starts of two passes that follows from [`LISTING_SHARE`], regardless of the size of the places
/// and the limit: an Instance counts as unconfirmed after five minutes without a listing.
pub(super) const LISTING_INTERVAL_MAX: Duration = Duration::from_secs(240);
