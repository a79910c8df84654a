//! What is remembered: attempts, calls, queries, wishes.

use crate::api::conditions::Reason;
use crate::api::{Applied, OperationEnd, PurchaseRecord, SecretTemplate, Verb};
use crate::cloud::{ServerId, TaskId, TaskState};
use crate::inventory::Attention;
use crate::runtime::packed::{Packed, Packer};
use jiff::Timestamp;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use tokio::time::Instant;

/// Digests of passwords, keyed by a random word of this process: they tell whether a Secret that was touched holds another
/// password, and nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passwords {
    /// Of the attempt that is under way.
    pub sent: Option<[u8; 16]>,
    /// Of the server.
    pub current: Option<[u8; 16]>,
}

/// Metadata of a generated login Secret, as this process read or wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginMetadata {
    /// The version with this metadata, see [`named_version`](crate::instance::login::named_version).
    pub version: String,
    /// Since when the password is in force; none where the annotation cannot be read.
    pub rotated_at: Option<Timestamp>,
    /// The template whose labels and annotations the Secret has, or was last given by this process.
    pub template: Option<SecretTemplate>,
}

/// What is to stand in the connection Secret, but for the password, which is told by the version of its Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Name of the Secret.
    pub name: String,
    /// Where the server is.
    pub host: String,
    /// Where it is logged in to.
    pub port: &'static str,
    /// As whom.
    pub username: String,
    /// With which key pair, if not with a password.
    pub key: Option<String>,
    /// The version of the login Secret whose password is in force, if it is logged in to with one.
    pub secret: Option<String>,
    /// Labels and annotations for the Secret.
    pub template: Option<SecretTemplate>,
}

/// A connection Secret that was looked at or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connected {
    /// What it was to say.
    pub wanted: Connection,
    /// Its UID and resourceVersion then.
    pub version: Option<String>,
    /// Why it does not say so.
    pub trouble: Option<ConnectionTrouble>,
}

/// Why a connection Secret is not as it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionTrouble {
    /// For people, with the remedy.
    pub words: String,
    /// Tried again no sooner; none where only another version of the Secret changes anything.
    pub until: Option<Instant>,
}

/// What became of the one POST of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallState {
    /// The intent is ours and nothing was sent.
    NotSent,
    /// The service refused it, or it never left: nothing was done.
    Refused {
        /// What the service said.
        message: String,
        /// What that means for the conditions.
        reason: Reason,
    },
    /// It may have happened.
    Unknown,
    /// The service took it.
    Accepted {
        /// The server.
        id: ServerId,
        /// Its task; some answers name none.
        task: Option<TaskId>,
    },
}

/// An attempt as this process has seen it.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The nonce of its intent.
    pub nonce: String,
    /// The Account that it was made with.
    pub account: Arc<str>,
    /// What it is to do.
    pub verb: Verb,
    /// This process wrote its intent.
    pub is_own: bool,
    /// Of a purchase: nothing was done to its server since. This process saw it begin or run, and status has not told its end.
    pub is_newest: bool,
    /// How often its call was made.
    pub tries: u32,
    /// This term's first sight of it, or the end of our own POST, the later: its settling time counts from here.
    pub since: Instant,
    /// Why the outcome of its call is unknown, in the service's words, where this process made the call.
    pub doubt: Option<Box<str>>,
    /// What became of it, as far as this process knows; an intent that it did not write is `Unknown`.
    pub call_state: CallState,
}

/// A wish that ended badly: the same is not asked for again before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Its time.
    pub until: Instant,
    /// Generation of the spec that asked for it.
    pub generation: i64,
    /// What the server was to be.
    pub target: Applied,
    /// How it ended; none where the server does not stay as it is put.
    pub end: Option<OperationEnd>,
}

/// A start or stop that ended well, and how often that happened lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Power {
    pub(super) verb: Verb,
    pub(super) at: Instant,
    pub(super) times: usize,
}

