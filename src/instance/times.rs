//! All time constants of the Instance controller, each with its reason.

use crate::api::EndReason;
use crate::api::conditions::Reason;
use jiff::SignedDuration;
use std::time::Duration;

/// Every service observed so far lists a new server within this time. An object without a record that this process did not see
/// appear waits this long, because the record of its purchase may have been lost with etcd's last seconds.
pub const LISTED_WITHIN: Duration = Duration::from_secs(5);

/// How long before expiry the operator warns: a week includes working days.
pub const EXPIRES_WITHIN: SignedDuration = SignedDuration::from_hours(7 * 24);

/// How long a purchase waits if another cluster's record names a server that still exists. A user who moves a fleet reads the
/// condition within this time, and a copy still gets its server soon enough.
pub const REPORTED_BEFORE_PURCHASE: Duration = Duration::from_secs(300);

/// Time between reconciles when nothing happens, for changes at the service that no event reports.
pub const IDLE_REQUEUE: Duration = Duration::from_secs(600);

/// Recheck of an object that only waits for the watch to show our own write.
pub const AFTER_OWN_WRITE: Duration = Duration::from_millis(500);

/// Recheck of a wait for a listing pass, in case its notification is missed.
pub const PASS_RECHECK: Duration = Duration::from_secs(5);

/// Recheck of an object in line for a slot, in case its notification is missed.
pub const QUEUED_RECHECK: Duration = Duration::from_secs(30);

/// Pauses before an operation that failed, or whose answer was lost, is repeated, the last one from then on. After the third
/// failure in a row the Instance is Stalled: the service will hardly recover within minutes.
pub const RETRY_FAILED: [Duration; 3] = [
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(600),
];

/// The pause before the same operation after its n-th such end in a row; None if no time is set.
pub fn pause_after(reason: EndReason, times: u32) -> Option<Duration> {
    let pauses: &[Duration] = match reason {
        EndReason::Failed | EndReason::AnswerLost => &RETRY_FAILED,
        EndReason::Refused => &RETRY_REFUSED,
        EndReason::Superseded | EndReason::ServerGone | EndReason::OutcomeUnknown => return None,
    };
    let nth = usize::try_from(times.saturating_sub(1)).unwrap_or(usize::MAX);
    Some(pauses[nth.min(pauses.len() - 1)])
}

/// The longest pause that an operation with this end can have. A later time in status comes from a wrong clock.
pub fn longest_pause_after(reason: EndReason) -> Duration {
    match reason {
        EndReason::Refused => RETRY_REFUSED_AFTER_STOP,
        _ => RETRY_FAILED[RETRY_FAILED.len() - 1],
    }
}

/// How often to read a server whose listing rows show too little.
pub const RESYNC_DEFAULT: Duration = Duration::from_secs(600);

/// How long the listing is read at the short interval for one object.
pub const FAST_LISTING_FOR: Duration = Duration::from_secs(300);

/// How long the task of an operation is queried whose server is gone, before human action is requested. The task may still report
/// the end, and a create that failed is repeated.
pub const ENDING_FOR: Duration = Duration::from_secs(300);

/// Shortest pause before a create is repeated after a refusal that will hardly pass soon: each try costs two writes, and an edit
/// of the spec ends the pause.
pub const CREATE_REFUSED_RETRY: Duration = Duration::from_secs(30);

/// Longest pause before a write is repeated that the apiserver refused. There is no event when permissions or policies change,
/// and an apiserver that has just started refuses every request until it has loaded its rules.
pub const WRITE_REFUSED_RETRY: Duration = Duration::from_secs(25);

/// Longest pause after a failed write.
pub fn write_retry_max(is_refused: bool) -> Duration {
    match is_refused {
        true => WRITE_REFUSED_RETRY,
        false => DEPENDENCY_RETRY_MAX,
    }
}

/// Recheck of an object whose operation has been running for longer than [`FAST_LISTING_FOR`].
pub const LONG_OPERATION_RECHECK: Duration = Duration::from_secs(30);

/// Longest pause while the service answers "busy" again and again. Each try costs a read and a call, and with the read after the
/// first one three tries a minute would be too many.
pub const SERVICE_BUSY_RETRY: Duration = Duration::from_secs(30);

