//! The service: wire types, the client, its errors, paths and their defaults.
//!
//! Outside this module, a status code, a header or the text of an error decides nothing but a pause or a message. A caller passes
//! identifiers and gets values, or an [`Error`] that answers two questions: is a retry worthwhile, and may the call have taken
//! effect?

mod address;
mod answer;
mod bounds;
mod budget;
mod call;
mod client;
mod cloud_call;
mod decode;
mod egress;
mod endpoint;
mod error;
mod health;
mod http;
mod ids;
mod offers;
pub mod password;
mod paths;
mod rate_limiter;
mod server_fields;
mod times;
mod tls;
mod transport;
mod trust;
mod wire;

pub use address::{Refused, Target};
pub use budget::{Budget, NoMemory, RowMemory};
pub use call::{Observer, Permit};
pub use client::Client;
pub use cloud_call::CloudCall;
pub use endpoint::{AllowedEndpoints, EndpointPattern, PatternError, check_endpoint};
pub use error::{BuildError, Error};
pub use health::{Abnormal, AccountHealth, Doubt, Health, Trouble};
pub use http::{Http, Route, check_proxy, goes_in_the_clear};
pub use ids::{FirewallId, ImageId, KeyId, PackageCode, Place, ServerId, TaskId};
pub use offers::{IdAndName, List, Offer};
pub use paths::Paths;
pub use rate_limiter::{CallPriority, Limits, RateLimiter, WaitObserver};
pub use server_fields::ServerFields;
pub use tls::{Tls, TlsError, TlsPem};
pub use transport::{Carried, Carrier, CarrierError};
pub use trust::Trust;
pub use wire::{
    CreateAccepted, CreateRequest, Detail, ListPage, PasswordRequest, ReinstallRequest,
    ServerLogin, ServerPower, TaskState,
};
