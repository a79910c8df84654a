//! Each mutating call that the service accepts becomes an Event: the operation, its cause, and the generation of the spec.

use crate::api::{ForceStop, Operation, Verb};
use crate::cloud::ServerId;
use crate::instance::observation::Observation;
use crate::instance::outcome::Outcome;
use crate::instance::plan::step::{Plan, ReleaseReason, Step};
use crate::instance::plan::verbs::row;
use crate::instance::plan::{cause, words};
use crate::runtime::events::EventNote;

/// The Event of a call that was accepted in this reconcile; one per attempt, and none for a repetition within it.
pub(super) fn of(observed: &Observation, plan: &Plan, outcome: &Outcome) -> Option<EventNote> {
    match (outcome, &plan.step) {
        (Outcome::Accepted { id, .. }, _) => {
            let operation = plan.step.operation()?;
            let why = cause::summary(&operation);
            let verb = operation.call();
            Some(match operation.power_cut && verb == Verb::Stop {
                true => power_cut(observed, &operation, id),
                false => {
                    let note = words::accepted(&operation, id);
                    EventNote::normal(row(verb).reason.as_str(), format!("{note} ({why})"))
                }
            })
        }
        (
            Outcome::Release {
                is_new: true,
                failure,
            },
            Step::Release { id, why },
        ) => match failure {
            None => Some(released(observed, id, *why)),
            Some(failure) => failure.is_unknown.then(|| unanswered(id, &failure.message)),
        },
        _ => None,
    }
}

/// The outcome of a release is unknown. For an announced operation, status reports that instead.
fn unanswered(id: &ServerId, why: &str) -> EventNote {
    let note = format!(
        "it is unknown whether server {id} was released ({why}): the release is repeated until the server is gone, which does no \
         harm"
    );
    EventNote::warning("CallOutcomeUnknown", note)
}

fn power_cut(observed: &Observation, operation: &Operation, id: &ServerId) -> EventNote {
    let rule = match (operation.stage, observed.facts.spec.stop_policy.force) {
        (Some(_), _) => "it did not stop for its reinstall",
        (None, ForceStop::Always) => "spec.stopPolicy.force is Always",
        (None, _) => {
            "it did not stop within spec.stopPolicy.gracePeriodSeconds, or its stop failed"
        }
    };
    let why = cause::summary(operation);
    EventNote::warning(
        "ForcedPowerOff",
        format!("the power of server {id} is cut: {rule} ({why})"),
    )
}

fn released(observed: &Observation, id: &ServerId, why: ReleaseReason) -> EventNote {
    match why {
        ReleaseReason::Deleted => EventNote::normal(
            "Releasing",
            format!(
                "the service is releasing server {id}: this Instance is deleted, and spec.deletionPolicy is {:?} (spec of \
                 generation {})",
                observed.facts.spec.deletion_policy, observed.facts.generation
            ),
        ),
        ReleaseReason::Surplus => EventNote::warning(
            "SurplusServerReleased",
            format!("released server {id}: another server is recorded for this Instance"),
        ),
        ReleaseReason::Failed => EventNote::normal(
            "Releasing",
            format!("releasing server {id}, which its failed create left behind"),
        ),
    }
}
