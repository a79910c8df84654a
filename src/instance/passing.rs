//! Temporary states of a server that are expected to pass: its detail is read again soon, for a limited time.

use crate::api::InstanceStatus;
use crate::api::conditions::{READY, Reason};
use crate::instance::detail::{is_idle, pending, text};
use crate::instance::times;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::time::Instant;

/// The kind of temporary state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// `ecsStatus` has a value that the operator does not know.
    UnknownState,
    /// The server is started and shows no public address, since some services show it late.
    NoAddress,
}

/// A temporary state, and how long this process waits for its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passing {
    what: What,
    since: Instant,
    until: Instant,
}

impl What {
    fn of(detail: &Map<String, Value>) -> Option<Self> {
        match text(detail, "ecsStatus") {
            _ if !is_idle(pending(detail)) => None,
            Some("STARTED") if text(detail, "publicIpAddress").is_none() => Some(Self::NoAddress),
            Some("STARTED" | "STOPPED") | None => None,
            Some(_) => Some(Self::UnknownState),
        }
    }

    fn passes_within(self) -> Duration {
        match self {
            Self::UnknownState => times::UNKNOWN_STATE_PASSES_WITHIN,
            Self::NoAddress => times::ADDRESS_SHOWN_WITHIN,
        }
    }

    /// Whether a former process has waited for its full time: status shows the state, and the report that follows such a wait.
    fn was_waited_for(self, status: &InstanceStatus) -> bool {
        let follows = |condition: &Condition| match self {
            Self::UnknownState => condition.reason == Reason::PowerStateDiffers.as_str(),
            Self::NoAddress => condition.type_ == READY && condition.status == "True",
        };
        Self::of(&status.detail) == Some(self) && status.conditions.iter().any(follows)
    }
}

impl Passing {
    /// The temporary state in the newest detail, if any; continues a former one of the same kind.
    pub fn next(
        former: Option<Self>,
        status: &InstanceStatus,
        detail: &Map<String, Value>,
        now: Instant,
    ) -> Option<Self> {
        let what = What::of(detail)?;
        let begins = || Self {
            what,
            since: now,
            until: match what.was_waited_for(status) {
                true => now,
                false => now + what.passes_within(),
            },
        };
        Some(
            former
                .filter(|former| former.what == what)
                .unwrap_or_else(begins),
        )
    }

    /// Whether the server's state is unknown and the wait for another one goes on.
    pub fn is_unknown_state(&self, now: Instant) -> bool {
        self.what == What::UnknownState && now < self.until
    }

    /// When to read the detail again, or when the wait ends; None after its end.
    pub fn look_again(&self, observed_at: Option<Instant>, now: Instant) -> Option<Instant> {
        (now < self.until).then(|| self.until.min(self.due_at(observed_at)))
    }

    /// Whether to read the detail again now.
    pub fn is_due(&self, observed_at: Option<Instant>, now: Instant) -> bool {
        (self.due_at(observed_at)..self.until).contains(&now)
    }

    fn due_at(&self, observed_at: Option<Instant>) -> Instant {
        let last = observed_at.map_or(self.since, |at| at.max(self.since));
        let pause = (last - self.since) / 2;
        last + pause.clamp(times::PASSING_RECHECK_MIN, times::PASSING_RECHECK_MAX)
    }
}

#[cfg(test)]
mod tests;
