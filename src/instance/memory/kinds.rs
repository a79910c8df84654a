//! The kinds of values in a memory: attempts, calls, polls.

use crate::api::SecretTemplate;
use crate::inventory::Attention;
use jiff::Timestamp;
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
