//! The Secrets of an Instance: the login that its spec names, and the Secrets that the operator writes for it.
//!
//! For a plan, this module reads the login's Secret, checks the password, and returns only versions and other metadata. It returns
//! the password itself right before the call that contains it, and the caller drops it after that call.
//!
//! The operator creates a Secret only if none of that name exists, and changes one only if it belongs to the Instance and is
//! still in the version that was read.

mod connection;
mod generated;
mod login;
mod ownership;
mod plan;
mod writing;

pub use connection::{
    Connection, ConnectionLogin, ConnectionTrouble, KnownConnection, connect, reported_account,
};
pub use generated::GeneratedSecret;
pub use login::{Generated, KnownLogin, LoginFact, LoginMetadata, LoginSecret, named_version};
pub use ownership::SecretOwner;
pub use plan::{Chore, Upkeep, upkeep};
pub use writing::{SecretClient, SecretNotWritten};

/// The Secrets of an Instance, as this process last read or wrote them.
#[derive(Clone, Debug, Default)]
pub struct KnownSecrets {
    /// Metadata of the generated login Secret.
    pub login: Option<Box<LoginMetadata>>,
    pub connection: Option<Box<KnownConnection>>,
}

#[cfg(test)]
mod tests;
