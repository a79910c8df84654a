//! All times of an Instance, each with its reason.

use jiff::SignedDuration;
use std::time::Duration;

/// A server that was bought is listed within this time, by any service seen so far. An object of which nothing is on record
/// and that this process did not see appear waits for so long: its purchase may have been lost with etcd's last seconds.
pub const LISTED_WITHIN: Duration = Duration::from_secs(5);

/// How long before expiry the operator warns: a week includes working days.
pub const EXPIRES_WITHIN: SignedDuration = SignedDuration::from_hours(7 * 24);

/// How long a purchase waits where another cluster's record names a server that is still there: a person who moves a fleet reads
/// the condition in this time, and a copy gets its server soon enough.
pub const REPORTED_BEFORE_PURCHASE: Duration = Duration::from_secs(300);

/// What moves by itself at the service is looked at again after this time when nothing else calls for it.
pub const IDLE_REQUEUE: Duration = Duration::from_secs(600);

/// How soon an object is looked at again whose next step only waits for the watch to bring what was just written.
pub const AFTER_OWN_WRITE: Duration = Duration::from_millis(500);

/// How soon a wait for a listing pass is checked again, should its notice be missed.
pub const PASS_RECHECK: Duration = Duration::from_secs(5);

/// How soon whoever waits in line is looked at again, should the notice that it is its turn be missed.
pub const QUEUED_RECHECK: Duration = Duration::from_secs(30);

/// An operation whose task failed is tried again after these times; after the last one the Instance is Stalled and tried
/// again at that pace: a service that fails the same thing thrice in a row will hardly mend it within minutes.
pub const RETRY_FAILED: [Duration; 3] = [
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(600),
];

/// Somebody at the console may well stop a server twice; after that something else is the matter.
pub const POWER_TIMES: usize = 3;

/// A server that was started or stopped so often lately does not stay as it is put: the next time waits.
pub fn pause_of_power(times: usize) -> Option<Duration> {
    let over = times.checked_sub(POWER_TIMES)?;
    Some(RETRY_FAILED[over.min(RETRY_FAILED.len() - 1)])
}

/// Looks again at a server whose listing rows tell too little, at most this often.
pub const RESYNC_DEFAULT: Duration = Duration::from_secs(600);

/// How long the listing is read at the pace of running operations for one object.
pub const FAST_LISTING_FOR: Duration = Duration::from_secs(300);

/// How long the task of an operation whose server is gone is asked for again before a person is told: it may yet say how that
/// ended, and a create that failed is made again.
pub const ENDING_FOR: Duration = Duration::from_secs(300);

/// What was refused as wrong is asked for again no sooner: each try costs two writes, and a mended spec or Secret brings a
/// reconcile at once.
pub const CREATE_REFUSED_RETRY: Duration = Duration::from_secs(30);

/// A write that the apiserver refuses is tried again this often, at the longest. Rights that come back and a policy that
/// goes are no event, and an apiserver that has just started refuses everybody until it has read its rules.
pub const WRITE_REFUSED_RETRY: Duration = Duration::from_secs(25);

/// How often an object is looked at whose operation has been running for longer than that.
pub const LONG_OPERATION_RECHECK: Duration = Duration::from_secs(30);

/// A service that is busy with a server again and again is asked no sooner: each try is a look and a call, and with the look
/// after the first one three tries in a minute would be too many (design section 5, L3).
pub const SERVICE_BUSY_RETRY: Duration = Duration::from_secs(30);

/// A repeated release of a surplus or failed server waits this long for the listing to drop it.
pub const RELEASE_RETRY: Duration = Duration::from_secs(60);

/// A server that shows at rest for this long is taken for created, whatever its task says or does not say: field note 6
/// knows tasks that say RETRY, and an Account may name a wrong path for them.
pub const AT_REST_COUNTS_AS_DONE: Duration = Duration::from_secs(30);

/// How soon a server is looked at again that somebody else keeps busy.
pub const SERVER_BUSY_RECHECK: Duration = Duration::from_secs(30);

/// How soon something unreadable is read again.
pub const UNREADABLE_RETRY: Duration = Duration::from_secs(20);

/// A mutating call and its receipt need this much of the reconcile: 60 s and 15 s.
pub const CALL_AND_RECEIPT: Duration = Duration::from_secs(75);

