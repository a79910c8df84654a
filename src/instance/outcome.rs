//! What became of the one step of a reconcile.

use crate::api::Verb;
use crate::api::conditions::{Readiness, Reason};
use crate::cloud::{ServerId, TaskId};
use crate::instance::plan::step::ReleaseReason;
use crate::runtime::KubeError;
use std::time::Duration;

/// What became of the step.
#[derive(Debug)]
pub enum Outcome {
    /// There was nothing to do.
    Rested,
    /// The service took the call; the receipt may or may not be on record.
    Accepted {
        /// What was asked for.
        verb: Verb,
        /// The server.
        id: ServerId,
        /// Its task; some answers name none.
        task: Option<TaskId>,
        /// Whether the receipt stands where it belongs.
        recorded: bool,
    },
    /// The service took, or did not take, a call within an attempt.
    Auxiliary {
        /// Start or Stop.
        verb: Verb,
        /// It cuts the server's power.
        power_cut: bool,
        /// No such call was made within this attempt before.
        is_first: bool,
        /// What stood in the way.
        trouble: Option<String>,
        /// It may have been carried out all the same.
        is_unknown: bool,
    },
    /// The service refused the call, or it never left: nothing was done.
    Refused {
        /// The service's words.
        message: String,
        /// What that means for the conditions.
        reason: Reason,
        /// How long the service wants us to wait.
        after: Option<Duration>,
    },
    /// The call may have happened.
    Unknown(String),
    /// The record was written.
    Written,
    /// The service took the release, or says that there is no such server, or did neither.
    Released {
        /// Which server.
        id: ServerId,
        /// Why.
        why: ReleaseReason,
        /// The service had not taken it before.
        is_first: bool,
        /// What stood in the way.
        trouble: Option<String>,
        /// It may have been carried out all the same.
        is_unknown: bool,
    },
    /// The finalizer is gone and with it the object.
    Finished,
    /// The object changed: look again.
    Stale,
    /// It did not come to the step. With what is to be said about it, if somebody has to do something.
    NotDone(String, Option<Readiness>),
}

impl Outcome {
    /// A write to Kubernetes failed. A refusal is reported, since a right, a policy or the like has to change.
    pub fn not_written(error: &KubeError) -> Self {
        let readiness = error
            .obstacle()
            .map(|obstacle| match obstacle.passes_by_itself() {
                true => Readiness::reconciling(Reason::WriteRefused, error.to_string()),
                false => Readiness::stalled(Reason::WriteRefused, error.to_string()),
            });
        Self::NotDone(error.to_string(), readiness)
    }

    /// It was not done, and a person has to do something about that.
    pub fn stalled(reason: Reason, why: String) -> Self {
        Self::NotDone(why.clone(), Some(Readiness::stalled(reason, why)))
    }

    /// Whether a purchase that was planned may have been made.
    pub fn may_have_bought(&self) -> bool {
        matches!(self, Self::Accepted { .. } | Self::Unknown(_))
    }

    /// It was not done, and is tried again.
    pub fn not_done(why: impl Into<String>) -> Self {
        Self::NotDone(why.into(), None)
    }
}
