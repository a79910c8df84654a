//! All time constants for calls to the service, each with its reason.

use std::time::Duration;

/// A read is repeated soon anyway. A longer wait would only occupy a permit of the rate limiter.
pub(super) const READ_DEADLINE: Duration = Duration::from_secs(30);

/// One server or task is a small answer. Shorter than `OBSERVE_DEADLINE`, within which a reconcile waits for the rate limiter and the
/// answer, so that a service that does not answer is reported as such.
pub(super) const QUERY_DEADLINE: Duration = Duration::from_secs(15);

/// A mutating call without an answer has an unknown outcome, so it gets twice the time. The settling time begins
/// when the call has ended.
pub(super) const MUTATION_DEADLINE: Duration = Duration::from_secs(60);

/// A connection that takes longer to open would not be a good one.
pub(super) const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// We close an idle connection before the usual server or middlebox does (after 60 s or more).
pub(super) const CONNECTION_IDLE_MAX: Duration = Duration::from_secs(30);

/// An HTTP/2 connection carries every read, so it is checked this often while reads wait on it.
pub(super) const PING_EVERY: Duration = Duration::from_secs(10);

/// A connection that does not answer a ping within this time is dead.
pub(super) const PING_DEADLINE: Duration = Duration::from_secs(5);

/// The longest pause that a service may request. After that, sending a request is the lesser evil.
pub(super) const RETRY_AFTER_MAX: Duration = Duration::from_secs(600);

/// First pause after a rate refusal that names no time. Doubled while refusals continue.
pub(super) const RATE_REFUSED_PAUSE_FIRST: Duration = Duration::from_secs(1);

/// Longest pause of this kind.
pub(super) const RATE_REFUSED_PAUSE_MAX: Duration = Duration::from_secs(60);

/// The rate is halved at most once in this time: simultaneous refusals count as one.
pub(super) const SLOWER_EVERY: Duration = Duration::from_secs(1);

/// The limiter raises the rate at most this often while the service refuses nothing.
pub(super) const FASTER_EVERY_MIN: Duration = Duration::from_secs(10);

/// It waits at most this long for requests to show that the service allows the pace. So the full rate is back 20 minutes after a
/// temporary phase of refusals. The price is that a service with a lasting limit that no user configured refuses up to one
/// request in twelve.
pub(super) const FASTER_EVERY_MAX: Duration = Duration::from_secs(90);

/// How long a probe waits behind other requests, which may all be waiting for a service that does not answer.
pub(super) const PROBE_WAITS_IN_LINE: Duration = Duration::from_secs(1);

/// A call without an answer for this time casts doubt on the service: longer than a slow service takes, and short enough that
/// an outage is reported within half a minute, although the calls themselves have longer deadlines.
pub(super) const DOUBTED_UNANSWERED_AFTER: Duration = Duration::from_secs(8);
