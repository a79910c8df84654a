//! The answer for one Instance, and the exit status. Pure.

use super::changes::Change;
use cloud_server_operator::api::Verb;
use cloud_server_operator::api::conditions::{Readiness, Reason};
use cloud_server_operator::instance::plan::preview::{Act, PlannedChange};
use cloud_server_operator::instance::predict::Foresight;
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
}

/// The effect of an act on the server.
fn effect(act: &Act) -> (Effect, Option<String>) {
    match &act.planned {
        PlannedChange::Operation(verb) => {
            let effect = match verb {
                Verb::Create => Effect::NewServer,
                Verb::Reinstall => Effect::ErasesDisk,
                Verb::Restart => Effect::Restart,
                Verb::ModifyPassword | Verb::Start | Verb::Stop => Effect::InPlace,
                // No plan for an object that stays releases its server.
                Verb::Release => Effect::ErasesDisk,
            };
            (effect, Some(verb.to_string()))
        }
        PlannedChange::TakeOver(id) => (Effect::TakesOver, Some(format!("take over {id}"))),
        PlannedChange::Secret => (Effect::InPlace, None),
    }
}

/// All effects of an Instance that the cluster would accept, and notes.
pub(super) fn effects(foresight: &Foresight, changes: &[Change]) -> (Vec<Finding>, Vec<String>) {
    let Foresight {
        preview,
        restrained,
        account: _,
        place: _,
    } = foresight;
    let mut notes = preview.notes.clone();
    if let Some(unseen) = &preview.unseen {
        let why = &unseen.why;
        notes.push(format!("the server is judged as status shows it: {why}"));
    }
    let mut all: Vec<Finding> = preview
        .acts
        .iter()
        .map(|act| {
            let (effect, operation) = effect(act);
            Finding {
                effect,
                operation,
                reason: None,
                why: act.why.clone(),
            }
        })
        .collect();
    if let Some(first) = &preview.first {
        notes.push(match all.is_empty() {
            true => format!("{first} continues"),
            false => format!("it begins after {first}"),
        });
    }
    if let Some(verdict) = restrained.as_ref().filter(|_| !all.is_empty()) {
        // The planned operations become notes, since they do not begin.
        let held = all.drain(..).map(|said| match &said.operation {
            Some(operation) => format!("{operation} ({}, {})", said.effect.words(), said.why),
            None => said.why,
        });
        notes.push(format!(
            "what waits: {}",
            held.collect::<Vec<_>>().join("; ")
        ));
        all.push(waits(verdict));
    }
    all.extend(preview.held.as_ref().map(waits));
    if let Some(unknown) = &preview.unknown {
        all.push(Finding {
            reason: unknown.reason.map(Reason::as_str),
            ..Finding::of(Effect::Unknown, unknown.why.clone())
        });
    }
    if all.is_empty() {
        all.push(match changes.is_empty() {
            true => Finding::of(
                Effect::Nothing,
                "the object and its server are as the file says",
            ),
            false => Finding::of(
                Effect::InPlace,
                "only the object changes: the service is asked for nothing",
            ),
        });
    }
    (all, notes)
}

fn waits(verdict: &Readiness) -> Finding {
    Finding {
        reason: Some(verdict.reason.as_str()),
        ..Finding::of(Effect::Waits, verdict.message.clone())
    }
}

/// The most important effect.
pub(super) fn weightiest(effects: &[Finding]) -> Effect {
    let all = effects.iter().map(|said| said.effect);
    all.max().unwrap_or(Effect::Nothing)
}

#[cfg(test)]
mod tests;
