//! The endpoints: method, path, and the HTTP status of success.

use clap::ValueEnum;

use crate::model::Verb;

/// An endpoint of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Endpoint {
    Create,
    Release,
    Stop,
    Start,
    Restart,
    ModifyPassword,
    Reinstall,
    Detail,
    InstanceList,
    FirewallList,
    ImageList,
    KeyList,
    PackageList,
    RegionList,
    TaskResult,
}

impl Endpoint {
    /// Every endpoint.
    pub const ALL: [Self; 15] = [
        Self::Create,
        Self::Release,
        Self::Stop,
        Self::Start,
        Self::Restart,
        Self::ModifyPassword,
        Self::Reinstall,
        Self::Detail,
        Self::InstanceList,
        Self::FirewallList,
        Self::ImageList,
        Self::KeyList,
        Self::PackageList,
        Self::RegionList,
        Self::TaskResult,
    ];

    /// Its path below the base address.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Create => "/instance/create",
            Self::Release => "/instance/release",
            Self::Stop => "/instance/stop",
            Self::Start => "/instance/start",
            Self::Restart => "/instance/restart",
            Self::ModifyPassword => "/instance/modifyInstancePassword",
            Self::Reinstall => "/instance/reinstallSystem",
            Self::Detail => "/instance/detail",
            Self::InstanceList => "/instance/list",
            Self::FirewallList => "/firewall/list",
            Self::ImageList => "/image/list",
            Self::KeyList => "/sshkey/list",
            Self::PackageList => "/package/list",
            Self::RegionList => "/region/list",
            Self::TaskResult => "/asynctask/getResult",
        }
    }

    /// The verb of an endpoint that changes something.
    #[must_use]
    pub const fn verb(self) -> Option<Verb> {
        match self {
            Self::Create => Some(Verb::Create),
            Self::Release => Some(Verb::Release),
            Self::Stop => Some(Verb::Stop),
            Self::Start => Some(Verb::Start),
            Self::Restart => Some(Verb::Restart),
            Self::ModifyPassword => Some(Verb::Password),
            Self::Reinstall => Some(Verb::Reinstall),
            Self::Detail
            | Self::InstanceList
            | Self::FirewallList
            | Self::ImageList
            | Self::KeyList
            | Self::PackageList
            | Self::RegionList
            | Self::TaskResult => None,
        }
    }

    /// Its method: POST for endpoints that change something.
    #[must_use]
    pub const fn method(self) -> &'static str {
        if self.verb().is_some() { "POST" } else { "GET" }
    }

    /// The HTTP status of success: 202 in general; 200 for detail and package list (specification) and release (field note 1).
    #[must_use]
    pub const fn success(self) -> u16 {
        match self {
            Self::Detail | Self::PackageList | Self::Release => 200,
            _ => 202,
        }
    }

    /// The endpoint at this path.
    #[must_use]
    pub fn at(path: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|endpoint| endpoint.path() == path)
    }
}
