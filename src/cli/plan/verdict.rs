//! What the answer for one Instance is, and what the pipeline is told. Pure.

use super::changes::Change;
use crate::api::Verb;
use crate::api::conditions::{Readiness, Reason};
use crate::instance::plan::preview::{Act, PlannedChange};
use crate::instance::predict::Foresight;
use serde::Serialize;

/// What would come of a manifest, from the least to the most that somebody has to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Effect {
    /// Neither object nor server changes.
    Nothing,
    /// The server goes on, or is only started or stopped: password, power, or nothing but the object.
    InPlace,
    /// A server that exists becomes this Instance's.
    TakesOver,
    /// The server restarts.
    Restart,
    /// A server is bought.
    NewServer,
    /// What is wanted does not begin before somebody, or something else, lets it.
    Waits,
    /// The disk is erased.
    ErasesDisk,
    /// The cluster does not take the manifest, or the service what would be asked of it.
    Refused,
    /// It could not be found out.
    Unknown,
}

/// The answer for one manifest.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) file: String,
    /// Where its document begins in the file.
    pub(super) line: u64,
    /// The weightiest of the effects.
    pub(super) verdict: Effect,
    pub(super) effects: Vec<WrittenStatus>,
    pub(super) changes: Vec<Change>,
    pub(super) notes: Vec<String>,
}

/// One effect, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WrittenStatus {
    pub(super) effect: Effect,
    /// What the service would be asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) operation: Option<String>,
    /// The reason that the status would have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<&'static str>,
    pub(super) why: String,
}

impl Effect {
    /// In words, for people.
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

    /// The same after a number of Instances.
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

