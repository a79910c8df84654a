//! All times of calls to the service, each with its reason.

use std::time::Duration;

/// A read is repeated soon anyway; a longer wait would only hold a place at the rate limiter.
pub(super) const READ_DEADLINE: Duration = Duration::from_secs(30);

/// A mutating call that is given up is an unknown outcome, so it gets twice the patience, and still ends well within
/// the settling time that follows an unknown outcome.
pub(super) const MUTATION_DEADLINE: Duration = Duration::from_secs(60);

/// How long a carried request may take that names no deadline of its own.
pub(super) const CARRIED_DEADLINE: Duration = Duration::from_secs(60);

/// A connection that takes longer to open than this will not be a good one.
pub(super) const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// An idle connection is closed from our side before the usual server or middlebox (60 s and more) does it.
pub(super) const CONNECTION_IDLE_MAX: Duration = Duration::from_secs(30);

/// A connection of HTTP/2 carries every read, so a dead one is looked for this often while reads wait on it.
pub(super) const PING_EVERY: Duration = Duration::from_secs(10);

/// A connection that does not answer a ping within this time is dead.
pub(super) const PING_DEADLINE: Duration = Duration::from_secs(5);

/// The longest pause that a service may ask for. Beyond it, asking again is the lesser evil.
pub(super) const RETRY_AFTER_MAX: Duration = Duration::from_secs(600);

/// First pause after a refusal for rate that names no time, doubled while refusals go on.
pub(super) const RATE_REFUSED_PAUSE_FIRST: Duration = Duration::from_secs(1);

/// Longest such pause.
pub(super) const RATE_REFUSED_PAUSE_MAX: Duration = Duration::from_secs(60);

/// The rate is halved at most once in this time: what was refused together is one refusal.
pub(super) const SLOWER_EVERY: Duration = Duration::from_secs(1);

/// How often the limiter raises the rate at most, while the service refuses nothing: twice the rate takes a little more than a
/// minute.
pub(super) const FASTER_EVERY: Duration = Duration::from_secs(10);

/// How long the limiter stays below the refused rate. A refusal within the same time after that shows a limit that lasts, beyond
/// which the limiter then goes slowly. After a phase of refusals that has passed, the full rate is back within 20 minutes.
pub(super) const REFUSED_RATE_REMEMBERED: Duration = Duration::from_secs(600);

/// What asks whether the service answers waits for so long behind requests that may be waiting for just that.
pub(super) const PROBE_WAITS_IN_LINE: Duration = Duration::from_secs(1);

/// A call that was not answered for so long casts doubt on the service: longer than a service takes that is merely slow, and
/// short enough that an outage is told within half a minute although the calls themselves are waited for longer.
pub(super) const DOUBTED_UNANSWERED_AFTER: Duration = Duration::from_secs(8);
