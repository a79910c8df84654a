//! Temporary states of a server: its detail is read again soon, for a limited time.

use crate::api::InstanceStatus;
use crate::api::conditions::{READY, Reason};
use crate::cloud::ServerPower;
use crate::instance::detail::{is_idle, pending, text};
use crate::instance::times;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Map, Value};
use tokio::time::Instant;

/// The kind of temporary state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemporaryState {
    /// `ecsStatus` has a value that the operator does not know.
    Unknown,
    /// The server is started and shows no public address, since some services show it late.
    NoAddress,
}

/// A temporary state that the operator waits for the end of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Temporary {
    pub state: TemporaryState,
    pub since: Instant,
}

impl TemporaryState {
    fn of(detail: &Map<String, Value>) -> Option<Self> {
        match ServerPower::of(detail) {
            _ if !is_idle(pending(detail)) => None,
            Some(ServerPower::Started) if text(detail, "publicIpAddress").is_none() => {
                Some(Self::NoAddress)
            }
            Some(ServerPower::Started | ServerPower::Stopped) => None,
            None => text(detail, "ecsStatus").map(|_| Self::Unknown),
        }
    }

    /// Whether a former process has waited for its full time: status shows the state, and the report that follows such a wait.
    fn was_waited_for(self, status: &InstanceStatus) -> bool {
        let follows = |condition: &Condition| match self {
            Self::Unknown => condition.reason == Reason::PowerStateDiffers.as_str(),
            Self::NoAddress => condition.type_ == READY && condition.status == "True",
        };
        Self::of(&status.detail) == Some(self) && status.conditions.iter().any(follows)
    }
}

impl Temporary {
    /// The temporary state in the newest detail, if any; continues a former one of the same kind.
    pub fn next(
        former: Option<Self>,
        status: &InstanceStatus,
        detail: &Map<String, Value>,
        now: Instant,
    ) -> Option<Self> {
        let state = TemporaryState::of(detail)?;
        let begun = || (!state.was_waited_for(status)).then_some(Self { state, since: now });
        former.filter(|former| former.state == state).or_else(begun)
    }

    /// Whether the server's state is unknown and the wait for another one goes on.
    pub fn is_unknown_state(&self, now: Instant) -> bool {
        self.state == TemporaryState::Unknown && now < self.until()
    }

    /// When to read the detail again, which was last read at this instant; None after the end of the wait. The last read is at
    /// the end.
    pub fn read_at(&self, last: Option<Instant>) -> Option<Instant> {
        let last = last.map_or(self.since, |at| at.max(self.since));
        let pause = (last - self.since) / 2;
        let pause = pause.clamp(
            times::TEMPORARY_STATE_RECHECK_MIN,
            times::TEMPORARY_STATE_RECHECK_MAX,
        );
        (last < self.until()).then(|| (last + pause).min(self.until()))
    }

    fn until(&self) -> Instant {
        self.since
            + match self.state {
                TemporaryState::Unknown => times::UNKNOWN_STATE_PASSES_WITHIN,
                TemporaryState::NoAddress => times::ADDRESS_SHOWN_WITHIN,
            }
    }
}

#[cfg(test)]
mod tests;