    /// The exit status that this effect alone calls for: see [`EXIT_STATUS`](super::EXIT_STATUS).
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

/// The exit status for all effects together: what could not be found out counts most, then the higher number.
pub(super) fn status(effects: impl IntoIterator<Item = Effect>) -> u8 {
    let all: Vec<u8> = effects.into_iter().map(Effect::status).collect();
    match all.contains(&1) {
        true => 1,
        false => all.into_iter().max().unwrap_or(0),
    }
}

impl WrittenStatus {
    pub(super) fn of(effect: Effect, why: impl Into<String>) -> Self {
        Self {
            effect,
            operation: None,
            reason: None,
            why: why.into(),
        }
    }
}

/// What an act means for the server.
fn effect(act: &Act) -> (Effect, Option<String>) {
    match &act.planned {
        PlannedChange::Operation(verb) => {
            let effect = match verb {
                Verb::Create => Effect::NewServer,
                Verb::Reinstall => Effect::ErasesDisk,
                Verb::Restart => Effect::Restart,
                Verb::ModifyPassword | Verb::Start | Verb::Stop => Effect::InPlace,
                // A plan for an object that stays releases nothing of it.
                Verb::Release => Effect::ErasesDisk,
            };
            (effect, Some(verb.to_string()))
        }
        PlannedChange::TakeOver(id) => (Effect::TakesOver, Some(format!("take over {id}"))),
        PlannedChange::Secret => (Effect::InPlace, None),
    }
}

/// Everything that would come of an Instance that the cluster takes.
pub(super) fn effects(
    foresight: &Foresight,
    changes: &[Change],
) -> (Vec<WrittenStatus>, Vec<String>) {
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
    let mut all: Vec<WrittenStatus> = preview
        .acts
        .iter()
        .map(|act| {
            let (effect, operation) = effect(act);
            WrittenStatus {
                effect,
                operation,
                reason: None,
                why: act.why.clone(),
            }
        })
        .collect();
    if let Some(first) = &preview.first {
        notes.push(match all.is_empty() {
            true => format!("{first} goes on"),
            false => format!("it begins after {first}"),
        });
    }
    if let Some(verdict) = restrained.as_ref().filter(|_| !all.is_empty()) {
        // What would be done is told, and is not done.
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
        all.push(WrittenStatus {
            reason: unknown.reason.map(Reason::as_str),
            ..WrittenStatus::of(Effect::Unknown, unknown.why.clone())
        });
    }
    if all.is_empty() {
        all.push(match changes.is_empty() {
            true => WrittenStatus::of(
                Effect::Nothing,
                "the object and its server are as the file says",
            ),
            false => WrittenStatus::of(
                Effect::InPlace,
                "only the object changes: the service is asked for nothing",
            ),
        });
    }
    (all, notes)
}

fn waits(verdict: &Readiness) -> WrittenStatus {
    WrittenStatus {
        reason: Some(verdict.reason.as_str()),
        ..WrittenStatus::of(Effect::Waits, verdict.message.clone())
    }
}

/// The weightiest.
pub(super) fn weightiest(effects: &[WrittenStatus]) -> Effect {
    let all = effects.iter().map(|said| said.effect);
    all.max().unwrap_or(Effect::Nothing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::ServerId;
    use crate::instance::plan::preview::{Preview, Unknown};
    use crate::runtime::watch::ObjectKey;
    use serde_json::json;

    fn nobody() -> ObjectKey {
        ObjectKey {
            namespace: String::new(),
            name: String::new(),
        }
    }

    fn acts(planned_changes: &[PlannedChange]) -> Preview {
        let act = |planned: &PlannedChange| Act {
            planned: planned.clone(),
            why: "a → b".to_owned(),
        };
        Preview {
            acts: planned_changes.iter().map(act).collect(),
            ..Preview::default()
        }
    }

    fn told(preview: Preview, restrained: Option<Readiness>, is_changed: bool) -> (Effect, u8) {
        let change = Change {
            field: "spec.x".to_owned(),
            from: json!(1),
            to: json!(2),
        };
        let changes: Vec<Change> = is_changed.then_some(change).into_iter().collect();
        let foresight = Foresight {
            preview,
            restrained,
            account: nobody(),
            place: None,
        };
        let (all, _) = effects(&foresight, &changes);
        (weightiest(&all), status(all.iter().map(|said| said.effect)))
    }

    #[test]
    fn each_outlook_has_its_verdict_and_exit_status() {
        let of = |verb| PlannedChange::Operation(verb);
        let paused = || Some(Readiness::reconciling(Reason::Paused, "paused"));
        let pending = || Some(Readiness::stalled(Reason::ReinstallPending, "pending"));
        let held = |mut preview: Preview| {
            preview.held = pending();
            preview
        };
        let blind = |mut preview: Preview| {
            preview.unknown = Some(Unknown {
                why: "away".to_owned(),
                reason: Some(Reason::ServerUnobserved),
            });
            preview
        };
        for (preview, restrained, is_changed, wanted) in [
            (acts(&[]), None, false, (Effect::Nothing, 0)),
            (acts(&[]), None, true, (Effect::InPlace, 2)),
            (acts(&[]), paused(), false, (Effect::Nothing, 0)),
            (
                acts(&[of(Verb::ModifyPassword)]),
                None,
                false,
                (Effect::InPlace, 2),
            ),
            (acts(&[of(Verb::Start)]), None, true, (Effect::InPlace, 2)),
            (
                acts(&[PlannedChange::Secret]),
                None,
                false,
                (Effect::InPlace, 2),
            ),
            (
                acts(&[PlannedChange::TakeOver(ServerId::from("e"))]),
                None,
                true,
                (Effect::TakesOver, 2),
            ),
            (
                acts(&[of(Verb::Restart), of(Verb::ModifyPassword)]),
                None,
                true,
                (Effect::Restart, 2),
            ),
            (
                acts(&[of(Verb::Create)]),
                None,
                true,
                (Effect::NewServer, 3),
            ),
            (
                acts(&[of(Verb::Reinstall)]),
                None,
                true,
                (Effect::ErasesDisk, 3),
            ),
            (
                acts(&[of(Verb::Reinstall)]),
                paused(),
                true,
                (Effect::Waits, 4),
            ),
            (held(acts(&[])), None, true, (Effect::Waits, 4)),
            // Both are told; the pipeline stops.
            (
                held(acts(&[of(Verb::Start)])),
                None,
                true,
                (Effect::Waits, 4),
            ),
            (
                held(acts(&[of(Verb::Reinstall)])),
                None,
                true,
                (Effect::ErasesDisk, 4),
            ),
            (
                blind(acts(&[of(Verb::Reinstall)])),
                None,
                true,
                (Effect::Unknown, 1),
            ),
        ] {
            let words = format!("{preview:?}, {restrained:?}, {is_changed}");
            assert_eq!(told(preview, restrained, is_changed), wanted, "{words}");
        }
    }

    #[test]
    fn the_exit_status_of_several_is_the_highest_but_for_what_is_not_known() {
        use Effect::{ErasesDisk, InPlace, Nothing, Refused, Unknown};
        assert_eq!(status([]), 0);
        assert_eq!(status([Nothing, InPlace]), 2);
        assert_eq!(status([ErasesDisk, InPlace]), 3);
        assert_eq!(status([ErasesDisk, Refused]), 4);
        assert_eq!(status([Unknown, Refused, ErasesDisk]), 1);
    }

    #[test]
    fn what_a_pause_holds_back_is_still_told() {
        let foresight = Foresight {
            preview: acts(&[PlannedChange::Operation(Verb::Reinstall)]),
            restrained: Some(Readiness::reconciling(Reason::Paused, "paused")),
            account: nobody(),
            place: None,
        };
        let (all, notes) = effects(&foresight, &[]);
        assert_eq!(all[0].reason, Some("Paused"));
        assert!(
            notes[0].contains("reinstall") && notes[0].contains("ERASES"),
            "{notes:?}"
        );
    }
}
