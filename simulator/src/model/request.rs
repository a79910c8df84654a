//! The requests that the service accepts, as they arrived: nothing is validated yet.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::secret::Secret;

/// An operation that changes an instance and takes time.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// Deploys a new instance.
    Create,
    /// Releases an instance.
    Release,
    /// Powers off.
    Stop,
    /// Powers on.
    Start,
    /// Powers off and on.
    Restart,
    /// Sets the login password.
    Password,
    /// Replaces the operating system.
    Reinstall,
}

impl Verb {
    /// Every verb.
    pub const ALL: [Self; 7] = [
        Self::Create,
        Self::Release,
        Self::Stop,
        Self::Start,
        Self::Restart,
        Self::Password,
        Self::Reinstall,
    ];

    /// The value of `ecsPendingStatus` while the operation runs.
    #[must_use]
    pub const fn pending(self) -> &'static str {
        match self {
            Self::Create => "CREATING",
            Self::Release => "RELEASING",
            Self::Stop => "STOPPING",
            Self::Start => "STARTING",
            Self::Restart => "RESTARTING",
            Self::Password => "MODIFYING_PASSWORD",
            Self::Reinstall => "REINSTALLING",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Release => "release",
            Self::Stop => "stop",
            Self::Start => "start",
            Self::Restart => "restart",
            Self::Password => "password",
            Self::Reinstall => "reinstall",
        })
    }
}

/// The `packageConfig` of a create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateRequest {
    /// The package to deploy.
    pub package_code: Option<String>,
    /// Its region.
    pub region_code: Option<String>,
    /// Its zone.
    pub zone_code: Option<String>,
    /// The name; not unique.
    pub instance_name: Option<String>,
    /// The image.
    #[serde(rename = "imageResourceUUID")]
    pub image: Option<String>,
    /// The key pair; absent or null for a login by password.
    #[serde(rename = "sshKeyUUID")]
    pub key: Option<String>,
    /// The security group.
    #[serde(rename = "firewallUUID")]
    pub firewall: Option<String>,
    /// The initial password.
    pub password: Option<Secret>,
}

/// Body of a stop, start, restart or release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceRequest {
    /// The instance.
    #[serde(rename = "ecsResourceUUID")]
    pub server: Option<String>,
    /// Stop only: whether to cut the power.
    pub force_stop: Option<bool>,
}

/// Body of a password change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PasswordRequest {
    /// The instance.
    #[serde(rename = "ecsResourceUUID")]
    pub server: Option<String>,
    /// The new password.
    pub password: Option<Secret>,
    /// The instance's region.
    pub region_code: Option<String>,
}

/// Body of a reinstall.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReinstallRequest {
    /// The instance.
    #[serde(rename = "ecsResourceUUID")]
    pub server: Option<String>,
    /// The new image.
    #[serde(rename = "imageResourceUUID")]
    pub image: Option<String>,
    /// The new password.
    pub password: Option<Secret>,
    /// The key pair; absent or null for a login by password.
    #[serde(rename = "sshKeyResourceUUID")]
    pub key: Option<String>,
    /// The instance's region.
    pub region_code: Option<String>,
}

/// Query of a listing. Each endpoint uses some of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// `regionCode`
    pub region: Option<String>,
    /// `zoneCode`
    pub zone: Option<String>,
    /// `page`, from 1.
    pub page: Option<String>,
    /// `pageSize`
    pub page_size: Option<String>,
    /// `imageType`
    pub image_kind: Option<String>,
    /// `packageCode`
    pub package: Option<String>,
}

/// One call of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Create(CreateRequest),
    Release(InstanceRequest),
    Stop(InstanceRequest),
    Start(InstanceRequest),
    Restart(InstanceRequest),
    Password(PasswordRequest),
    Reinstall(ReinstallRequest),
    Detail { server: Option<String> },
    TaskResult { task: Option<String> },
    Instances(ListRequest),
    Firewalls(ListRequest),
    Images(ListRequest),
    Keys(ListRequest),
    Packages(ListRequest),
    Regions,
}

impl Request {
    /// The verb of a call that changes something; `None` for a query.
    #[must_use]
    pub const fn verb(&self) -> Option<Verb> {
        match self {
            Self::Create(_) => Some(Verb::Create),
            Self::Release(_) => Some(Verb::Release),
            Self::Stop(_) => Some(Verb::Stop),
            Self::Start(_) => Some(Verb::Start),
            Self::Restart(_) => Some(Verb::Restart),
            Self::Password(_) => Some(Verb::Password),
            Self::Reinstall(_) => Some(Verb::Reinstall),
            Self::Detail { .. }
            | Self::TaskResult { .. }
            | Self::Instances(_)
            | Self::Firewalls(_)
            | Self::Images(_)
            | Self::Keys(_)
            | Self::Packages(_)
            | Self::Regions => None,
        }
    }
}
