//! The parts of a memory, each with one owner: the stage that decides what it means. Stages before and after it may note there
//! what they learned.

use crate::api::conditions::Reason;
use crate::api::{InstanceStatus, Operation, Verb};
use crate::cloud::ServerId;
use crate::instance::memory::kinds::{
    Attempt, Auxiliary, Connected, Gone, LoginMetadata, Orphan, Passwords, Pause, Poll, Power,
    RecordText, ReleaseCall, Wants, WrittenStatus,
};
use crate::instance::memory::version::Newest;
use crate::instance::passing::Passing;
use crate::runtime::Backoff;
use litemap::LiteMap;
use std::sync::Arc;
use tokio::time::Instant;

/// How the object came here and what was bought for it, as records told. Owned by what reads and writes records.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The object appeared while we watched: no earlier process can have bought anything for it.
    pub born_here: bool,
    /// First sight of it in this process.
    pub first_seen: Instant,
    /// Since when it has been without a record of ours.
    pub recordless_since: Option<Instant>,
    /// An intent was, or may have been, written for it.
    pub ever_intended: bool,
    /// What the newest record that was seen on it names: its server, and the Account that it is of.
    pub recorded: Option<Orphan>,
    /// How many servers were bought in the place of others, by the records that were seen on it, or written.
    pub recreated: u32,
    /// Nothing of it is left: its server is confirmed gone, or there never was one.
    pub is_finished: bool,
    /// The record of the newest purchase that this process announced, as it was written: should the cluster's state go back to
    /// before it, it is written once more.
    pub purchase: Option<Box<RecordText>>,
    /// Since when the object is being deleted.
    pub releasing_since: Option<Box<Instant>>,
    /// When this process first read a status with the reason `BoughtElsewhere`.
    pub elsewhere_since: Option<Box<Instant>>,
}

/// What was called, by whom, and what became of it. Owned by `act`.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// Attempts by number. A vector makes room for four where it gets its first, so they do not stand in it.
    pub attempts: LiteMap<u32, Box<Attempt>>,
    /// Releases by server.
    pub releases: LiteMap<ServerId, ReleaseCall>,
    /// Servers that are gone, and since when that is known.
    pub gone: LiteMap<ServerId, (Gone, Instant)>,
    /// The operation on the server that is under way, as status told it last: should status be lost, it is not forgotten.
    pub followed: Option<Box<Operation>>,
    /// How the operator itself stopped or started the server within the newest attempt since its call was last made.
    pub auxiliary: Option<Box<Auxiliary>>,
    /// The attempt for which the operator stopped the server.
    pub stopped_for: Option<i64>,
    /// The attempt for which the operator cut the server's power, or may have.
    pub cut_for: Option<i64>,
    /// The service has shown an operation on the server since the newest attempt was sent.
    pub pending_seen: bool,
    /// A digest of the password that the newest attempt sends, and of the one that the server has.
    pub password: Passwords,
    /// The newest start or stop that ended well.
    pub(super) power: Option<Box<Power>>,
    /// Wishes that wait, by verb.
    pub pauses: LiteMap<Verb, Pause>,
    /// When the newest operation on a server that was there ended.
    pub operated: Option<Instant>,
}

/// What the service showed, and when it was asked. Owned by `observe`.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    /// The task that is being asked for.
    pub poll: Option<Box<Poll>>,
    /// The last time that the detail was asked for.
    pub observed_at: Option<Instant>,
    /// When the service showed last whether the server is there, by itself or in a listing.
    pub confirmed: Option<Instant>,
    /// The last detail could not be read.
    pub unread: bool,
    /// Nor did the question reach the service: no connection opened.
    pub unreached: bool,
    /// The last detail showed the server off and at rest.
    pub was_off: bool,
    /// The last detail that was answered said that there is no such server.
    pub not_found: bool,
    /// Since when every detail that was answered said so.
    pub missing_since: Option<Instant>,
    /// Since when the detail shows a server at rest whose operation is not known to have ended.
    pub at_rest_since: Option<Instant>,
    /// What the server shows and what usually passes by itself.
    pub passing: Option<Box<Passing>>,
    /// What the listing showed when the detail was read last: a row that a service words differently from its detail is
    /// read once, not at every listing.
    pub led_by: Option<u64>,
    /// The credential under which the recorded server was last listed: its account is that one's.
    pub shown_by: Option<Arc<str>>,
    /// The token of spec.reconcile that is not carried out yet, and when it was first seen.
    pub reconcile: Option<Box<(String, Instant)>>,
}

/// When it is its turn again. Owned by `next` and `subscription`.
#[derive(Clone, Debug, Default)]
pub struct Pacing {
    /// Failures in a row.
    pub backoff: Backoff,
    /// No mutating call before this instant.
    pub not_before: Option<Instant>,
    /// What went wrong last, in its words: the same is logged once.
    pub trouble: Option<Box<str>>,
    /// What the last plan wanted of the listing.
    pub wants: Wants,
    /// Since when the listing is read at the pace of running operations for this object.
    pub busy_since: Option<Instant>,
    /// The session whose listings look out for this object.
    pub subscribed: Option<u64>,
}

/// The Secrets of the object as they were last looked at or written. Owned by `managed_secrets`.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    /// Metadata of the generated login Secret.
    pub login: Option<Box<LoginMetadata>>,
    /// The connection Secret as it was last looked at or written.
    pub connection: Option<Box<Connected>>,
}

/// What was written to the object, and which of its versions is the newest. Owned by `report`, `acknowledge` and the watch, which
/// all go on while another reconcile stage waits: a look never writes it back.
#[derive(Clone, Debug, Default)]
pub struct Statuses {
    /// The newest resourceVersion that is known: an older object in the cache is not acted upon.
    pub(super) newest: Option<Newest>,
    /// What was last said in status.
    pub written: Option<Box<WrittenStatus>>,
    /// A status that was sent, and whose answer was lost: it may stand.
    pub unanswered: Option<Box<WrittenStatus>>,
    /// The generation of the spec that was acknowledged before it was acted upon.
    pub acknowledged: Option<i64>,
    /// The reconcile itself writes status: nothing is said beside it, which the apiserver would refuse, or which would have it
    /// refused.
    pub is_being_written: bool,
    /// When a status was last written over which somebody else had put in the place of what was said.
    pub conflict: Option<Instant>,
    /// No status is written before this instant: one could not be.
    pub unreported_until: Option<Instant>,
    /// A progress that is shown only when it lasts, and since when it stands.
    pub held: Option<(Reason, Instant)>,
    /// When it was last said by a status of its own that the server is confirmed, or is not.
    pub synced: Option<Instant>,
    /// The generation of the spec that the watch showed last, and since when, if this process saw the edit and nothing told its
    /// end yet. For metrics alone.
    pub(super) edit: Option<(i64, Option<Instant>)>,
}

impl Origin {
    pub(super) fn new(born_here: bool, now: Instant) -> Self {
        Self {
            born_here,
            first_seen: now,
            recordless_since: None,
            ever_intended: false,
            recorded: None,
            recreated: 0,
            is_finished: false,
            purchase: None,
            releasing_since: None,
            elsewhere_since: None,
        }
    }

    /// Notes when a status reports that another cluster bought the server. The transition time of the condition may be older than
    /// its reason, so it is no evidence.
    pub fn read_status(&mut self, status: &InstanceStatus, now: Instant) {
        let reason = Reason::BoughtElsewhere.as_str();
        if status.conditions.iter().any(|it| it.reason == reason) {
            self.elsewhere_since.get_or_insert_with(|| Box::new(now));
        }
    }
}
