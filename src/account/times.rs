//! All time constants of the Account controller, each with its reason.

use std::time::Duration;

/// Time between reconciles when nothing happens. A reconcile costs no call to the service if a listing succeeded within
/// `EVIDENCE_MAX_AGE`.
pub const RESYNC_INTERVAL: Duration = Duration::from_secs(30);

/// Pause between probes with a token that the service refuses. One probe serves all Instances of the Account. If the refusal was
/// a fault of the service, Instances continue within 30 s after it is fixed.
pub const TOKEN_REFUSED_RETRY: Duration = Duration::from_secs(25);

/// Recheck after a failed call: short, because whether the service is down is decided within a few seconds.
pub const FAILED_CALL_RECHECK: Duration = Duration::from_secs(2);

/// Recheck while the watch still shows the Account as it was before an edit or its deletion. The watch event usually comes sooner.
pub const OUTDATED_RECHECK: Duration = Duration::from_secs(2);

/// Shortest pause before a retry, so that retries do not come in bursts.
pub const RETRY_MIN: Duration = Duration::from_secs(1);

/// Longest pause between probes of an endpoint that does not answer, so that Instances continue within 30 s after it is back.
pub const UNREACHABLE_RETRY_MAX: Duration = Duration::from_secs(20);

/// Pause before the release of a late server is retried: longer than the longest interval between two listings of a zone, so
/// that a listing can show the result first.
pub const LATE_RELEASE_RETRY: Duration = Duration::from_secs(400);

/// Pause before that retry if the service refused the release because the server is busy: most such servers are still being
/// created, and are billed meanwhile. Shorter than the pause between reconciles, so that each reconcile retries.
pub const LATE_RELEASE_BUSY_RETRY: Duration = Duration::from_secs(25);

/// Time that must be left in a reconcile for one release call.
pub const RELEASE_CALL: Duration = Duration::from_secs(60);

/// How long the ConfigMap of a CA bundle is not read again: shorter than the pause between reconciles, so that each reconcile of
/// an idle Account reads it once. The operator does not watch ConfigMaps, since one name in an Account does not justify the
/// permission to list all of them.
pub const BUNDLE_REREAD: Duration = Duration::from_secs(25);

/// A listing or a probe that succeeded within this time shows that the account is usable, unless a call failed since.
pub const EVIDENCE_MAX_AGE: Duration = Duration::from_secs(150);

/// After a probe that succeeded, failing calls cause no further probe for this long.
pub const PROBE_TRUSTED_FOR: Duration = Duration::from_secs(10);

/// A usable Account stays usable until no call, the probe included, was answered for this long: a service that drops a connection
/// now and then is not down.
pub const UNREACHABLE_CERTAIN_AFTER: Duration = Duration::from_secs(5);

/// A probe counts as unanswered after this time, if no other call was answered either. Together with the 8 s after which a call
/// without an answer casts doubt, this is less than half a minute. A service that takes longer for an answer is of no use.
pub const PROBE_UNANSWERED_AFTER: Duration = Duration::from_secs(15);

/// How often a waiting probe checks whether another call was answered.
pub const PROBE_RECHECK: Duration = Duration::from_secs(1);

/// Longest time for a probe, including the wait for the request limit. It is longer than the call's own deadline, so that only
/// the request limit or a pause requested by the service can use it up.
pub const PROBE_DEADLINE: Duration = Duration::from_secs(50);

/// How long a refusal counts that is based on the status of the account at the service (arrears, locked). A refused Instance
/// retries sooner; without new refusals, nothing shows whether it still holds.
pub const ACCOUNT_STATUS_REFUSAL_VALID_FOR: Duration = Duration::from_secs(600);

/// How long after the Account became usable every Instance should have had a reconcile: an estimate, which also counts after an
/// outage. Before that, zones and waiting Instances may be missing.
pub const ALL_HAD_A_RECONCILE_AFTER: Duration = Duration::from_secs(25);

/// A zone is reported as failing after this time. A single lost listing concerns no user, and after an outage each zone for
/// which an Instance waits has been listed again within this time, since no pause between retries exceeds 20 s. The listing of an
/// idle zone may come up to a minute later.
pub const ZONE_FAILING_SHOWN_AFTER: Duration = Duration::from_secs(25);

/// How often status is written only because times of listings changed: often enough to distinguish a zone that is listed from one
/// that is not, and at most one write per Account in five minutes, which stays cheap with many Accounts.
pub const LISTED_TIMES_REWRITE: Duration = Duration::from_secs(300);

/// Shortest pause between writes of changed counts, which change with every create. The operator also waits this long before it
/// repeats a write that another writer reverted, so that two writers that disagree do not write continuously.
pub const STATUS_REWRITE: Duration = Duration::from_secs(30);
