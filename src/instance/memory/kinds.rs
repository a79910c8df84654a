//! The kinds of values in a memory: attempts, calls, polls.

use crate::inventory::Attention;
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
