//! The operations: the user's request, and the kind of service that it meets.

use crate::support::Setup;
use crate::support::recorder::{Kind, Point};
use cloud_server_operator::api::Verb;
use cloud_simulator::Readings;
use cloud_simulator::wire::Endpoint;
use std::fmt;

/// A user's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// An Instance is applied.
    Create,
    /// The same, with a task long enough that status reports it meanwhile.
    LongCreate,
    /// Another image.
    Reinstall,
    /// Another image, at a service that requires a stopped server for it.
    StoppingReinstall,
    /// Another password.
    Password,
    /// `powerState: Stopped`.
    Stop,
    /// `powerState: Running` for a stopped server.
    Start,
    /// A restart token.
    Restart,
    /// The Instance is deleted.
    Delete,
    /// A password that the operator generated is old enough for rotation.
    Rotation,
    /// An Instance is applied that imports a server.
    Import,
    /// The server is released externally, and the spec requests a replacement.
    Recreate,
}

impl Operation {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 12] = [
        Self::Create,
        Self::LongCreate,
        Self::Reinstall,
        Self::StoppingReinstall,
        Self::Password,
        Self::Stop,
        Self::Start,
        Self::Restart,
        Self::Delete,
        Self::Rotation,
        Self::Import,
        Self::Recreate,
    ];

    /// The operator's verb for it.
    pub fn verb(self) -> Verb {
        match self {
            Self::Create | Self::LongCreate | Self::Import | Self::Recreate => Verb::Create,
            Self::Reinstall | Self::StoppingReinstall => Verb::Reinstall,
            Self::Password | Self::Rotation => Verb::ModifyPassword,
            Self::Stop => Verb::Stop,
            Self::Start => Verb::Start,
            Self::Restart => Verb::Restart,
            Self::Delete => Verb::Release,
        }
    }

    /// The total number of servers that ever exist, including an initial one.
    pub fn servers(self) -> usize {
        match self {
            Self::Recreate => 2,
            _ => 1,
        }
    }

    /// The world of this operation.
    pub fn setup(self) -> Setup {
        let setup = Setup::default().recorder().imports();
        match self {
            Self::LongCreate => setup.tasks(8_000),
            Self::StoppingReinstall => setup.readings(Readings {
                reinstall_needs_stop: true,
                ..Readings::default()
            }),
            _ => setup,
        }
    }

    /// Whether a request is tested here: for a variant, only the requests that its base operation lacks; for listings, which
    /// run on a schedule, only the ones that the operation requires.
    pub fn is_about(self, point: Point) -> bool {
        let kind = point.kind;
        if kind == Kind::Call(Endpoint::InstanceList) {
            return match self {
                Self::Create => point.nth == 1,
                // This listing finds the server.
                Self::Import => point.nth == 1,
                // The two passes of this listing prove that no server is left.
                Self::Delete | Self::Recreate => point.nth <= 2,
                _ => false,
            };
        }
        match self {
            Self::LongCreate => kind == Kind::Status,
            Self::StoppingReinstall => kind.is_mutation() && !kind.is_kubernetes(),
            _ => true,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::LongCreate => "long-create",
            Self::Reinstall => "reinstall",
            Self::StoppingReinstall => "stopping-reinstall",
            Self::Password => "password",
            Self::Stop => "stop",
            Self::Start => "start",
            Self::Restart => "restart",
            Self::Delete => "delete",
            Self::Rotation => "rotation",
            Self::Import => "import",
            Self::Recreate => "recreate",
        })
    }
}
