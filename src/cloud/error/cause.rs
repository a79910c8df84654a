//! The cause of a request without an answer.

/// The cause of a request without an answer.
#[derive(Debug, thiserror::Error)]
pub(in crate::cloud) enum Cause {
    #[error(transparent)]
    Network(reqwest::Error),
    /// A carrier in the same process.
    #[error(transparent)]
    Carrier(Lost),
    /// Other calls under way left no memory for its answer until its deadline.
    #[error("the answers to other calls under way left no memory for this one")]
    NoRoom,
}

/// The reason why a [`Carrier`](crate::cloud::Carrier) returns no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// No connection was opened: the service cannot have received the request.
    #[error("no connection was opened")]
    NotSent,
    /// The connection broke: the service may have received the request.
    #[error("the connection broke")]
    Broken,
}
