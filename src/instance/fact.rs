//! The result of a read.

use crate::session::Content;
use std::sync::Arc;

/// The result of a read.
#[derive(Clone, Debug, Default)]
pub enum Fact<T> {
    /// It was not read.
    #[default]
    NotAsked,
    Known(T),
    /// The service accepted the token and answered that it does not exist.
    Absent,
    Unknown(String),
}

/// The state of the connection Secret.
#[derive(Clone, Debug, Default)]
pub enum ConnectionFact {
    /// It was not read.
    #[default]
    NotAsked,
    /// It has the wanted content.
    Same,
    /// It must be created, or changed from this content.
    Differs(Option<Arc<Content>>),
    /// Another owner has it.
    NotOurs,
    /// It could not be read, or its wanted content is not known now.
    Unread,
}
