//! The ends of operations, and the pauses before they begin again.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{Applied, EndReason, HistoryEntry, Operation, OperationEnd, Retry, Stage, Verb};
use crate::instance::observation::Observation;
use crate::instance::plan::step::StatusChanges;
use crate::instance::plan::{diff, words};
use crate::instance::times;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;

/// The history entry of an operation that ended.
pub(in crate::instance) fn ended(
    observed: &Observation,
    operation: &Operation,
    reason: Option<EndReason>,
    message: Option<String>,
) -> HistoryEntry {
    let secret = operation.target.password_secret.clone();
    HistoryEntry {
        verb: operation.verb,
        attempt: operation.attempt,
        succeeded: reason.is_none(),
        reason,
        message,
        cause: operation.cause,
        generation: Some(operation.generation),
        password_secret: secret.filter(|_| operation.verb.bears_login()),
        power_cut: operation.power_cut,
        started_at: operation.started_at.clone(),
        finished_at: Time(observed.wall_clock),
    }
}

/// The changes of status when an operation ends badly: its end, its entry in the history, and when it may begin again.
pub(in crate::instance) fn badly(
    observed: &Observation,
    operation: Operation,
    reason: EndReason,
    message: &str,
) -> StatusChanges {
    let was_stopped = operation.stage == Some(Stage::Erasing);
    let is_create = operation.verb == Verb::Create;
    let in_a_row = match observed.facts.purchase() {
        Some(record) if is_create => record.failed.saturating_add(1),
        _ => times_before(observed, &operation, reason) + 1,
    };
    let pause = match reason {
        // The server was stopped for it, and each try would be an outage.
        EndReason::Refused if was_stopped && operation.before.running => {
            Some(times::RETRY_REFUSED_AFTER_STOP)
        }
        _ => times::pause_after(reason, in_a_row),
    };
    let message = Some(message.to_owned());
    // The record counts the creates that failed.
    let waits = !is_create && (pause.is_some() || reason == EndReason::OutcomeUnknown);
    let retry = waits.then(|| Retry {
        verb: operation.verb,
        generation: observed.facts.generation,
        target: operation.target.clone(),
        reason,
        message: message.clone(),
        times: in_a_row,
        not_before: pause.map(|pause| Time(observed.wall_clock + pause)),
    });
    let entry = ended(observed, &operation, Some(reason), message.clone());
    StatusChanges {
        operation: Some(with_end(observed, operation, reason, message, in_a_row)),
        ended: Some(entry),
        retry,
        ..StatusChanges::default()
    }
}

/// The operation with this end, for status.
pub(super) fn with_end(
    observed: &Observation,
    operation: Operation,
    reason: EndReason,
    message: Option<String>,
    times: u32,
) -> Operation {
    let end = OperationEnd {
        reason,
        message,
        times,
        finished_at: Time(observed.wall_clock),
    };
    Operation {
        // Only `Stopping` is kept: it shows that the disk was not touched.
        stage: operation.stage.filter(|stage| *stage == Stage::Stopping),
        end: Some(end),
        ..operation
    }
}

/// How often in a row this operation, with this target, ended for this reason or for one with the same pauses.
fn times_before(observed: &Observation, operation: &Operation, reason: EndReason) -> u32 {
    let is_alike = |retry: &&Retry| {
        times::pause_after(retry.reason, 1) == times::pause_after(reason, 1)
            && requested(&retry.target) == requested(&operation.target)
    };
    let retry = retries(observed, operation.verb).find(is_alike);
    retry.map_or(0, |retry| retry.times)
}

/// The target without the power state that the server last had, which is no part of the request.
fn requested(target: &Applied) -> Applied {
    Applied {
        power_state: None,
        ..target.clone()
    }
}

fn retries(observed: &Observation, verb: Verb) -> impl Iterator<Item = &Retry> {
    let retries = observed.facts.status.retries.iter();
    retries.filter(move |retry| retry.verb == verb)
}

/// The rest of the pause before this operation begins again, and why it waits.
pub(super) fn pause(
    observed: &Observation,
    verb: Verb,
    applied: &Applied,
) -> Option<(Duration, Readiness)> {
    let target = diff::target(verb, applied, diff::as_specified(observed));
    let is_same = |retry: &&Retry| {
        retry.generation == observed.facts.generation
            && requested(&retry.target) == requested(&target)
    };
    let retry = retries(observed, verb).find(is_same)?;
    Some((left(observed, retry)?, why(retry)))
}

/// The rest of the pause, by the clock of this process. If more is left than the longest such pause, a clock that ran ahead wrote
/// the time, and it does not count.
fn left(observed: &Observation, retry: &Retry) -> Option<Duration> {
    let until = retry.not_before.as_ref()?.0;
    let left = Duration::try_from(until.duration_since(observed.wall_clock)).ok()?;
    (!left.is_zero() && left <= times::longest_pause_after(retry.reason)).then_some(left)
}

/// The reinstall whose outcome is unknown, while a user must decide what follows.
pub(super) fn undecided<'a>(observed: &'a Observation, applied: &Applied) -> Option<&'a Retry> {
    retries(observed, Verb::Reinstall)
        .find(|it| it.reason == EndReason::OutcomeUnknown && waits(observed, applied, it))
}

/// Whether this operation waits for time or for a user. A reinstall with an unknown outcome waits while the spec still requests it.
/// If the spec, or only its key, went back before that end, it waits for any edit: the server may have the other image or key, and
/// a user who edits has seen the doubt.
pub(super) fn waits(observed: &Observation, applied: &Applied, retry: &Retry) -> bool {
    let (target, key) = (retry.target.clone(), applied.key.clone());
    let desired = diff::target(Verb::Reinstall, applied, diff::as_specified(observed));
    let is_requested = |target: &Applied| is_same_installation(&desired, target);
    let is_other = target.key != key || target.image != applied.image;
    let is_reverted = is_other && is_requested(applied) || is_requested(&Applied { key, ..target });
    retry.reason != EndReason::OutcomeUnknown
        || is_requested(&retry.target)
        || is_reverted && retry.generation == observed.facts.generation
}

/// Whether these request the same installation: image, key and token of a reinstall.
fn is_same_installation(one: &Applied, other: &Applied) -> bool {
    let of = |applied: &Applied| {
        let Applied {
            image,
            key,
            reinstall,
            password_secret: _,
            restart: _,
            power_state: _,
        } = applied.clone();
        (image, key, reinstall)
    };
    of(one) == of(other)
}

/// The readiness to report after an operation ended badly. A failure is `Stalled` once there were as many in a row as
/// [`times::RETRY_FAILED`] has pauses: then waiting hardly helps.
pub(super) fn why(retry: &Retry) -> Readiness {
    let (verb, failed) = (retry.verb, Reason::OperationFailed);
    let message = retry.message.as_deref().unwrap_or_default();
    let is_hopeless =
        usize::try_from(retry.times).is_ok_and(|times| times >= times::RETRY_FAILED.len());
    let failure = format!("the {verb} failed: {message}; it is retried");
    let unknown = format!(
        "the outcome of the {verb} is unknown: {message}; it is retried if the spec still requests it"
    );
    match retry.reason {
        EndReason::Refused => Readiness::refused(message, Reason::OperationRefused),
        EndReason::OutcomeUnknown => words::undecided(message),
        EndReason::AnswerLost => Readiness::reconciling(failed, unknown),
        _ if is_hopeless => Readiness::stalled(failed, failure),
        EndReason::Failed | EndReason::Superseded | EndReason::ServerGone => {
            Readiness::reconciling(failed, failure)
        }
    }
}
