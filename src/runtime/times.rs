//! All times of what any controller needs, each with its reason.

use std::time::Duration;

/// Deadline of one call to the apiserver (design section 9). An apiserver that needs longer is down for our purposes.
pub const KUBE_CALL_DEADLINE: Duration = Duration::from_secs(15);

/// How long a connection to the apiserver may take to come about: a second try still fits into [`KUBE_CALL_DEADLINE`].
pub(super) const KUBE_CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// A watch with nothing to tell is ended by the server after this many seconds and noticed as half-open 5 s later: with the
/// time that another needs to begin, events are late by half a minute when a connection dies without a word.
pub const WATCH_TIMEOUT_SECONDS: u32 = 20;

/// The same of a watch that begins with what there is, which has to be told in that time, or is asked for in pages.
pub(super) const WATCH_FIRST_TIMEOUT_SECONDS: u32 = 120;

/// Between the beginnings of two watches: one that is opened and closed at once is opened again without a pause by the client
/// library, which sees no error in it.
pub(super) const WATCH_REOPEN_MIN: Duration = Duration::from_millis(500);

/// Longest wait for the next object or page of a listing.
pub(super) const LISTING_STUCK_AFTER: Duration = Duration::from_secs(45);

/// How long a watch may show no sign of life: idle for 25 s, a wait of 10 s, a request of 15 s, or a stuck listing and the
/// next; with something to spare.
pub const WATCH_SILENCE_MAX: Duration = Duration::from_secs(90);

/// A watch that failed waits this long the first time, and twice as long after each further failure.
pub(super) const WATCH_RETRY_FIRST: Duration = Duration::from_millis(500);

/// Longest wait of a watch that failed: ten seconds with the jitter, so that it goes on soon after the apiserver is back.
pub(super) const WATCH_RETRY_MAX: Duration = Duration::from_secs(8);

/// Failures of a watch that lie further back do not count. Success does not show otherwise: an idle watch that goes on says
/// nothing, and a listing says that it begins before it fails.
pub(super) const WATCH_FAILURE_FORGOTTEN: Duration = Duration::from_secs(30);

/// Longest reconcile (design section 9): longer than the longest mutating call (60 s) and what stands around it.
pub const RECONCILE_LIMIT: Duration = Duration::from_secs(120);

/// Longest wait of a reconcile for the request limit. Longer than a burst needs, and short enough that the reconcile has time
/// left for its record, its call and its receipt.
pub const ADMISSION: Duration = Duration::from_secs(20);

/// How soon an object is looked at again whose reconcile panicked or overran: its error is a defect of ours, so not often.
pub(super) const RECHECK_AFTER_DEFECT: Duration = Duration::from_secs(60);

/// First wait of an object that failed (design section 9). A second is shorter than anybody watches and longer than most hiccups.
pub(super) const OBJECT_RETRY_FIRST: Duration = Duration::from_secs(1);

/// Longest wait of an object that failed: a cause that was mended without an event is noticed within five minutes.
pub(super) const OBJECT_RETRY_MAX: Duration = Duration::from_secs(300);

/// How often a queue goes round at least, to show that it runs.
pub(super) const QUEUE_ROUND: Duration = Duration::from_secs(10);

/// How long a queue may not have gone round before it counts as stuck.
pub const QUEUE_SILENCE_MAX: Duration = Duration::from_secs(150);

/// The same Event of the same object is told again only after this time, unless another one came in between.
pub(super) const EVENT_REPEATED_AFTER: Duration = Duration::from_secs(300);

/// Between two looks at the operator's own rights: policies and roles are changed by people. A look costs less than ten requests,
/// and one alone at a time.
pub(super) const RIGHTS_RECHECK: Duration = Duration::from_secs(60);

/// The same while something is wrong: whoever mends it waits for it to be seen.
pub(super) const UNSAFE_RIGHTS_RECHECK: Duration = Duration::from_secs(15);

/// How long a right must stay allowed before it is reported. The apiserver puts a policy in force a second or two after the policy
/// was applied, and an installation applies the policies and starts the operator together.
pub(super) const POLICY_IN_FORCE_AFTER: Duration = Duration::from_secs(3);

/// Between two tries meanwhile. Too long only means a later start.
pub(super) const POLICY_RECHECK: Duration = Duration::from_millis(500);

/// Longest wait for the first answers, with that time in it, so a silent apiserver delays the start only this long.
pub(super) const RIGHTS_FIRST_CHECK_MAX: Duration = Duration::from_secs(5);

/// How long it is believed that somebody may read metrics: a scraper's next visit costs the apiserver nothing, and rights that
/// were taken away last no longer than this.
pub(super) const ACCESS_BELIEVED: Duration = Duration::from_secs(60);

/// How long it is believed that somebody may not: whoever was just allowed to is not kept waiting.
pub(super) const ACCESS_REFUSAL_BELIEVED: Duration = Duration::from_secs(10);

/// How long a TLS handshake may take, and how long the head of a request: whoever asks has it ready.
pub(super) const REQUEST_HEAD_DEADLINE: Duration = Duration::from_secs(5);

/// After this time a connection takes no further request. Longer than most scrapers' interval, so that they can keep theirs.
pub(super) const CONNECTION_LIFE: Duration = Duration::from_secs(75);

/// A connection that takes no further request is cut after this time, also in the middle of an answer that nobody reads.
pub(super) const LAST_ANSWER_DEADLINE: Duration = Duration::from_secs(10);

/// The accept failed for want of descriptors or memory: others have to give some back first.
pub(super) const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How often the files of a certificate are looked at, when somebody connects.
pub(super) const CERTIFICATE_RECHECK: Duration = Duration::from_secs(10);
