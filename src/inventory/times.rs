//! Times of the driver that are the same everywhere, each with its reason; the others are its `Settings`.

use std::time::Duration;

/// Pause before a driver that panicked begins again: what made it panic may well be there still.
pub(super) const RESTART_AFTER_PANIC: Duration = Duration::from_secs(1);

/// Longest pause between two tries of a pass: a service that came back is to be found within half a minute.
pub(super) const FAILED_PASS_RETRY_MAX: Duration = Duration::from_secs(20);

/// The same where the token is refused; with its jitter it stays within half a minute.
pub(super) const REFUSED_PASS_RETRY_MAX: Duration = Duration::from_secs(25);

/// The share of the request limit that the listing passes of all places take together where no Instance waits for one: what
/// changes outside is worth half of the limit at most.
pub(super) const LISTING_SHARE: f64 = 0.5;

/// Longest time between the beginnings of two passes of a place because of that, however large the places and small the limit: an
/// Instance counts as unconfirmed after five minutes without a listing.
pub(super) const LISTING_INTERVAL_MAX: Duration = Duration::from_secs(240);
