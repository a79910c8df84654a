//! The kinds of values in a memory: attempts, calls, polls.

use crate::api::conditions::Reason;
use crate::api::{PurchaseRecord, SecretTemplate, Verb};
use crate::cloud::{ServerId, TaskId};
use crate::inventory::Attention;
use crate::runtime::compressed::Compressed;
use crate::runtime::strings::shared;
use jiff::Timestamp;
use std::sync::Arc;
use tokio::time::Instant;

/// Digests of passwords, keyed with a random value of this process. They only show whether a changed Secret holds another
/// password.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passwords {
    /// The digest of the password in the current attempt.
    pub sent: Option<[u8; 16]>,
    /// The digest of the server's password.
    pub current: Option<[u8; 16]>,
}

/// Metadata of a generated login Secret, as this process read or wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginMetadata {
    /// The version with this metadata, see [`named_version`](crate::instance::login::named_version).
    pub version: String,
    /// Since when the password is in force; None if the annotation cannot be parsed.
    pub rotated_at: Option<Timestamp>,
    /// The template whose labels and annotations the Secret has, or which this process wrote last.
    pub template: Option<SecretTemplate>,
}

/// The wanted content of the connection Secret, with the version of the login Secret in place of the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Name of the Secret.
    pub name: String,
    /// The server's address.
    pub host: String,
    pub port: &'static str,
    /// The account for logins.
    pub username: String,
    /// The key pair for logins, if the login is by key.
    pub key: Option<String>,
    /// The version of the login Secret whose password is in force, if the login is by password.
    pub secret: Option<String>,
    /// Labels and annotations for the Secret.
    pub template: Option<SecretTemplate>,
}

/// A connection Secret that was read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connected {
    pub wanted: Connection,
    /// Its UID and resourceVersion at that time.
    pub version: Option<String>,
    /// Why its content differs.
    pub trouble: Option<ConnectionTrouble>,
}

/// Why a connection Secret does not have the wanted content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionTrouble {
    /// The message for users, with the remedy.
    pub words: String,
    /// When to retry; None if only another version of the Secret can help.
    pub until: Option<Instant>,
}

/// The outcome of the one call of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallState {
    /// This process wrote the intent, and sent nothing.
    NotSent,
    /// The service refused the call, or it was never sent: it had no effect.
    Refused {
        /// The service's message.
        message: String,
        reason: Reason,
    },
    /// The call may have taken effect.
    Unknown,
    Accepted {
        id: ServerId,
        /// Its task; some answers name none.
        task: Option<TaskId>,
    },
}

/// An attempt, as far as this process knows it.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The nonce of its intent.
    pub nonce: String,
    /// The Account that it was made with.
    pub account: Arc<str>,
    /// The attempt's operation.
    pub verb: Verb,
    /// This process wrote the intent.
    pub is_own: bool,
    /// For a purchase: no operation has followed it. This process saw it begin or run, and status has not shown its end.
    pub is_newest: bool,
    /// How often its call was made.
    pub tries: u32,
    /// When this term first saw the attempt, or when our own call ended, whichever is later. The settling time counts from here.
    pub since: Instant,
    /// Why the outcome of the call is unknown, in the service's words, if this process made the call.
    pub doubt: Option<Box<str>>,
    /// The outcome of the call, as far as this process knows; `Unknown` if it did not write the intent.
    pub call_state: CallState,
}

impl Attempt {
    /// The attempt of a record that was just written, for a purchase or for an existing server.
    pub fn of_purchase(record: &PurchaseRecord, call_state: CallState) -> Self {
        Self {
            doubt: None,
            nonce: record.nonce.clone(),
            account: shared(&record.account),
            verb: Verb::Create,
            is_own: call_state == CallState::NotSent,
            is_newest: true,
            tries: 0,
            since: Instant::now(),
            call_state,
        }
    }
}

/// An auxiliary call within an attempt that stopped or started the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auxiliary {
    /// Start or Stop.
    pub verb: Verb,
    /// When it was answered.
    pub at: Instant,
    /// The error, for users.
    pub trouble: Option<String>,
    pub is_unknown: bool,
    /// The service answered, and refuses the call in the server's current state.
    pub is_refused: bool,
}

/// A release call of this process.
#[derive(Clone, Debug)]
pub struct ReleaseCall {
    /// When it was answered.
    pub at: Instant,
    /// The task, if the answer named one.
    pub task: Option<TaskId>,
    /// The service accepted the last call.
    pub accepted: bool,
    /// The error, for users.
    pub trouble: Option<String>,
    /// The outcome of the last call is unknown.
    pub is_unknown: bool,
    /// The earliest time for the next call.
    pub not_before: Option<Instant>,
}

/// Why a server counts as gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The task of its release succeeded.
    Released,
    /// The service does not know it.
    NotFound,
}

/// The listing passes that the last plan requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// How often the listing should be read.
    pub attention: Attention,
    /// A pass that begins after this instant.
    pub pass_after: Option<Instant>,
    /// How many of them, in a row.
    pub passes: u8,
}

/// The record of a purchase that this process announced, compressed because it is hardly ever read.
#[derive(Clone, Debug)]
pub struct RecordText {
    /// The number of its attempt.
    pub attempt: u32,
    text: Compressed,
}

impl RecordText {
    pub fn of(record: &PurchaseRecord) -> Self {
        Self {
            attempt: record.attempt,
            text: Compressed::of(&record.to_text()),
        }
    }

    pub fn record(&self) -> Option<PurchaseRecord> {
        PurchaseRecord::parse(&self.text.text().ok()?).ok()
    }
}

/// How often the cluster's state was found to have gone back in time, and when that last happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    pub(super) epoch: u64,
    pub(super) since: Option<Instant>,
}
