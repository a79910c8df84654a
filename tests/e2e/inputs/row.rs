//! The definition of a row of the table.

use cloud_simulator::faults::Act;
use cloud_simulator::model::AccountStatus;
use serde_json::Value;

/// The Account of the broken Instance, and of the healthy one unless the Account itself is broken.
pub const SAME: &str = "default";
/// The Account of the healthy Instance in that case.
pub const SPARE: &str = "spare";

/// One bad input.
#[derive(Debug)]
pub struct Row {
    /// Name of the row and of its snapshot.
    pub name: &'static str,
    /// The initial state.
    pub begins: Begins,
    /// The steps that break it.
    pub broken: Vec<Step>,
    /// The expected report: the condition in addition to Ready, and the reason.
    pub report: (&'static str, &'static str),
    /// The steps that fix it.
    pub fixed: Vec<Step>,
    /// The Account of the healthy Instance.
    pub other_account: &'static str,
    /// Number of servers that the Instance has while it is broken.
    pub servers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// Nothing: the Instance is applied after everything is broken.
    New,
    /// As `New`, but the operator starts after the Instance exists, and must first look for its server.
    Found,
    /// The Instance has its server.
    Server,
}

/// One change.
#[derive(Debug)]
pub enum Step {
    /// Sets a field of the Instance's spec.
    Spec(&'static str, Value),
    /// Writes a Secret with only this key.
    Secret(&'static str, &'static str, &'static str),
    /// Writes a Secret whose value is not text.
    Bytes(&'static str, &'static str, &'static [u8]),
    NoSecret(&'static str),
    /// The Account gets this endpoint.
    Endpoint(&'static str),
    /// The Account gets a correct spec.
    Account,
    NoAccount,
    /// The Account gets this settling time, in seconds.
    Settle(u32),
    /// The service accepts this token for the Account.
    Token(&'static str),
    SetStatus(AccountStatus),
    /// Calls of this path get this fault.
    Answers(&'static str, Act),
    Plain,
    SoldOut,
    Restocked,
}

pub fn row(
    name: &'static str,
    begins: Begins,
    broken: impl Into<Vec<Step>>,
    report: (&'static str, &'static str),
    fixed: impl Into<Vec<Step>>,
) -> Row {
    Row {
        name,
        begins,
        broken: broken.into(),
        report,
        fixed: fixed.into(),
        other_account: SAME,
        servers: usize::from(begins == Begins::Server),
    }
}

impl Row {
    /// The Account is unusable, so the healthy Instance uses another one.
    pub fn next_to_another_account(mut self) -> Self {
        self.other_account = SPARE;
        self
    }

    /// The server is bought before the error.
    pub fn with_a_server(mut self) -> Self {
        self.servers = 1;
        self
    }
}
