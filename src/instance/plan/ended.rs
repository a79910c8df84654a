//! The ends of operations, and the pauses before they are repeated.

use crate::api::conditions::Reason;
use crate::api::{Applied, EndReason, HistoryEntry, Operation, OperationEnd, Verb};
use crate::instance::observation::Observation;
use crate::instance::plan::why::Why;
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
        power_cut: operation.power_cut || observed.memory.calls.cut_for == Some(operation.attempt),
        started_at: operation.started_at.clone(),
        finished_at: Time(observed.wall_clock),
    }
}

/// The end of an operation, for status.
pub(in crate::instance) fn end(
    observed: &Observation,
    reason: EndReason,
    words: &str,
    times: u32,
) -> OperationEnd {
    OperationEnd {
        reason,
        message: Some(words.to_owned()),
        times,
        finished_at: Time(observed.wall_clock),
    }
}

/// The pause before the same operation after its n-th such end in a row; None if it is not repeated.
pub(in crate::instance) fn pause_after(reason: EndReason, times: u32) -> Option<Duration> {
    let nth = |pauses: &[Duration]| {
        let last = usize::try_from(times.saturating_sub(1)).unwrap_or(usize::MAX);
        pauses[last.min(pauses.len() - 1)]
    };
    match reason {
        EndReason::Failed | EndReason::AnswerLost => Some(nth(&times::RETRY_FAILED)),
        EndReason::Refused => Some(nth(&times::RETRY_REFUSED)),
        EndReason::Superseded | EndReason::ServerGone => None,
    }
}

/// How often in a row an operation of this verb ended like this, from this process's memory or from the newest operation in
/// status.
pub(in crate::instance) fn times(observed: &Observation, verb: Verb, reason: EndReason) -> u32 {
    let is_alike = |end: &OperationEnd| pause_after(end.reason, 1) == pause_after(reason, 1);
    let end = last_end(observed, verb).filter(|end| is_alike(end));
    end.map_or(0, |end| end.times)
}

pub(super) fn last_end(observed: &Observation, verb: Verb) -> Option<&OperationEnd> {
    let told = observed.facts.status.operation.as_ref();
    let told = told.filter(|told| told.verb == verb);
    let known = observed.memory.calls.pauses.get(&verb);
    let known = known.and_then(|pause| pause.end.as_ref());
    told.and_then(|told| told.end.as_ref()).or(known)
}

/// The rest of the pause before the same operation, from this process's memory or from status, where a former process may have
/// written the end.
pub(super) fn pause(observed: &Observation, verb: Verb, applied: &Applied) -> Option<Duration> {
    let wish = diff::target(verb, applied, diff::as_specified(observed));
    let is_same = |generation: i64, target: &Applied| {
        generation == observed.facts.generation && *target == wish
    };
    let known = observed.memory.calls.pauses.get(&verb);
    let known = known
        .filter(|pause| is_same(pause.generation, &pause.target))
        .map(|pause| pause.until.saturating_duration_since(observed.now));
    let told = observed.facts.status.operation.as_ref();
    let told = told.filter(|told| told.verb == verb && is_same(told.generation, &told.target));
    let told = told.and_then(|told| left(observed, told.end.as_ref()?));
    known.max(told).filter(|left| !left.is_zero())
}

/// The rest of the pause after this end.
pub(super) fn left(observed: &Observation, end: &OperationEnd) -> Option<Duration> {
    let whole = pause_after(end.reason, end.times)?;
    let age = observed.wall_clock.as_second() - end.finished_at.0.as_second();
    // An end in the future is ignored: with a clock that far ahead, the pause would never be over.
    let age = Duration::from_secs(u64::try_from(age).ok()?);
    Some(whole.saturating_sub(age))
}

/// Why an operation waits: how it ended the last time.
pub(super) fn waiting(observed: &Observation, verb: Verb) -> Why {
    match last_end(observed, verb) {
        Some(end) => {
            let words = end.message.as_deref().unwrap_or_default();
            told(verb, end.reason, words, end.times)
        }
        None => words::restless(verb).into(),
    }
}

pub(super) fn told(verb: Verb, reason: EndReason, words: &str, times: u32) -> Why {
    let is_hopeless = usize::try_from(times).is_ok_and(|times| times >= times::RETRY_FAILED.len());
    match reason {
        EndReason::Refused => Why::refused(words, Reason::OperationRefused),
        EndReason::AnswerLost => words::lost(verb, words).into(),
        EndReason::Failed | EndReason::Superseded | EndReason::ServerGone => {
            words::failed(verb, words, is_hopeless).into()
        }
    }
}