/// Pause before a release is repeated, so that a listing can show its effect.
pub const RELEASE_RETRY: Duration = Duration::from_secs(60);

/// A server that has been idle for this long counts as created, unless its task reports a failure: some tasks report RETRY
/// forever, and an Account may give a wrong path for them. For another operation, an effect that does not show by then is not
/// awaited any more.
pub const IDLE_COUNTS_AS_DONE: Duration = Duration::from_secs(30);

/// Recheck of a server that the service is busy with for another reason.
pub const SERVER_BUSY_RECHECK: Duration = Duration::from_secs(30);

/// Pause before a failed read is repeated.
pub const UNREADABLE_RETRY: Duration = Duration::from_secs(20);

/// Time that must be left in a reconcile for a mutating call and its receipt: 60 s and 15 s.
pub const CALL_AND_RECEIPT: Duration = Duration::from_secs(75);

/// How often the apiserver is read about an object whose cache stays behind.
pub const STALE_CACHE_RECHECK: Duration = Duration::from_secs(5);

/// How long a status that another writer replaced is not written again after its last write.
pub const SAME_STATUS_REWRITE: Duration = Duration::from_secs(10);

/// Longest time for one read, including the wait for the request limit. A later answer is lost, and the read is repeated.
pub const OBSERVE_DEADLINE: Duration = Duration::from_secs(20);

/// How often a server is read whose release the service did not accept.
pub const UNTAKEN_RELEASE_RECHECK: Duration = Duration::from_secs(10);

/// How often a server is read whose listing has an open circuit breaker: only this read shows whether it is gone.
pub const OPEN_BREAKER_RECHECK: Duration = Duration::from_secs(60);

/// A service may show a new server a moment late. Before this time, the absence of a failed create's leftover is not believed.
pub const FAILED_CREATE_SHOWS_WITHIN: Duration = Duration::from_secs(10);

/// This long after the deletion of its object, a release is reported as overdue; it continues anyway.
pub const RELEASE_OVERDUE: Duration = Duration::from_secs(30 * 60);

/// An unknown state usually passes within this time: clients of the service wait this long for a stop or a restart, and a
/// migration takes minutes. After that a user has to look.
pub const UNKNOWN_STATE_PASSES_WITHIN: Duration = Duration::from_secs(15 * 60);

/// A started server shows its public address within this time, if it has one.
pub const ADDRESS_SHOWN_WITHIN: Duration = Duration::from_secs(5 * 60);

/// Shortest and longest pause between two reads of a server in a temporary state. In between, the pause is half of the time
/// waited so far.
pub const TEMPORARY_STATE_RECHECK_MIN: Duration = Duration::from_secs(2);
/// See [`TEMPORARY_STATE_RECHECK_MIN`].
pub const TEMPORARY_STATE_RECHECK_MAX: Duration = Duration::from_secs(60);

/// After this time a create is reported as overdue (clients of the service wait 10 to 30 minutes); slow queries continue.
pub const CREATE_OVERDUE: Duration = Duration::from_secs(30 * 60);

/// After this time an operation is reported as overdue; slow queries continue.
pub const OPERATION_OVERDUE: Duration = Duration::from_secs(15 * 60);

/// The same for a reinstall.
pub const REINSTALL_OVERDUE: Duration = Duration::from_secs(60 * 60);

/// Pause before a look-up without a match is repeated; the lists have their own pace.
pub const REFERENCE_NOT_FOUND_RETRY: Duration = Duration::from_secs(30);

/// Pause before a look-up that failed is repeated.
pub const REFERENCE_UNREAD_RETRY: Duration = Duration::from_secs(15);

/// Pauses before an operation that the service refused is repeated, the last one from then on, unless a user edits the spec
/// sooner. An image may be published again or a quota raised, and no event reports either. The pauses exceed the minute in which
/// a request that cannot be granted must cost next to nothing.
pub const RETRY_REFUSED: [Duration; 2] = [Duration::from_secs(75), Duration::from_secs(300)];

