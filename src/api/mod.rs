//! The two kinds as users write and read them, and the words that go with them. Nothing here talks to anyone.

#[expect(
    clippy::duplicated_attributes,
    reason = "printer columns look alike to the lint"
)]
mod account;
mod binding;
pub mod conditions;
mod instance;
mod marker;
pub mod names;
mod paths;

pub use account::{
    Account, AccountSpec, AccountStatus, KeyLoginPassword, RequestLimits, SecretKeyRef,
};
pub use binding::{Applied, Before, Binding, BindingError, OpenOperation, Speaks, Verb};
pub use instance::{
    AccountRef, Addresses, EndReason, FirewallRef, HistoryEntry, ImageRef, Instance, InstanceSpec,
    InstanceStatus, Login, OperationStatus, PackageRef, PowerState, Reinstall, Restart, SshKeyRef,
};
pub use marker::Marker;
pub use paths::PathOverrides;