/// How soon an object is looked at again of which the watch has not brought our own last write.
pub const STALE_CACHE_RECHECK: Duration = Duration::from_secs(5);

/// How often somebody else's status is written over, after the first time.
pub const CONFLICTING_STATUS_REWRITE: Duration = Duration::from_secs(30);

/// Longest wait of a reconcile for one read, the wait for the request limit included. A read that comes later is made again.
pub const OBSERVE_DEADLINE: Duration = Duration::from_secs(20);

/// A server whose release the service did not take is looked at this often.
pub const UNTAKEN_RELEASE_RECHECK: Duration = Duration::from_secs(10);

/// A server of a listing whose circuit breaker is open is asked for this often: somebody has to tell whether it is gone.
pub const OPEN_BREAKER_RECHECK: Duration = Duration::from_secs(60);

/// A service may show what it made a moment late: before this time is over, that a failed create left nothing is not believed.
pub const FAILED_CREATE_SHOWS_WITHIN: Duration = Duration::from_secs(10);

/// A release is given up waiting for after this time; it goes on all the same.
pub const RELEASE_OVERDUE: Duration = Duration::from_secs(30 * 60);

/// A state that the operator does not know passes by itself within this time: clients of the service wait for a stop or a restart
/// for so long (field note 17), and a migration takes minutes. Beyond it a user has to look.
pub const UNKNOWN_STATE_PASSES_WITHIN: Duration = Duration::from_secs(15 * 60);

/// A started server shows its public address within this time, if it has one (field note 30).
pub const ADDRESS_SHOWN_WITHIN: Duration = Duration::from_secs(5 * 60);

/// Shortest and longest pause between two looks at a server that shows what passes by itself. In between the pause is half of
/// the time waited so far.
pub const PASSING_RECHECK_MIN: Duration = Duration::from_secs(2);
/// See [`PASSING_RECHECK_MIN`].
pub const PASSING_RECHECK_MAX: Duration = Duration::from_secs(60);

/// A create is given up waiting for after this time (field note 17: clients wait 10 to 30 minutes); slow queries go on.
pub const CREATE_OVERDUE: Duration = Duration::from_secs(30 * 60);

/// Operations are given up waiting for after these times (field note 17); slow queries go on.
pub const OPERATION_OVERDUE: Duration = Duration::from_secs(15 * 60);

/// The same of a reinstall.
pub const REINSTALL_OVERDUE: Duration = Duration::from_secs(60 * 60);

/// What was not found is looked for again after this time; see the lists' own pace.
pub const REFERENCE_NOT_FOUND_RETRY: Duration = Duration::from_secs(30);

/// What could not be read is read again after this time.
pub const REFERENCE_UNREAD_RETRY: Duration = Duration::from_secs(15);

/// What the service refused as wrong is asked for again after these times, the last one from then on, if nobody mends it
/// sooner: an image may be published again, a quota raised, and neither is told to anybody. Longer than the minute in which
/// a wish that cannot be granted must cost next to nothing.
pub const RETRY_REFUSED: [Duration; 2] = [Duration::from_secs(75), Duration::from_secs(300)];

/// A server is not stopped once more for a reinstall that the service refused when it was: the service has shown that the
/// spec has to be mended, and each try costs an outage.
pub const RETRY_REFUSED_AFTER_STOP: Duration = Duration::from_secs(24 * 3600);

/// A cut that does not show is made again after this time.
pub const POWER_CUT_RETRY: Duration = Duration::from_secs(60);

/// A server that waits for its cut is looked at this often.
pub const POWER_CUT_RECHECK: Duration = Duration::from_secs(10);

/// A server that was stopped or started within an attempt shows it within this time, or is asked again.
pub const AUXILIARY_RETRY: Duration = Duration::from_secs(30);

/// What the service refuses, in the state that the server is in, is asked for again after this time: beside a look every ten
/// seconds that leaves room for one call a minute (design section 5, L3).
pub const REFUSED_AUXILIARY_RETRY: Duration = Duration::from_secs(60);

/// A Secret that could not be read is tried again after this time: the apiserver's trouble is no event of the Secret.
pub const SECRET_UNREAD_RETRY: Duration = Duration::from_secs(15);

/// Whoever waits for room is woken when there is some; this often it looks by itself, which calls and writes nothing.
pub const LIMIT_RECHECK: Duration = Duration::from_secs(60);

