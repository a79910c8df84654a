//! Each mutating call that the service accepts becomes an Event: the operation, its cause, and the generation of the spec.

use crate::api::{Operation, Verb};
use crate::cloud::ServerId;
use crate::instance::observation::{Observation, of_purchase};
use crate::instance::outcome::Outcome;
use crate::instance::plan::step::{Plan, ReleaseReason, Request, Step};
use crate::instance::plan::{cause, words};
use crate::runtime::events::EventNote;

/// The Event of a call that was accepted in this reconcile; one per attempt, and none for a repetition within it.
pub(super) fn of(observed: &Observation, plan: &Plan, outcome: &Outcome) -> Option<EventNote> {
    match (outcome, &plan.step) {
        (Outcome::Accepted { id, .. }, Step::Buy { .. } | Step::Operate { .. }) => {
            let operation = called(plan)?;
            let why = cause::told(&operation);
            Some(match operation.power_cut {
                true => {
                    let rule = "spec.stopPolicy.force is Always";
                    power_cut(id, &format!("{rule} ({why})"))
                }
                false => {
                    let note = format!("{} ({why})", words::doing(operation.verb, id));
                    EventNote::normal(words::reason(operation.verb).as_str(), note)
                }
            })
        }
        (
            Outcome::Repeatable {
                is_new: true,
                trouble,
            },
            step,
        ) => {
            let unknown = trouble.as_ref().filter(|trouble| trouble.is_unknown);
            match (step, trouble, unknown) {
                (Step::Auxiliary { request }, None, _) => beside(observed, request),
                (Step::Release { id, why }, None, _) => Some(released(observed, id, *why)),
                (Step::Auxiliary { request }, _, Some(unknown)) => {
                    let id = observed.facts.id()?;
                    Some(unanswered(request.verb(), &id, &unknown.message))
                }
                (Step::Release { id, .. }, _, Some(unknown)) => {
                    Some(unanswered(Verb::Release, id, &unknown.message))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// The operation of a step.
fn called(plan: &Plan) -> Option<Operation> {
    match &plan.step {
        Step::Buy { record, .. } => Some(of_purchase(record)),
        Step::Operate { operation, .. } => Some(Operation::clone(operation)),
        _ => None,
    }
}

/// The outcome of the call is unknown. For an announced operation, status reports that instead.
fn unanswered(verb: Verb, id: &ServerId, why: &str) -> EventNote {
    let note = format!(
        "it is not known whether the {verb} of server {id} was carried out ({why}): it is repeated until the server shows it, which does \
         no harm"
    );
    EventNote::warning("CallOutcomeUnknown", note)
}

/// The Event of an auxiliary call within an attempt.
fn beside(observed: &Observation, request: &Request) -> Option<EventNote> {
    let is_cut = matches!(request, Request::Stop { force: true, .. });
    let verb = request.verb();
    let (open, id) = (observed.open()?, observed.facts.id()?);
    let why = cause::told(&open);
    let of_reinstall = open.verb == Verb::Reinstall;
    Some(match (is_cut, of_reinstall) {
        (true, true) => {
            let words = format!("it did not stop for its reinstall ({why})");
            power_cut(&id, &words)
        }
        (true, false) => {
            let rule =
                "it did not stop within spec.stopPolicy.gracePeriodSeconds, or its stop failed";
            power_cut(&id, &format!("{rule} ({why})"))
        }
        (false, _) => EventNote::normal(
            words::reason(verb).as_str(),
            within_reinstall(verb, &id, &why),
        ),
    })
}

/// The stop comes before the reinstall of an attempt, the start after it.
fn within_reinstall(verb: Verb, id: &ServerId, why: &str) -> String {
    let when = match verb {
        Verb::Start => "after",
        _ => "for",
    };
    format!("{} {when} its reinstall ({why})", words::doing(verb, id))
}

fn power_cut(id: &ServerId, why: &str) -> EventNote {
    EventNote::warning(
        "ForcedPowerOff",
        format!("the power of server {id} is cut: {why}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_started_after_its_reinstall_and_stopped_for_it() {
        let id = ServerId::from("ecs-1");
        for (verb, words) in [
            (
                Verb::Start,
                "the service is starting server ecs-1 after its reinstall (why)",
            ),
            (
                Verb::Stop,
                "the service is stopping server ecs-1 for its reinstall (why)",
            ),
        ] {
            assert_eq!(within_reinstall(verb, &id, "why"), words);
        }
    }
}
