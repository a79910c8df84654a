//! What is asked of the reservations, and what it answers.

use crate::runtime::watch::ObjectKey;
use std::time::Duration;

/// How many servers an Account may have, and how fast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Most {
    /// Instances with a server, or about to have one (`spec.maxInstances`).
    pub instances: Option<usize>,
    /// Creates a minute (`spec.createRate.perMinute`).
    pub creates: Option<usize>,
}

/// What an Instance waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A place among the Instances (`spec.maxInstances`).
    Instances,
    /// A place in the minute (`spec.createRate`).
    Creates,
}

/// What is used of an Account's limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Instances that have a server or are about to have one.
    pub instances: usize,
    /// Servers that were bought within a minute.
    pub creates: usize,
    /// The names of those that wait, and for what, in the order in which they are served.
    pub waiting: Vec<(String, Limit)>,
}

/// Whether an Instance may have a server bought now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reservation {
    /// Nobody asked.
    #[default]
    NotAsked,
    /// It has a place.
    Taken,
    /// So many have one already, and no more may.
    Full(usize),
    /// So many were bought for within a minute, and no more may be.
    TooFast {
        /// How many.
        per_minute: usize,
        /// When there is room again, if nobody else takes it.
        wait: Duration,
    },
}

/// Whether an Instance may take over a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Claim {
    /// Nobody asked.
    #[default]
    NotAsked,
    /// It is not known yet which servers the Instances of every namespace have.
    NotYet,
    /// Nobody else has it.
    Taken,
    /// This one has it.
    Owned(ObjectKey),
}

/// Whether a record of another Instance counts where it names the server that one looks at: identifiers mean something at one
/// service only, and whoever may edit his own Instances can write any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Its Account has that server.
    Known,
    /// Its Account was not looked at, or listed nothing, since this process began.
    NotYet,
    /// Its Account shows nothing of that server.
    Lacking,
}

/// The Instance that has the better right to a server which another one has on record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Rival {
    /// There is none.
    #[default]
    None,
    /// Somebody says so, and it is not known yet whether that counts.
    NotYet,
    /// This one.
    Of(ObjectKey),
}

/// What another Instance has on record, or is about to have.
#[derive(Clone, Debug)]
pub struct Say<'a> {
    /// Its Account.
    pub account: ObjectKey,
    /// The credential that its server was bought with, where it is on record.
    pub credential: Option<&'a str>,
}
