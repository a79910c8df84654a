//! The reason why an Instance is as it is.

use crate::api::conditions::{Readiness, Reason};
use crate::instance::times;
use std::time::Duration;

/// The reason why an Instance is as it is. The function that decides makes it; the renderer (`status::render`) turns it into
/// conditions and an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// State, reason and sentence.
    pub readiness: Readiness,
    /// How long it must last before status shows it. A progress that passes quickly is not worth a write.
    pub patience: Duration,
}

impl From<Readiness> for Why {
    /// A reason that status shows at once.
    fn from(readiness: Readiness) -> Self {
        Self {
            readiness,
            patience: Duration::ZERO,
        }
    }
}

impl Why {
    /// A progress that status shows only if it lasts.
    pub(in crate::instance) fn progress(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            readiness: Readiness::reconciling(reason, message),
            patience: match reason {
                Reason::ClientRateLimited => times::QUEUED_SHOWN_AFTER,
                _ => times::PROGRESS_SHOWN_AFTER,
            },
        }
    }

    /// A refusal by the service. Status shows it at once, unless the next attempt may succeed.
    pub(in crate::instance) fn refused(message: &str, reason: Reason) -> Self {
        match reason {
            Reason::CreateRefused | Reason::OperationRefused => {
                Readiness::stalled(reason, message).into()
            }
            Reason::RateLimited | Reason::ServiceUnreachable => Self::progress(reason, message),
            _ => Readiness::reconciling(reason, message).into(),
        }
    }

    /// The same, shown at once if the condition holds.
    pub(in crate::instance) fn at_once_if(self, condition: bool) -> Self {
        match condition {
            true => self.readiness.into(),
            false => self,
        }
    }

    /// Whether it is a progress that may pass quickly.
    pub fn is_progress(&self) -> bool {
        !self.patience.is_zero()
    }
}
