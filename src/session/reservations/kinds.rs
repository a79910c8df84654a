//! Requests to the reservations, and their answers.

use crate::runtime::watch::ObjectKey;
use std::time::Duration;

/// How many servers an Account may have, and how many it may create per minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Most {
    /// Instances with a server, or about to have one (`spec.maxInstances`).
    pub instances: Option<usize>,
    /// Creates per minute (`spec.createRate.perMinute`).
    pub creates: Option<usize>,
}

/// The limit that an Instance waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The number of Instances (`spec.maxInstances`).
    Instances,
    /// The rate of creates (`spec.createRate`).
    Creates,
}

/// The use of an Account's limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Instances that have a server or are about to have one.
    pub instances: usize,
    /// Servers that were bought within the last minute.
    pub creates: usize,
    /// The names of the waiting Instances, each with its limit, in the order in which they are served.
    pub waiting: Vec<(String, Limit)>,
}

/// Whether the operator may buy a server for an Instance now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reservation {
    /// The reconcile did not request a reservation.
    #[default]
    NotAsked,
    /// The Instance has a reservation.
    Taken,
    /// The Account has this many reservations, which is the limit.
    Full(usize),
    /// The limit of creates per minute is used up.
    TooFast {
        per_minute: usize,
        /// When a create is possible again, unless another Instance comes first.
        wait: Duration,
    },
}

/// Whether an Instance may adopt or import a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Claim {
    /// The reconcile did not claim a server.
    #[default]
    NotAsked,
    /// It is not known yet which servers the Instances of every namespace have.
    NotYet,
    /// No other Instance has it.
    Taken,
    /// This Instance has it.
    Owned(ObjectKey),
}

/// Whether another Instance's claim to a server counts. Identifiers are meaningful at one service only, and a user can write any
/// identifier into an Instance of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// The claimant's Account has that server.
    Known,
    /// Since this process began, the claimant's Account was not reconciled or not listed.
    NotYet,
    /// The claimant's Account does not show that server.
    Lacking,
    /// Only the process of another shard could verify the claim: it blocks an import, and takes no server away.
    OtherShard,
}

/// The Instance with the better right to a server that another Instance has on record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Rival {
    #[default]
    None,
    /// Another Instance claims the server, and it is not known yet whether the claim counts.
    NotYet,
    Of(ObjectKey),
}

/// An Instance's claim to a server: it has the server on record, or is about to.
#[derive(Clone, Debug)]
pub struct Say<'a> {
    /// The Account of the Instance.
    pub account: ObjectKey,
    /// The credential that the server was bought with, if it is on record.
    pub credential: Option<&'a str>,
}
