//! The parts of a memory. The owners of a part decide what its values mean; other stages may record what they learned.

use crate::api::conditions::Reason;
use crate::instance::memory::look::{Look, Poll};
use crate::runtime::Backoff;
use std::sync::Arc;
use tokio::time::Instant;

/// How the object and its purchases came about, according to its records. Owned by the code that reads and writes records.
#[derive(Clone, Debug)]
pub struct Origin {
    pub birth: Birth,
    /// When this term first saw the object, when the object lost its record, or when the cluster's state went back, whichever is
    /// latest.
    pub since: Instant,
    /// How many servers replaced others, according to the records that this process read or wrote. A restored etcd has older
    /// records.
    pub recreated: u32,
    /// Since when status has reported to this process that another cluster recorded the server (`RecordedByOtherCluster`).
    pub other_cluster_reported_since: Option<Box<Instant>>,
}

/// How an object came here, and with that, whether a server may have been bought for it. At the beginning of a term, no object
/// that the process knows already is `InThisTerm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Birth {
    /// It appeared in this term, and this process has made no call for it: no process can have bought anything for it.
    InThisTerm,
    /// It was there before, and nothing shows that an intent was ever written.
    Earlier,
    /// It has a record of ours.
    Recorded,
    /// It has no record, and an intent was written, or may have been.
    Intended,
}

/// The service's answers, and when they were requested. Owned by `observe`.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    /// The task that is being queried.
    pub poll: Option<Box<Poll>>,
    /// The last read of the recorded server.
    pub look: Look,
    /// When the service last showed whether the server exists, in its detail or in a listing.
    pub confirmed: Option<Instant>,
    /// The credential under which the recorded server was last listed; it identifies the server's account.
    pub shown_by: Option<Arc<str>>,
    /// The token of `spec.reconcile` whose read is pending, and when it was first seen.
    pub reconcile: Option<Box<(String, Instant)>>,
}

/// When the object is due again. Owned by `next` and `subscription`.
#[derive(Clone, Debug, Default)]
pub struct Pacing {
    pub backoff: Backoff,
    /// When a call that was refused, or a purchase whose intent was not written, may be tried again. An edit of the spec ends the
    /// pause after a refused create.
    pub not_before: Option<Instant>,
    /// Since when the listing is read at the short interval for this object.
    pub busy_since: Option<Instant>,
}

/// Writes to the object, and its newest known version. Owned by `report`, and by `acknowledge` and the watch, which continue while
/// a stage waits. An observation therefore never overwrites this part.
#[derive(Clone, Debug, Default)]
pub struct StatusWrites {
    /// The newest resourceVersion that the watch showed or that answered our own write, and since when it is known. An older
    /// object in the cache is not acted upon. Versions are integers that only grow, except in a restore of etcd.
    pub newest_version: Option<(u64, Instant)>,
    /// The generation that the last status of this process reported, or whose report was given up: no call waits for either.
    pub acknowledged: Option<i64>,
    /// The progress that status does not show yet, and since when it has lasted.
    pub progress: Option<(Reason, Instant)>,
    pub pause: Option<StatusPause>,
}

/// A pause of status writes. It begins when a status is written, and when the report of one fails.
#[derive(Clone, Copy, Debug)]
pub struct StatusPause {
    pub until: Instant,
    /// The digest of the status that was written, which is not written again until then; None after a failed report: no status is
    /// written until then.
    pub digest: Option<u64>,
}

impl Pacing {
    /// A call was accepted, or a server is known to be gone.
    pub fn progressed(&mut self) {
        self.backoff.reset();
        self.not_before = None;
    }
}
