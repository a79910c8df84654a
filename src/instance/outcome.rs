//! The outcome of a reconcile's one step.

use crate::api::Verb;
use crate::api::conditions::{Readiness, Reason};
use crate::cloud::{ServerId, TaskId};
use crate::instance::plan::step::ReleaseReason;
use crate::runtime::KubeError;
use std::time::Duration;

#[derive(Debug)]
pub enum Outcome {
    Rested,
    /// The service accepted the call; the receipt may or may not be on record.
    Accepted {
        verb: Verb,
        id: ServerId,
        /// Its task; some answers name none.
        task: Option<TaskId>,
        /// Whether the receipt was written.
        recorded: bool,
    },
    /// An auxiliary call within an attempt, accepted or not.
    Auxiliary {
        /// Start or Stop.
        verb: Verb,
        /// The call cuts the server's power.
        power_cut: bool,
        /// It is the first call of this kind within the attempt.
        is_first: bool,
        /// The error, if it failed.
        trouble: Option<String>,
        is_unknown: bool,
    },
    /// The service refused the call, or it was never sent: it had no effect.
    Refused {
        message: String,
        reason: Reason,
        /// How long the service asks to wait.
        after: Option<Duration>,
    },
    /// The call may have taken effect.
    Unknown(String),
    Written,
    /// A release: accepted, refused or unknown, or the service does not know the server.
    Released {
        id: ServerId,
        why: ReleaseReason,
        /// It is the first release of this server that the service accepted.
        is_first: bool,
        /// The error, if it failed.
        trouble: Option<String>,
        is_unknown: bool,
    },
    /// The finalizer was removed, and the object can go.
    Finished,
    /// The object changed: observe again.
    Stale,
    /// The step was not done. With a readiness to report if human action is needed.
    NotDone(String, Option<Readiness>),
}

impl Outcome {
    /// A write to Kubernetes failed. A refusal is reported, since a permission, a policy or the like has to change.
    pub fn not_written(error: &KubeError) -> Self {
        let readiness = error
            .obstacle()
            .map(|obstacle| match obstacle.passes_by_itself() {
                true => Readiness::reconciling(Reason::WriteRefused, error.to_string()),
                false => Readiness::stalled(Reason::WriteRefused, error.to_string()),
            });
        Self::NotDone(error.to_string(), readiness)
    }

    /// The step was not done, and a human has to act.
    pub fn stalled(reason: Reason, why: String) -> Self {
        Self::NotDone(why.clone(), Some(Readiness::stalled(reason, why)))
    }

    /// Whether a planned purchase may have been made.
    pub fn may_have_bought(&self) -> bool {
        matches!(self, Self::Accepted { .. } | Self::Unknown(_))
    }

    /// The step was not done, and will be retried.
    pub fn not_done(why: impl Into<String>) -> Self {
        Self::NotDone(why.into(), None)
    }
}
