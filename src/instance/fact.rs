//! The result of a read.

use crate::cloud::Error;
use tokio::time::error::Elapsed;

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

impl<T> Fact<T> {
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::NotAsked | Self::Absent | Self::Unknown(_) => None,
        }
    }

    /// The fact that an answer of the service shows. Also returns whether the service refused the token.
    pub fn of(
        answer: Result<Result<T, Error>, Elapsed>,
        shows_absence: fn(&Error) -> bool,
    ) -> (Self, bool) {
        match answer {
            Ok(Ok(value)) => (Self::Known(value), false),
            Ok(Err(error)) if shows_absence(&error) => (Self::Absent, false),
            Ok(Err(error)) => (Self::Unknown(error.to_string()), error.is_unauthorized()),
            Err(_) => {
                let why = "the request limit left no room for a query";
                (Self::Unknown(why.to_owned()), false)
            }
        }
    }
}
