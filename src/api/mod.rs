//! The two kinds as users write and read them, and the types that belong to them. This module makes no calls.

#[expect(
    clippy::duplicated_attributes,
    reason = "printer columns look alike to the lint"
)]
mod account;
mod account_status;
mod cause;
pub mod condition_list;
pub mod conditions;
mod definition;
pub mod detail;
mod import;
mod instance;
mod marker;
pub mod names;
mod operation;
mod paths;
mod policies;
mod printable;
mod purchase_record;
mod reasons;
pub mod references;
mod secrets;
mod transport;
pub mod valid;

pub use account::{
    Account, AccountSpec, CreateRate, Imports, KeyLoginPassword, PasswordSpecialCharacters,
    RequestLimits, default_missing_codes,
};
pub use account_status::{
    AccountStatus, LimitUse, LimitsStatus, PlaceInventory, UnownedServer, WaitingInstance,
};
pub use cause::Cause;
pub use definition::definitions;
pub use import::Import;
pub use instance::{
    AccountRef, Addresses, HistoryEntry, Instance, InstanceSpec, InstanceStatus, Login,
};
pub use marker::Marker;
pub use operation::{
    Applied, Before, EndReason, Operation, OperationEnd, PowerState, Retry, Stage, Verb,
};
pub use paths::{OverridePath, PathOverrides};
pub use policies::{
    DeletionPolicy, ForceStop, Lasts, ManagementPolicy, OnExternalDeletion, Pause, Reconcile,
    Reinstall, ReinstallPolicy, Restart, StopPolicy, resync_period,
};
pub use printable::{counted, is_hidden, printable};
pub use purchase_record::{BindingError, PurchaseRecord, Refusal, Speaks, attempt_number};
pub use references::{
    ChargeMode, FirewallRef, ImageKind, ImageRef, PackageRef, Reference, Resolved,
    ResolvedReference, SshKeyRef,
};
pub use secrets::{ConnectionSecretRef, GeneratedLogin, PASSWORD, SecretKeyRef, SecretTemplate};
pub use transport::{CaBundle, ConfigMapKeyRef, ProxySettings, SecretRef, TlsSettings};
