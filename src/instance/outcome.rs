//! The outcome of a reconcile's one step.

use crate::api::conditions::{Readiness, Reason};
use crate::cloud::{ServerId, TaskId};
use crate::runtime::KubeError;
use std::time::Duration;

#[derive(Debug)]
pub enum Outcome {
    /// The plan had no step, or the step changed nothing.
    Rested,
    /// The service accepted the call of an attempt.
    Accepted {
        id: ServerId,
        /// Its task; some answers name none.
        task: Option<TaskId>,
        /// Whether the receipt was written.
        recorded: bool,
    },
    /// A release: accepted, refused or unknown.
    Release {
        /// Whether an Event may report the result. It does not if the service accepted an earlier call for this server, or if the
        /// outcome of the last call is unknown as well.
        is_new: bool,
        /// None if the service accepted the call.
        failure: Option<ReleaseFailure>,
    },
    /// The service refused the call, or it was never sent: it had no effect.
    Refused {
        message: String,
        reason: Reason,
        /// The pause that the service requests (`Retry-After`).
        after: Option<Duration>,
    },
    /// The call may have taken effect. With the category of the error, for the log: the error may quote the service.
    Unknown(&'static str),
    /// A record or a Secret was written, or a change in the obstacle to the connection Secret has to be reported.
    Written,
    /// The finalizer was removed, or the object is gone.
    Finished,
    /// The plan is out of date: observe again.
    Stale,
    /// The step was not done. With a readiness to report if a write was refused, or if human action is needed.
    NotDone(String, Option<Readiness>),
}

/// Why the service did not accept a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseFailure {
    /// The error. It may quote the service, so no log shows it.
    pub message: String,
    /// Its category, for the log.
    pub category: &'static str,
    /// The call may have taken effect.
    pub is_unknown: bool,
}

impl Outcome {
    /// A write to Kubernetes, or the read before it, failed. A refusal is reported, since a retry alone may not help.
    pub fn not_written(error: &KubeError) -> Self {
        let why = error.to_string();
        let obstacle = error.obstacle();
        let readiness =
            obstacle.map(|obstacle| obstacle.readiness(Reason::WriteRefused, why.clone()));
        Self::NotDone(why, readiness)
    }

    /// The step was not done, and a human has to act.
    pub fn stalled(reason: Reason, why: String) -> Self {
        Self::NotDone(why.clone(), Some(Readiness::stalled(reason, why)))
    }

    /// The step was not done, and will be retried.
    pub fn not_done(why: impl Into<String>) -> Self {
        Self::NotDone(why.into(), None)
    }
}
