//! The service: wire types, one client, errors on two axes, paths with their defaults.
//!
//! Nothing outside this room looks at a status code, a header or the text of an answer. A caller hands in
//! identifiers and gets back values, or an [`Error`] that answers two questions: is it worth trying again, and
//! may the call have happened all the same?

mod answer;
mod call;
mod client;
mod error;
mod gate;
mod ids;
mod offers;
pub mod password;
mod paths;
mod transport;
mod wire;

pub use call::Observer;
pub use client::Client;
pub use error::{BuildError, Error, Operation};
pub use gate::{Gate, Lane, Limits, Permit};
pub use ids::{FirewallId, ImageId, KeyId, PackageCode, Place, ServerId, TaskId};
pub use offers::{Firewall, Image, Key, Offer, Offers, Package, Region, Server, Zone};
pub use paths::Paths;
pub use transport::{Carried, Carrier, Http, Lost};
pub use wire::{
    Accepted, CreateAccepted, CreateRequest, Detail, Login, Page, PasswordRequest,
    ReinstallRequest, TaskReport, TaskState,
};
