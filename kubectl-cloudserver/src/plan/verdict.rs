//! The answer for one Instance, and the exit status. Pure.

use super::changes::Change;
use cloud_server_operator::api::conditions::Readiness;
use serde::Serialize;

/// The effects of a manifest, ordered by the attention that they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Effect {
    /// No change of object and server.
    Nothing,
    /// The server keeps running, or is only started or stopped: a change of password, power state, or only the object.
    InPlace,
    /// The Instance imports an existing server.
    TakesOver,
    /// The server restarts.
    Restart,
    /// A server is bought.
    NewServer,
    /// An operation waits for a person or for another object.
    Waits,
    /// The disk is erased.
    ErasesDisk,
    /// The cluster would reject the manifest, or the service a call.
    Refused,
    /// The effect could not be determined.
    Unknown,
}

/// The answer for one manifest.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) file: String,
    /// The line of the file in which its document begins.
    pub(super) line: u64,
    /// The most important effect.
    pub(super) verdict: Effect,
    pub(super) effects: Vec<Finding>,
    pub(super) changes: Vec<Change>,
    pub(super) notes: Vec<String>,
}

/// One effect, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    pub(super) effect: Effect,
    /// The operation at the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) operation: Option<String>,
    /// The reason of the condition in status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<&'static str>,
    pub(super) why: String,
}

impl Effect {
    /// The words for people.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::InPlace => "in place",
            Self::TakesOver => "takes over a server",
            Self::Restart => "restart",
            Self::NewServer => "new server",
            Self::Waits => "waits",
            Self::ErasesDisk => "ERASES THE DISK",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
        }
    }

    /// The same words after a number of Instances.
    pub(super) fn counted(self, count: usize) -> &'static str {
        match (self, count) {
            (_, 1) => self.words(),
            (Self::Nothing, _) => "with nothing to do",
            (Self::TakesOver, _) => "take over a server",
            (Self::Restart, _) => "restarts",
            (Self::NewServer, _) => "new servers",
            (Self::Waits, _) => "wait",
            (Self::ErasesDisk, _) => "ERASE THE DISK",
            (Self::InPlace | Self::Refused | Self::Unknown, _) => self.words(),
        }
    }

    /// The exit status of this effect alone: see [`EXIT_STATUS`](super::EXIT_STATUS).
    pub(super) fn status(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::InPlace | Self::TakesOver | Self::Restart => 2,
            Self::NewServer | Self::ErasesDisk => 3,
            Self::Waits | Self::Refused => 4,
            Self::Unknown => 1,
        }
    }
}

/// The exit status of all effects: an unknown effect takes precedence, then the higher number.
pub(super) fn status(effects: impl IntoIterator<Item = Effect>) -> u8 {
    let all: Vec<u8> = effects.into_iter().map(Effect::status).collect();
    match all.contains(&1) {
        true => 1,
        false => all.into_iter().max().unwrap_or(0),
    }
}

impl Finding {
    pub(super) fn of(effect: Effect, why: impl Into<String>) -> Self {
        Self {
            effect,
            operation: None,
            reason: None,
            why: why.into(),
        }
    }

    /// Something that the operator reports and that holds it up.
    pub(super) fn waits(readiness: &Readiness) -> Self {
        Self {
            reason: Some(readiness.reason.as_str()),
            ..Self::of(Effect::Waits, readiness.message.clone())
        }
    }

    /// Whether it is a step of the operator.
    pub(super) fn is_step(&self) -> bool {
        match self.effect {
            Effect::InPlace
            | Effect::TakesOver
            | Effect::Restart
            | Effect::NewServer
            | Effect::ErasesDisk => true,
            Effect::Nothing | Effect::Waits | Effect::Refused | Effect::Unknown => false,
        }
    }
}

/// The most important effect.
pub(super) fn weightiest(effects: &[Finding]) -> Effect {
    let all = effects.iter().map(|finding| finding.effect);
    all.max().unwrap_or(Effect::Nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_exit_status_counts_and_an_unknown_effect_precedes_all() {
        use Effect::{ErasesDisk, InPlace, Nothing, Refused, Unknown};
        assert_eq!(status([]), 0);
        assert_eq!(status([Nothing, InPlace]), 2);
        assert_eq!(status([ErasesDisk, InPlace]), 3);
        assert_eq!(status([ErasesDisk, Refused]), 4);
        assert_eq!(status([Unknown, Refused, ErasesDisk]), 1);
    }
}
