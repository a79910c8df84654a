//! The time constants of any controller, each with its reason.

use std::time::Duration;

/// Deadline of one call to the apiserver. An apiserver that needs longer counts as down.
pub const KUBE_CALL_DEADLINE: Duration = Duration::from_secs(15);

/// How long opening a connection to the apiserver may take. Much less than [`KUBE_CALL_DEADLINE`], so that an unreachable apiserver
/// shows early, and with its cause.
pub(super) const KUBE_CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// The apiserver ends a watch after this number of seconds, and the client gives up a silent connection 5 s later. So if a
/// connection dies silently, events are late by half a minute, including the start of another watch.
pub const WATCH_TIMEOUT_SECONDS: u32 = 20;

/// The value of [`WATCH_TIMEOUT_SECONDS`] for a watch that begins with an initial list. The list must complete in this time;
/// otherwise it is requested in pages.
pub(super) const WATCH_FIRST_TIMEOUT_SECONDS: u32 = 120;

/// Minimum time between the starts of two watches: if a watch is opened and closed at once, the client library reopens it
/// without a pause, since it sees no error.
pub(super) const WATCH_REOPEN_MIN: Duration = Duration::from_millis(500);

/// Longest wait for the next object or page of an initial list.
pub(super) const LISTING_STUCK_AFTER: Duration = Duration::from_secs(45);

/// How long a watch may show no sign of life: twice the longest time between two signs of a task that works, which is that of a
/// stuck initial list (`LISTING_STUCK_AFTER`). An idle stream (25 s) and the next request (15 s) take less.
pub const WATCH_SILENCE_MAX: Duration = Duration::from_secs(90);

/// Wait after the first failure of a watch, and twice as long after each further one. Jitter adds up to as much again.
pub(super) const WATCH_RETRY_FIRST: Duration = Duration::from_millis(500);

/// Longest wait after a failure of a watch: less than ten seconds with the jitter, so that the watch soon works again once the
/// apiserver does.
pub(super) const WATCH_RETRY_MAX: Duration = Duration::from_millis(4_500);

/// After this time without a failure the waits start again from the shortest. Nothing else shows success: an idle watch yields no
/// event, and an initial list may still fail after its first object.
pub(super) const WATCH_FAILURE_FORGOTTEN: Duration = Duration::from_secs(30);

/// Longest reconcile: longer than the longest mutating call (60 s) with the steps around it.
pub const RECONCILE_LIMIT: Duration = Duration::from_secs(120);

/// Longest wait of a reconcile for the rate limiter. Longer than a burst needs, and short enough to leave time for the record,
/// the call and the receipt.
pub const ADMISSION: Duration = Duration::from_secs(20);

/// When an object is reconciled again after a panic or an overrun. This is a defect of the operator, which waiting
/// seldom cures.
pub(super) const RECHECK_AFTER_DEFECT: Duration = Duration::from_secs(60);

/// First wait of an object that failed. A second is too short for users to notice, and longer than most temporary failures.
pub(super) const OBJECT_RETRY_FIRST: Duration = Duration::from_secs(1);

/// Longest wait of an object that failed, ± 20 %: a fix that causes no event is noticed within six minutes.
pub(super) const OBJECT_RETRY_MAX: Duration = Duration::from_secs(300);

/// A queue completes a round at least this often, as a heartbeat.
pub(super) const QUEUE_ROUND: Duration = Duration::from_secs(10);

/// A queue without a completed round for this time counts as stuck. Longer than [`RECONCILE_LIMIT`]: during a shutdown, only
/// the end of a reconcile counts as a round.
pub const QUEUE_SILENCE_MAX: Duration = Duration::from_secs(150);

/// The same Event of the same object is published again only after this time, unless another one came in between.
pub(super) const EVENT_REPEATED_AFTER: Duration = Duration::from_secs(300);

/// Time between two tests of the operator's own permissions: people change policies and roles. A test makes two requests for
/// each tested namespace and one more, one at a time.
pub(super) const RIGHTS_RECHECK: Duration = Duration::from_secs(60);

/// The time between two tests while a permission is excessive: a user who fixes it waits for the result.
pub(super) const EXCESSIVE_PERMISSIONS_RECHECK: Duration = Duration::from_secs(15);

/// How long a permission must stay excessive before it is reported. The apiserver enforces a policy a second or two after the
/// policy was applied, and an installation applies the policies and starts the operator together.
pub(super) const POLICY_IN_FORCE_AFTER: Duration = Duration::from_secs(3);

/// Time between two tests until then. Too long only means a later start.
pub(super) const POLICY_RECHECK: Duration = Duration::from_millis(500);

/// Longest wait for the first test, [`POLICY_IN_FORCE_AFTER`] included: a silent apiserver delays the start only this long.
pub(super) const RIGHTS_FIRST_CHECK_MAX: Duration = Duration::from_secs(5);

/// Wait after an accept that failed, mostly for lack of file descriptors or memory: other connections must end first.
pub(super) const ACCEPT_RETRY: Duration = Duration::from_millis(100);