/// Pause after the service refused a reinstall even of a stopped server. Before its end, the server is not
/// stopped for it again unless the spec is edited: each try costs an outage.
pub const RETRY_REFUSED_AFTER_STOP: Duration = Duration::from_secs(24 * 3600);

/// How long an accepted stop before a reinstall may take before the power is cut. The disk is erased next, so the operating system
/// has little left to do.
pub const STOP_BEFORE_REINSTALL_GRACE: Duration = Duration::from_secs(30);

/// Pause before a failed read of a Secret is repeated: a recovery of the apiserver is no event of the Secret.
pub const SECRET_UNREAD_RETRY: Duration = Duration::from_secs(15);

/// Pause before an import is retried: no event reports a change at the service.
pub const IMPORT_RETRY: Duration = Duration::from_secs(60);

/// A server that was listed as ours this recently is not read again before its release: no service reuses an identifier within
/// seconds. Two listings at the short interval.
pub const LISTED_LATELY: Duration = Duration::from_secs(10);

/// Longest time for the read before a release, including the wait for the request limit, so that the reconcile has time left for
/// the release.
pub const READ_BEFORE_RELEASE: Duration = Duration::from_secs(5);

/// An edit is acknowledged within 0.5 s; a reconcile that takes longer than this waits for the service.
pub const ACKNOWLEDGE_AFTER: Duration = Duration::from_millis(200);

/// Longest pause between two tries to write an acknowledgement.
pub const ACKNOWLEDGE_RETRY_MAX: Duration = Duration::from_secs(5);

/// The call follows this soon after the acknowledgement, unless the watch shows the write sooner.
pub const CALL_AFTER_ACKNOWLEDGEMENT: Duration = Duration::from_millis(100);

/// A reconcile in progress may still complete a deletion: the watch often shows its last write before the apiserver's answer
/// arrives. A receipt that finds no object releases its server within this time.
pub const LAST_WRITE_UNDER_WAY: Duration = Duration::from_secs(5);

/// Pause between two reads that check whether an object is gone.
pub const ORPHAN_RECHECK: Duration = Duration::from_secs(15);

/// How long the end of a server that is not on record is remembered: longer than any listing lags.
pub const GONE_SERVER_REMEMBERED: Duration = Duration::from_secs(3600);

/// Shortest pause between queries: including the query and the read after it, an end is reported within 1.5 s.
pub const TASK_QUERY_MIN: Duration = Duration::from_millis(1200);

/// Longest pause between queries.
pub const TASK_QUERY_MAX: Duration = Duration::from_secs(60);

/// Shortest wait for a query, also if one is due that the request limit does not admit yet.
pub const OVERDUE_READ_RETRY: Duration = Duration::from_millis(200);

/// Longest pause after a failure of a dependency (the service or the apiserver is down), so that everything continues within 30 s
/// after it is back.
pub const DEPENDENCY_RETRY_MAX: Duration = Duration::from_secs(20);

/// A progress that ends within this time is not worth a write.
pub const PROGRESS_SHOWN_AFTER: Duration = Duration::from_secs(2);

/// The wait for the request limit is shown later: a whole fleet that is applied at once is done sooner than this, and a user who
/// waits longer wants to know why.
pub const QUEUED_SHOWN_AFTER: Duration = Duration::from_secs(10);

/// How long a progress with this reason must last before status shows it.
pub fn patience(reason: Reason) -> Duration {
    match reason {
        Reason::ClientRateLimited => QUEUED_SHOWN_AFTER,
        _ => PROGRESS_SHOWN_AFTER,
    }
}

/// How often an unconfirmed server is searched for in the listings, which costs no call.
pub const UNCONFIRMED_RECHECK: Duration = Duration::from_secs(20);

/// A server that was not observed for this long is unconfirmed: usually five regular listings. A short outage costs no write.
pub const CONFIRMED_WITHIN: Duration = Duration::from_secs(300);

/// A server that counted as gone and is listed after this time is not gone: longer than a listing lags.
pub const GONE_IS_CERTAIN_AFTER: Duration = Duration::from_secs(60);

/// How long the cache may lag behind our own write before the apiserver is read. Watches lag by seconds; a longer lag has another
/// cause.
pub const CACHE_CATCHES_UP_WITHIN: Duration = Duration::from_secs(10);