/// What is not as it should be at the service is looked at again after this time: no event tells that it was mended.
pub const IMPORT_RETRY: Duration = Duration::from_secs(60);

/// A server that was listed as ours so lately is not looked at once more before its release: an identifier is not given
/// away again within seconds. Two listings at the pace of running operations.
pub const LISTED_LATELY: Duration = Duration::from_secs(10);

/// Longest wait for that look, the wait for the request limit included, so that the reconcile has time left for the release.
pub const LOOK_BEFORE_RELEASE: Duration = Duration::from_secs(5);

/// An edit is answered within 0.5 s: a reconcile that takes longer than this waits for the service.
pub const ACKNOWLEDGE_AFTER: Duration = Duration::from_millis(200);

/// Longest pause between two tries of that write.
pub const ACKNOWLEDGE_RETRY_MAX: Duration = Duration::from_secs(5);

/// The call follows that soon after what is said before it, should the watch not bring it sooner.
pub const CALL_AFTER_ACKNOWLEDGEMENT: Duration = Duration::from_millis(100);

/// A Secret that could not be written is tried again after this time: rights that come are no event.
pub const SECRET_UNWRITTEN_RETRY: Duration = Duration::from_secs(60);

/// A reconcile that is under way may still end what the object went for: its last write is often seen by the watch before it is
/// answered. A receipt that finds no object releases its server within this time.
pub const LAST_WRITE_UNDER_WAY: Duration = Duration::from_secs(5);

/// Between two tries to ask whether an object is gone.
pub const ORPHAN_RECHECK: Duration = Duration::from_secs(15);

/// As long as listings are waited for. One of 10,000 servers takes some 40 s at the default request limit.
pub const PREVIEW_WAITS_FOR_LISTING: Duration = Duration::from_secs(90);

/// How often it is looked whether a listing came, should its notice be missed.
pub const PREVIEW_RECHECK: Duration = Duration::from_secs(2);

/// How long the end of a server that is not recorded is remembered: longer than any listing lags.
pub const GONE_SERVER_REMEMBERED: Duration = Duration::from_secs(3600);

/// Starts or stops within this time are too many for a server that stays as it is put.
pub const POWER_RESTLESS_WITHIN: Duration = Duration::from_secs(600);

/// Shortest pause between queries: with the query and the look after it, what is done is told within 1.5 s.
pub const TASK_QUERY_MIN: Duration = Duration::from_millis(1200);

/// Longest pause.
pub const TASK_QUERY_MAX: Duration = Duration::from_secs(60);

/// A query at the expected end comes no sooner after the last one.
pub const TASK_QUERY_APART: Duration = Duration::from_millis(200);

/// A task that was not done at its expected end is asked for again after this time.
pub const TASK_QUERY_AFTER_EXPECTED: Duration = Duration::from_millis(500);

/// Longest wait after a failure whose cause is a dependency (the service or the apiserver is down): within 30 s after it is
/// back, everything goes on.
pub const DEPENDENCY_RETRY_MAX: Duration = Duration::from_secs(20);

/// A progress that ends within this time is not worth a write (design section 6).
pub const PROGRESS_SHOWN_AFTER: Duration = Duration::from_secs(2);

/// The wait for the request limit is shown later: a whole fleet that is applied at once is through it sooner than that, and
/// who waits longer wonders.
pub const QUEUED_SHOWN_AFTER: Duration = Duration::from_secs(10);

/// A server that is not confirmed is looked for this often in the listings, which costs no call.
pub const UNCONFIRMED_RECHECK: Duration = Duration::from_secs(20);

/// That this alone changed is said this often.
pub const SYNCED_REWRITE: Duration = Duration::from_secs(30);

/// A server that was not seen for this long is not confirmed: five quiet listings. A short outage costs no write.
pub const CONFIRMED_WITHIN: Duration = Duration::from_secs(300);

/// A server that was gone and is listed after this time is not gone: longer than a listing lags.
pub const GONE_IS_CERTAIN_AFTER: Duration = Duration::from_secs(60);

/// How long our own cache is believed to be behind a write of ours without a question. Watches are late by seconds; beyond,
/// something else is wrong.
pub const CACHE_CATCHES_UP_WITHIN: Duration = Duration::from_secs(10);

/// The apiserver is asked about an object that stays behind this often.
pub const STALE_CACHE_ASKED_AGAIN: Duration = Duration::from_secs(10);
