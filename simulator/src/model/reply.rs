//! The answers of the service, before they are formatted for the wire.

use serde::{Deserialize, Serialize};

use super::request::Verb;
use super::server::ServerView;
use super::task::TaskReport;
use crate::catalogue::{Firewall, Image, Key, Package, Region};

/// The answer to one call, and the effect of the call.
#[derive(Clone, Debug)]
#[must_use]
pub struct Reply {
    /// The answer, or the refusal.
    pub outcome: Result<Answer, Refusal>,
    /// The change that the call made; `None` for queries and refusals.
    pub effect: Effect,
}

/// One page of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows of the page.
    pub rows: Vec<T>,
    /// How many rows match, over all pages.
    pub total: usize,
}

impl<T> Page<T> {
    /// A page of a listing without rows.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            rows: Vec::new(),
            total: 0,
        }
    }
}

/// An answer that is not a refusal.
#[derive(Clone, Debug)]
pub enum Answer {
    /// An operation was accepted and is in progress.
    Accepted {
        /// The operation.
        verb: Verb,
        /// The task of the operation.
        task: String,
        /// The instance.
        server: String,
    },
    /// One instance in full.
    Instance(Box<ServerView>),
    /// The state of a task.
    Task(TaskReport),
    /// A page of instances.
    Instances(Page<ServerView>),
    /// A page of security groups, each with the number of instances in it.
    Firewalls(Page<(Firewall, usize, String)>),
    /// A page of images.
    Images(Page<Image>),
    /// A page of key pairs.
    Keys(Page<Key>),
    /// Packages.
    Packages(Vec<Package>),
    /// Regions.
    Regions(Vec<Region>),
}

/// The service refused the call, and nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Refusal {
    /// The HTTP status of the answer.
    pub status: u16,
    /// A dotted name, for example `InvalidRegionCode.NotNull`.
    pub code: String,
    /// A sentence.
    pub message: String,
}

impl Refusal {
    /// A refusal with this status, code and message.
    #[must_use]
    pub fn new(status: u16, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            status,
            code: code.into(),
            message: message.into(),
        }
    }

    /// A required field is missing.
    #[must_use]
    pub fn missing(field: &str) -> Self {
        Self::new(
            400,
            format!("Invalid{field}.NotNull"),
            format!("{field} must not be null"),
        )
    }

    /// A field violates the rules.
    #[must_use]
    pub fn malformed(field: &str, rule: &str) -> Self {
        Self::new(400, format!("Invalid{field}.Malformed"), rule)
    }

    /// A field names a thing that does not exist.
    #[must_use]
    pub fn unknown(field: &str) -> Self {
        Self::new(
            404,
            format!("Invalid{field}.NotFound"),
            format!("The specified {field} does not exist"),
        )
    }
}

/// A change by a call, by the passing of time, or at the console.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Effect {
    /// Nothing.
    #[default]
    None,
    Created {
        server: String,
        name: String,
    },
    ReleaseAccepted {
        server: String,
        name: String,
    },
    StopAccepted {
        server: String,
    },
    StartAccepted {
        server: String,
    },
    RestartAccepted {
        server: String,
    },
    ReinstallAccepted {
        server: String,
        image: String,
    },
    PasswordAccepted {
        server: String,
    },
    Deployed {
        server: String,
    },
    Released {
        server: String,
    },
    Stopped {
        server: String,
    },
    Started {
        server: String,
    },
    Restarted {
        server: String,
    },
    Reinstalled {
        server: String,
        image: String,
    },
    PasswordChanged {
        server: String,
    },
    TaskFailed {
        server: String,
        verb: Verb,
        result: String,
    },
    Renamed {
        server: String,
        name: String,
    },
}

impl Effect {
    /// Whether nothing changed.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Whether the service accepted an operation.
    #[must_use]
    pub const fn is_acceptance(&self) -> bool {
        matches!(
            self,
            Self::Created { .. }
                | Self::ReleaseAccepted { .. }
                | Self::StopAccepted { .. }
                | Self::StartAccepted { .. }
                | Self::RestartAccepted { .. }
                | Self::ReinstallAccepted { .. }
                | Self::PasswordAccepted { .. }
        )
    }

    /// The server that was changed.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Created { server, .. }
            | Self::ReleaseAccepted { server, .. }
            | Self::StopAccepted { server }
            | Self::StartAccepted { server }
            | Self::RestartAccepted { server }
            | Self::ReinstallAccepted { server, .. }
            | Self::PasswordAccepted { server }
            | Self::Deployed { server }
            | Self::Released { server }
            | Self::Stopped { server }
            | Self::Started { server }
            | Self::Restarted { server }
            | Self::Reinstalled { server, .. }
            | Self::PasswordChanged { server }
            | Self::TaskFailed { server, .. }
            | Self::Renamed { server, .. } => Some(server),
        }
    }
}