/// A call within an attempt that stopped or started the server for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auxiliary {
    /// Start or Stop.
    pub verb: Verb,
    /// When it was answered.
    pub at: Instant,
    /// What stood in the way, for people.
    pub trouble: Option<String>,
    /// Nobody knows whether it was carried out.
    pub is_unknown: bool,
    /// The service answered, and does not want it in the state that the server is in.
    pub is_refused: bool,
}

/// A release call of this process.
#[derive(Clone, Debug)]
pub struct ReleaseCall {
    /// When it was answered.
    pub at: Instant,
    /// The task, if the answer named one.
    pub task: Option<TaskId>,
    /// The last call was answered (not merely sent).
    pub accepted: bool,
    /// What stood in the way, for people.
    pub trouble: Option<String>,
    /// Nobody knows whether the last call was carried out.
    pub is_unknown: bool,
    /// Not to be called again before this instant.
    pub not_before: Option<Instant>,
}

/// Why a server is taken for gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The task of its release succeeded.
    Released,
    /// The service does not know it.
    NotFound,
}

/// When a task was asked for.
#[derive(Clone, Debug)]
pub struct Poll {
    /// The task.
    pub task: TaskId,
    /// When it began, as far as this process knows.
    pub since: Instant,
    /// Whether this process saw it begin, so that its duration can be learnt.
    pub whole: bool,
    /// The last query.
    pub last: Option<Instant>,
    /// How it ended; then nobody asks again.
    pub ended: Option<Ended>,
    /// What the listing showed at the last query: each sight of it leads to one query.
    pub led_by: Option<u64>,
    /// Queries tell nothing.
    pub odd: Option<Odd>,
}

/// The service answers queries of a task with an error, or with a word that nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Odd {
    /// For how long, without an answer that tells in between.
    pub since: Instant,
    /// What it said last.
    pub why: String,
}

/// How the queries of a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The service said so.
    As(TaskState),
    /// The service does not know the task any more.
    Forgotten,
}

/// A listing pass that the last plan asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// How often the listing is to be read.
    pub attention: Attention,
    /// A pass that begins after this instant.
    pub pass_after: Option<Instant>,
    /// How many of them, in a row.
    pub passes: u8,
}

/// The record of a purchase that this process announced: as packed text, since it is hardly ever read.
#[derive(Clone, Debug)]
pub struct RecordText {
    /// The number of its attempt.
    pub attempt: u32,
    text: Packed,
}

impl RecordText {
    /// Of this record.
    pub fn of(record: &PurchaseRecord) -> Self {
        static RECORDS: LazyLock<Mutex<Packer>> = LazyLock::new(Mutex::default);
        let mut packer = RECORDS.lock().unwrap_or_else(PoisonError::into_inner);
        let text = packer.pack(record.to_text().as_bytes());
        Self {
            attempt: record.attempt,
            text,
        }
    }

    /// The record, as it was written.
    pub fn record(&self) -> Option<PurchaseRecord> {
        let text = String::from_utf8(self.text.unpack().ok()?).ok()?;
        PurchaseRecord::parse(&text).ok()
    }
}

/// A status that this process wrote.
#[derive(Clone, Debug)]
pub struct WrittenStatus {
    /// When.
    pub at: Instant,
    /// Of which generation.
    pub generation: i64,
    /// The reason.
    pub reason: Reason,
    /// In these words.
    pub message: String,
    /// Whether it said that waiting does not help.
    pub is_stalled: bool,
    /// The server, if it told one.
    pub id: Option<String>,
}

/// What may be left of an Instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// Its server, if its identifier was known.
    pub id: Option<ServerId>,
    /// The name of the Account that it was bought with.
    pub account: Arc<str>,
    /// The service took its release, and it is not known to be gone.
    pub is_leaving: bool,
}

/// How often, and when last, the cluster's state was found to have gone back in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    pub(super) epoch: u64,
    pub(super) since: Option<Instant>,
}
