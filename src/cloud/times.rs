//! All time constants for calls to the service, each with its reason.

use std::time::Duration;

/// For reads of lists. A list is read again soon anyway. A longer wait would only occupy a permit of the rate limiter.
pub(super) const READ_DEADLINE: Duration = Duration::from_secs(30);

/// For reads of one server or task, which are small answers. Shorter than `OBSERVE_DEADLINE`, within which a reconcile waits for
/// the rate limiter and the answer, so that a service that does not answer is reported as such.
pub(super) const QUERY_DEADLINE: Duration = Duration::from_secs(15);

/// A mutating call without an answer has an unknown outcome, so it gets twice the time of a read. The settling time begins when the
/// call has ended.
pub(super) const MUTATION_DEADLINE: Duration = Duration::from_secs(60);

/// A connection that takes longer to open would not be a good one.
pub(super) const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// We close an idle connection before the usual server or middlebox does (after 60 s or more).
pub(super) const CONNECTION_IDLE_MAX: Duration = Duration::from_secs(30);

/// One HTTP/2 connection carries all reads from a service, so it is checked this often while reads wait on it.
pub(super) const PING_EVERY: Duration = Duration::from_secs(10);

/// A connection that does not answer a ping within this time is dead.
pub(super) const PING_DEADLINE: Duration = Duration::from_secs(5);

/// The longest pause that a service may request. After that, sending a request is the lesser evil.
pub(super) const RETRY_AFTER_MAX: Duration = Duration::from_secs(600);

/// First pause after a rate refusal that names no time. Doubled while refusals continue.
pub(super) const RATE_REFUSED_PAUSE_FIRST: Duration = Duration::from_secs(1);

/// Longest pause after a rate refusal that names no time.
pub(super) const RATE_REFUSED_PAUSE_MAX: Duration = Duration::from_secs(60);

/// The rate is halved at most once in this time: simultaneous refusals count as one.
pub(super) const SLOWER_EVERY: Duration = Duration::from_secs(1);

/// The limiter raises the rate at most once in this time while the service refuses nothing.
pub(super) const FASTER_EVERY_MIN: Duration = Duration::from_secs(10);

/// The limiter raises the rate at least once in this time, even if fewer requests than usual show that the service allows the pace.
/// So the full default rate is back at most some 20 minutes after a temporary phase of refusals. The price is that a service with
/// a lasting limit that no user configured refuses up to one request in twelve.
pub(super) const FASTER_EVERY_MAX: Duration = Duration::from_secs(90);

/// How long a probe waits at most behind other requests, which may all be waiting for a service that does not answer.
pub(super) const PROBE_WAITS_IN_LINE: Duration = Duration::from_secs(1);

/// A call without an answer for this time casts doubt on the service: longer than a slow service takes, and short enough that
/// an outage is reported within half a minute, although the calls themselves have longer deadlines.
pub(super) const DOUBTED_UNANSWERED_AFTER: Duration = Duration::from_secs(8);
