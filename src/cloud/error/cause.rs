//! What lies beneath a request that brought no answer.

/// What lies beneath a request that brought no answer.
#[derive(Debug, thiserror::Error)]
pub(in crate::cloud) enum Cause {
    /// The network.
    #[error(transparent)]
    Network(reqwest::Error),
    /// A carrier in the same process.
    #[error(transparent)]
    Carrier(Lost),
    /// Other calls under way left no memory for its answer, for as long as it was to wait.
    #[error("the answers to other calls under way left no memory for this one")]
    NoRoom,
}

/// Why a [`Carrier`](crate::cloud::Carrier) brings nothing back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// No connection was opened: the service cannot have seen the request.
    #[error("no connection was opened")]
    NotSent,
    /// The connection broke: the service may have seen it.
    #[error("the connection broke")]
    Broken,
}
