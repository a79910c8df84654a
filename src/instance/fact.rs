//! What became of looking at one thing.

use crate::session::Content;
use std::sync::Arc;

/// What became of looking at one thing.
#[derive(Clone, Debug, Default)]
pub enum Fact<T> {
    /// Nobody asked.
    #[default]
    NotAsked,
    /// It is there.
    Known(T),
    /// The service, asked with a token it takes, says that there is no such thing.
    Absent,
    /// It could not be found out.
    Unknown(String),
}

/// What is known of the connection Secret.
#[derive(Clone, Debug, Default)]
pub enum ConnectionFact {
    /// Nobody asked.
    #[default]
    NotAsked,
    /// It says what it is to say.
    Same,
    /// It has to be made, or changed from this.
    Differs(Option<Arc<Content>>),
    /// It is somebody else's.
    NotOurs,
    /// It could not be read, or what is to stand in it is not known now.
    Unread,
}
