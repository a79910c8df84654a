//! The answer for one Instance, and the exit status. Pure.

use super::changes::Change;
use cloud_server_operator::api::conditions::{Readiness, Reason};
use serde::Serialize;

/// The effects of a manifest, ordered by the attention that they need. The order is for display; the exit status has its own
/// (`row`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Effect {
    /// No change of object and server.
    Nothing,
    /// The server keeps running, or is only started or stopped: a change of password, power state, or only the object.
    InPlace,
    /// The Instance imports or adopts an existing server.
    TakesOver,
    /// The server restarts.
    Restart,
    /// A server is bought.
    NewServer,
    /// The next step waits, for example for a person or for another object.
    Waits,
    /// A disk is erased: by a reinstall, or by the release of a server.
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
    /// The reason that the condition in status would have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<&'static str>,
    pub(super) why: String,
}

impl Effect {
    /// The exit status of this effect alone (see [`EXIT_STATUS`](super::EXIT_STATUS)), and the words for people: for one Instance, and
    /// after a number of Instances.
    fn row(self) -> (u8, &'static str, &'static str) {
        match self {
            Self::Nothing => (0, "nothing", "with nothing to do"),
            Self::InPlace => (2, "in place", "in place"),
            Self::TakesOver => (2, "takes over a server", "take over a server"),
            Self::Restart => (2, "restart", "restarts"),
            Self::NewServer => (3, "new server", "new servers"),
            Self::Waits => (4, "waits", "wait"),
            Self::ErasesDisk => (3, "ERASES THE DISK", "ERASE THE DISK"),
            Self::Refused => (4, "refused", "refused"),
            Self::Unknown => (1, "unknown", "unknown"),
        }
    }

    pub(super) fn words(self) -> &'static str {
        self.row().1
    }

    pub(super) fn words_for(self, count: usize) -> &'static str {
        let (_, one, several) = self.row();
        if count == 1 { one } else { several }
    }
}

/// The exit status of all effects: an unknown effect takes precedence, then the highest number.
pub(super) fn exit_status(effects: impl IntoIterator<Item = Effect>) -> u8 {
    let all: Vec<u8> = effects.into_iter().map(|effect| effect.row().0).collect();
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

    /// A state that the operator reports and in which it waits.
    pub(super) fn waits(readiness: &Readiness) -> Self {
        Self::reported(Effect::Waits, readiness.reason, readiness.message.as_str())
    }

    /// With the reason of the condition in status.
    pub(super) fn reported(effect: Effect, reason: Reason, why: impl Into<String>) -> Self {
        Self {
            reason: Some(reason.as_str()),
            ..Self::of(effect, why)
        }
    }

    /// The finding in a sentence. Without an operation, it is for example an import or a generated password.
    pub(super) fn to_words(&self) -> String {
        let (effect, why) = (self.effect.words(), &self.why);
        match &self.operation {
            Some(operation) => format!("{operation} ({effect}, {why})"),
            None => format!("{effect}, {why}"),
        }
    }

    /// Whether it is a step of the operator.
    pub(super) fn is_step(&self) -> bool {
        use Effect::{ErasesDisk, InPlace, NewServer, Restart, TakesOver};
        matches!(
            self.effect,
            InPlace | TakesOver | Restart | NewServer | ErasesDisk
        )
    }
}

/// The most important effect.
pub(super) fn most_important(effects: &[Finding]) -> Effect {
    let all = effects.iter().map(|finding| finding.effect);
    all.max().unwrap_or(Effect::Nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_exit_status_counts_and_an_unknown_effect_precedes_all() {
        use Effect::{ErasesDisk, InPlace, Nothing, Refused, Unknown};
        assert_eq!(exit_status([]), 0);
        assert_eq!(exit_status([Nothing, InPlace]), 2);
        assert_eq!(exit_status([ErasesDisk, InPlace]), 3);
        assert_eq!(exit_status([ErasesDisk, Refused]), 4);
        assert_eq!(exit_status([Unknown, Refused, ErasesDisk]), 1);
    }

    #[test]
    fn a_step_that_is_no_operation_is_described_without_parentheses() {
        let take_over = Finding::of(Effect::TakesOver, "server ecs-1");
        assert_eq!(take_over.to_words(), "takes over a server, server ecs-1");
        let reinstall = Finding {
            operation: Some("reinstall".to_owned()),
            ..Finding::of(Effect::ErasesDisk, "image a → b")
        };
        let words = "reinstall (ERASES THE DISK, image a → b)";
        assert_eq!(reinstall.to_words(), words);
    }
}
