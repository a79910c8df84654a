//! The calls that the service offers.

use std::fmt;

/// A call that the service offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CloudCall {
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

impl CloudCall {
    /// The name in metrics, the name in messages, and whether the call changes something.
    const fn properties(self) -> (&'static str, &'static str, bool) {
        match self {
            Self::Create => ("create", "create", true),
            Self::Release => ("release", "release", true),
            Self::Reinstall => ("reinstall", "reinstall", true),
            Self::ModifyPassword => ("modify_password", "the password change", true),
            Self::Start => ("start", "start", true),
            Self::Stop => ("stop", "stop", true),
            Self::Restart => ("restart", "restart", true),
            Self::Detail => ("detail", "the call for the server's detail", false),
            Self::Task => ("task", "the call for the task", false),
            Self::Instances => ("instances", "the call for servers", false),
            Self::Firewalls => ("firewalls", "the call for security groups", false),
            Self::Images => ("images", "the call for images", false),
            Self::Keys => ("keys", "the call for key pairs", false),
            Self::Packages => ("packages", "the call for packages", false),
            Self::Regions => ("regions", "the call for regions", false),
        }
    }

    /// The name in metrics.
    pub fn as_str(self) -> &'static str {
        self.properties().0
    }

    /// The name in messages.
    pub(super) fn words(self) -> &'static str {
        self.properties().1
    }

    /// Whether the call changes something, so that it must not be repeated blindly.
    pub fn is_mutating(self) -> bool {
        self.properties().2
    }

    pub(super) fn method(self) -> &'static str {
        match self.is_mutating() {
            true => "POST",
            false => "GET",
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

impl fmt::Display for CloudCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
