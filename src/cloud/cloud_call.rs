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
    /// The name in metrics, the name in messages, whether the call changes something, and the default path below the endpoint.
    const fn properties(self) -> (&'static str, &'static str, bool, &'static str) {
        match self {
            Self::Create => ("create", "create", true, "/instance/create"),
            Self::Release => ("release", "release", true, "/instance/release"),
            Self::Reinstall => ("reinstall", "reinstall", true, "/instance/reinstallSystem"),
            Self::ModifyPassword => (
                "modify_password",
                "the password change",
                true,
                "/instance/modifyInstancePassword",
            ),
            Self::Start => ("start", "start", true, "/instance/start"),
            Self::Stop => ("stop", "stop", true, "/instance/stop"),
            Self::Restart => ("restart", "restart", true, "/instance/restart"),
            Self::Detail => (
                "detail",
                "the call for the server's detail",
                false,
                "/instance/detail",
            ),
            Self::Task => (
                "task",
                "the call for the task",
                false,
                "/asynctask/getResult",
            ),
            Self::Instances => ("instances", "the call for servers", false, "/instance/list"),
            Self::Firewalls => (
                "firewalls",
                "the call for security groups",
                false,
                "/firewall/list",
            ),
            Self::Images => ("images", "the call for images", false, "/image/list"),
            Self::Keys => ("keys", "the call for key pairs", false, "/sshkey/list"),
            Self::Packages => ("packages", "the call for packages", false, "/package/list"),
            Self::Regions => ("regions", "the call for regions", false, "/region/list"),
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

    /// The path unless the Account overrides it.
    pub(super) fn default_path(self) -> &'static str {
        self.properties().3
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
