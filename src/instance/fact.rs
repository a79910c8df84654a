//! The result of a read.

/// The result of a read.
#[derive(Clone, Debug, Default)]
pub enum Fact<T> {
    /// It was not read.
    #[default]
    NotRead,
    Known(T),
    /// The service accepted the token and answered that it does not exist; for a package on sale, the list lacks it.
    Absent,
    Unknown(String),
}

impl<T> Fact<T> {
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::NotRead | Self::Absent | Self::Unknown(_) => None,
        }
    }
}
