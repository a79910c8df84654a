//! The operations of the service.

use std::fmt;

/// An operation of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    Create,
    Release,
    /// Reinstall an instance's operating system.
    Reinstall,
    /// Set the password of an instance.
    ModifyPassword,
    Start,
    Stop,
    Restart,
    Detail,
    /// Result of an asynchronous task.
    Task,
    /// One page of the instance list.
    Instances,
    /// One page of the security group list.
    Firewalls,
    /// One page of the image list.
    Images,
    /// One page of the key pair list.
    Keys,
    Packages,
    Regions,
}

impl Operation {
    /// The name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Release => "release",
            Self::Reinstall => "reinstall",
            Self::ModifyPassword => "modify_password",
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
            Self::Detail => "detail",
            Self::Task => "task",
            Self::Instances => "instances",
            Self::Firewalls => "firewalls",
            Self::Images => "images",
            Self::Keys => "keys",
            Self::Packages => "packages",
            Self::Regions => "regions",
        }
    }

    /// The name in messages.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Release => "release",
            Self::Reinstall => "reinstall",
            Self::ModifyPassword => "the password change",
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
            Self::Detail => "the call for the server's detail",
            Self::Task => "the call for the task",
            Self::Instances => "the call for servers",
            Self::Firewalls => "the call for security groups",
            Self::Images => "the call for images",
            Self::Keys => "the call for key pairs",
            Self::Packages => "the call for packages",
            Self::Regions => "the call for regions",
        }
    }

    pub(super) fn method(self) -> &'static str {
        match self.is_mutating() {
            true => "POST",
            false => "GET",
        }
    }

    /// Whether the call changes something, so that it must not be repeated blindly.
    pub fn is_mutating(self) -> bool {
        match self {
            Self::Create
            | Self::Release
            | Self::Reinstall
            | Self::ModifyPassword
            | Self::Start
            | Self::Stop
            | Self::Restart => true,
            Self::Detail
            | Self::Task
            | Self::Instances
            | Self::Firewalls
            | Self::Images
            | Self::Keys
            | Self::Packages
            | Self::Regions => false,
        }
    }

    /// Whether the request names one instance and nothing else, so that "not found" can only concern that instance. A reinstall
    /// also names an image and a key, and a password change a region: their "not found" is ambiguous.
    pub(super) fn names_only_an_instance(self) -> bool {
        matches!(
            self,
            Self::Detail | Self::Release | Self::Start | Self::Stop | Self::Restart
        )
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
