//! All times of an Account, each with its reason.

use std::time::Duration;

/// How often an Account is looked at when nothing happens. Costs no call while its listings succeed.
pub const LOOKED_AT_AGAIN: Duration = Duration::from_secs(30);

/// A token that the service refuses is tried this often, once for all Instances of the Account: where the refusal was the
/// service's own trouble, Instances go on within 30 s after it is over.
pub const TOKEN_REFUSED_RETRY: Duration = Duration::from_secs(25);

/// A service on which calls cast doubt is looked at again so soon: few seconds decide.
pub const DOUBTFUL_RECHECK: Duration = Duration::from_secs(2);

/// Where the watch still shows an Account as it was before an edit: the event that shows the edit comes sooner as a rule.
pub const OUTDATED_RECHECK: Duration = Duration::from_secs(2);

/// A try that is due is not made in a rush.
pub const RETRY_MIN: Duration = Duration::from_secs(1);

/// From one try of an endpoint that does not answer to the next, at most: Instances go on within 30 s after it is back.
pub const UNREACHABLE_RETRY_MAX: Duration = Duration::from_secs(20);

/// The release of a late server is called again after this time: longer than the listings of places in which nothing else
/// is looked for are apart.
pub const LATE_RELEASE_RETRY: Duration = Duration::from_secs(400);

/// The same, where the service refused it since the server is busy: it is billed while it waits, and as a rule it is being created
/// still. Less than an Account rests, so that each look tries again.
pub const LATE_RELEASE_BUSY_RETRY: Duration = Duration::from_secs(25);

/// What a release needs of a reconcile.
pub const RELEASE_CALL: Duration = Duration::from_secs(60);

/// The ConfigMap of a CA bundle is read again after this time: less than an Account rests, so that each look at a quiet one reads
/// it once. No watch tells of ConfigMaps: a right to list all of them is more than one name in an Account is worth.
pub const BUNDLE_REREAD: Duration = Duration::from_secs(25);

/// A listing or a probe that succeeded within this time shows that the account can be used, unless a call failed since.
pub const USABLE_SHOWN_WITHIN: Duration = Duration::from_secs(150);

/// Where calls fail now and then, the service is asked no more often than this whether it answers.
pub const PROBES_APART: Duration = Duration::from_secs(10);

/// An Account that could be used can be used until nothing was answered for so long, the probe included: a service that breaks a
/// connection now and then is not away.
pub const UNREACHABLE_CERTAIN_AFTER: Duration = Duration::from_secs(5);

/// A probe that is not answered for so long is told as unanswered, if nobody else was answered meanwhile. With the time in which
/// the first call casts doubt that is less than half a minute; and a service that is slower than this is of no use.
pub const PROBE_UNANSWERED_AFTER: Duration = Duration::from_secs(15);

/// How often it is looked, while a probe waits, whether somebody was answered.
pub const PROBE_RECHECK: Duration = Duration::from_secs(1);

/// Longest wait for a probe, the wait for the request limit included: longer than its own deadline, so that only a pause that the
/// service asked for takes it.
pub const PROBE_DEADLINE: Duration = Duration::from_secs(50);

/// A refusal for the account's standing counts for so long: an Instance that is refused is tried again sooner, and once none is,
/// nobody knows how the account stands.
pub const STANDING_REFUSAL_COUNTS_FOR: Duration = Duration::from_secs(600);

/// Since the Account can be used, every Instance that waits has asked by then: before that, fewer wait than is told only because
/// they had no reconcile yet.
pub const WAITING_HAVE_ASKED_WITHIN: Duration = Duration::from_secs(25);

/// A zone that has failed for so long is told as failing: a single listing that was lost is nobody's concern, and after an outage
/// each zone was listed again within this time (pauses between tries end at 20 s).
pub const ZONE_FAILING_SHOWN_AFTER: Duration = Duration::from_secs(25);

/// Times of listings alone are written this seldom: often enough to tell a zone that is listed from one that is not, and a write
/// of an Account in five minutes is nothing, however many there are.
pub const LISTED_TIMES_REWRITE: Duration = Duration::from_secs(300);

/// Counts in status move with every create of anybody: this often is enough to show them. And so often is said again what
/// somebody else took back: two who see it differently must not write for ever.
pub const STATUS_REWRITE: Duration = Duration::from_secs(30);
