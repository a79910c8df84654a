//! Measures how long edits and operations take.

use crate::api::{EndReason, HistoryEntry, InstanceStatus, Verb};
use crate::instance::context::Context;
use crate::instance::facts::Facts;
use crate::instance::memory::{Memory, open};
use crate::instance::plan::step::Step;
use crate::instance::status::{is_stalled, ready};
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// The verb of an edit that needed no operation.
const NO_OPERATION: &str = "none";

/// A status was written: measures the operation and the edit that it shows as ended.
pub(super) fn told(
    context: &Context,
    facts: &Facts,
    status: &InstanceStatus,
    ended: Option<&HistoryEntry>,
    memory: &Mutex<Memory>,
) {
    if let Some(entry) = ended {
        let (verb, outcome) = (entry.verb.as_str(), outcome(entry.reason));
        context.metrics.operation(verb, outcome, lasted(entry));
    }
    let Some(outcome) = end_of_edit(status, facts.generation) else {
        return;
    };
    let newest = status.history.first();
    let newest = newest.filter(|entry| entry.generation == Some(facts.generation));
    let verb = newest.map_or(NO_OPERATION, |entry| entry.verb.as_str());
    let took = open(memory).edit_ended(facts.generation, Instant::now());
    if let Some(took) = took {
        context.metrics.edit(verb, outcome, took);
    }
}

/// The object is about to go: measures its deletion.
pub(super) fn gone(context: &Context, facts: &Facts, step: &Step, memory: &Mutex<Memory>) {
    let took = open(memory).edit_ended(facts.generation, Instant::now());
    let Some(took) = took.filter(|_| facts.deleting) else {
        return;
    };
    let verb = match step {
        Step::LetGo { .. } => "retain",
        _ => Verb::Release.as_str(),
    };
    context.metrics.edit(verb, "gone", took);
}

/// How the edit of this generation ended according to status, if status shows its end.
fn end_of_edit(status: &InstanceStatus, generation: i64) -> Option<&'static str> {
    if status.observed_generation != generation {
        return None;
    }
    let conditions = &status.conditions;
    if ready(conditions).is_some_and(|ready| ready.status == "True") {
        return Some("done");
    }
    is_stalled(conditions).then_some("stalled")
}

fn outcome(reason: Option<EndReason>) -> &'static str {
    match reason {
        None => "succeeded",
        Some(EndReason::Failed) => "failed",
        Some(EndReason::Refused) => "refused",
        Some(EndReason::AnswerLost) => "answer_lost",
        Some(EndReason::Superseded) => "superseded",
        Some(EndReason::ServerGone) => "server_gone",
    }
}

/// From the intent to the end. Both are wall-clock times, so the clock may have been set back between them.
fn lasted(entry: &HistoryEntry) -> Duration {
    let took = entry.finished_at.0.duration_since(entry.started_at.0);
    took.try_into().unwrap_or_default()
}
