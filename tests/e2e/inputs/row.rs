//! What a row of the table says.

use cloud_simulator::faults::Act;
use cloud_simulator::model::AccountStatus;
use serde_json::Value;

/// The Account of the broken Instance, and of the healthy one beside it unless the Account itself is broken.
pub const SAME: &str = "default";
/// The Account of the healthy one then.
pub const SPARE: &str = "spare";

/// One bad input.
#[derive(Debug)]
pub struct Row {
    /// Name of the row and of its snapshot.
    pub name: &'static str,
    /// What there is before it goes bad.
    pub begins: Begins,
    /// How it goes bad.
    pub broken: Vec<Step>,
    /// What is told: the condition beside Ready, and the reason.
    pub told: (&'static str, &'static str),
    /// How it is mended.
    pub mended: Vec<Step>,
    /// The Account of the healthy Instance beside it.
    pub beside: &'static str,
    /// Servers that the Instance has while it is broken.
    pub servers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// Nothing: the Instance is applied when all is broken already.
    New,
    /// The same, but for the operator: it starts when the Instance is there, and has to look for its server first.
    Found,
    /// The Instance has its server.
    Server,
}

/// One thing that is broken or mended.
#[derive(Debug)]
pub enum Step {
    /// A field of the Instance's spec has this value.
    Spec(&'static str, Value),
    /// A Secret has this one key.
    Secret(&'static str, &'static str, &'static str),
    /// The same, and it is no text.
    Bytes(&'static str, &'static str, &'static [u8]),
    NoSecret(&'static str),
    /// The Account has this endpoint.
    Endpoint(&'static str),
    /// The Account is as it should be.
    Account,
    NoAccount,
    /// The Account settles after so many seconds.
    Settle(u32),
    /// The service takes this token for the Account.
    Token(&'static str),
    Standing(AccountStatus),
    /// Calls of this path meet this.
    Answers(&'static str, Act),
    Plain,
    SoldOut,
    Restocked,
}

pub fn row(
    name: &'static str,
    begins: Begins,
    broken: impl Into<Vec<Step>>,
    told: (&'static str, &'static str),
    mended: impl Into<Vec<Step>>,
) -> Row {
    Row {
        name,
        begins,
        broken: broken.into(),
        told,
        mended: mended.into(),
        beside: SAME,
        servers: usize::from(begins == Begins::Server),
    }
}

impl Row {
    /// The Account cannot be used: the healthy Instance has another one.
    pub fn beside_another_account(mut self) -> Self {
        self.beside = SPARE;
        self
    }

    /// Its server is bought; what goes wrong comes after that.
    pub fn with_a_server(mut self) -> Self {
        self.servers = 1;
        self
    }
}
