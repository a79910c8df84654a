//! Most log lines about one Instance, and the Events about calls: mutating calls that the service accepted, with cause and
//! generation of the spec unless the server is surplus, and releases whose outcome is unknown.

use crate::api::conditions::Reason;
use crate::api::{EndReason, HistoryEntry, Operation, Verb};
use crate::cloud::ServerId;
use crate::instance::context::Context;
use crate::instance::facts::Facts;
use crate::instance::observation::Observation;
use crate::instance::outcome::Outcome;
use crate::instance::plan::step::{Plan, ReleaseReason, Step};
use crate::instance::plan::verbs::row;
use crate::instance::plan::{cause, words};
use crate::runtime::events::EventNote;
use crate::runtime::traces;
use std::time::Duration;

/// Every line names the object, the generation of its spec and its server, if it has one.
macro_rules! line {
    ($level:ident, $facts:expr, $server:expr, $($rest:tt)+) => {
        tracing::$level!(
            namespace = $facts.key.namespace,
            name = $facts.key.name,
            generation = $facts.generation,
            server = $server,
            trace_id = traces::id().map(tracing::field::display),
            $($rest)+
        )
    };
}

pub(super) fn called(facts: &Facts, id: &ServerId, operation: &Operation) {
    let verb = operation.call();
    let secret = operation.target.password_secret.as_ref();
    line!(
        info,
        facts,
        id.as_str(),
        %verb,
        attempt = operation.attempt,
        cause = operation.cause.map(|cause| format!("{cause:?}")),
        secret = secret.filter(|_| verb.bears_login()),
        within = operation.stage.map(|_| operation.verb.to_string()),
        power_cut = operation.power_cut && verb == Verb::Stop,
        "the service accepted the call"
    );
}

pub(super) fn releases(facts: &Facts, id: &ServerId, why: ReleaseReason) {
    line!(info, facts, id.as_str(), verb = %Verb::Release, cause = ?why, "the service accepted the call");
}

/// An operation ended, and status shows it: one log line, and its duration in the metrics. The service's message stays in status,
/// since it may contain a refused password.
pub(super) fn ended(context: &Context, facts: &Facts, server: Option<&str>, entry: &HistoryEntry) {
    // Both are wall-clock times, so the clock may have been set back between them.
    let took = entry.finished_at.0.duration_since(entry.started_at.0);
    let took = Duration::try_from(took).unwrap_or_default();
    let label = entry.reason.map_or("succeeded", EndReason::as_str);
    context
        .metrics
        .operations
        .observe([entry.verb.as_str(), label], took);
    let failure = entry.reason.map(|reason| format!("{reason:?}"));
    let outcome = failure.unwrap_or_else(|| "Succeeded".to_owned());
    line!(
        info,
        facts,
        server,
        verb = %entry.verb,
        attempt = entry.attempt,
        cause = entry.cause.map(|cause| format!("{cause:?}")),
        outcome,
        power_cut = entry.power_cut,
        "the operation ended"
    );
}

/// The condition Ready has a new status or reason. Its message stays in status: it may quote the service's answer with a refused
/// password, and a log may reach more readers.
pub(super) fn ready(facts: &Facts, server: Option<&str>, ready: bool, reason: &str) {
    line!(
        info,
        facts,
        server,
        reason,
        ready,
        "condition Ready changed"
    );
}

/// An Event that the plan requested.
pub(super) fn planned(facts: &Facts, server: Option<&str>, event: &EventNote) {
    line!(info, facts, server, reason = event.reason, "{}", event.note);
}

/// A failure: a call or a write was refused or failed, or its outcome is unknown.
pub(super) fn not_done(facts: &Facts, why: &str, what: &'static str) {
    let server = facts.status_id();
    let server = server.as_ref().map(ServerId::as_str);
    line!(warn, facts, server, why, "{what}");
}

/// One line per reconcile, at debug level.
pub(super) fn reconciled(facts: &Facts, plan: &Plan, again: Duration) {
    let step = match &plan.step {
        Step::Rest => "nothing",
        Step::Buy { announce: true, .. } | Step::Operate { announce: true, .. } => "call",
        Step::Buy { .. } | Step::Operate { .. } => "call again",
        Step::Record { .. } => "record",
        Step::Secret(_) => "write a Secret",
        Step::Release { .. } => "release",
        Step::Finish => "finish",
        Step::Retain { .. } => "remove the finalizer and keep the server",
    };
    let reason = plan.reason().map(Reason::as_str);
    let (server, version) = (facts.status_id(), &facts.resource_version);
    line!(
        debug,
        facts,
        server.as_ref().map(ServerId::as_str),
        version,
        step,
        reason,
        needs = ?plan.needs,
        again_in_ms = u64::try_from(again.as_millis()).unwrap_or(u64::MAX),
        "reconciled"
    );
}

/// The Event of a call that the service accepted in this reconcile, or of a release whose outcome is unknown. A repeated release
/// gets one only if its result is new.
pub(super) fn event_of_call(
    observed: &Observation,
    plan: &Plan,
    outcome: &Outcome,
) -> Option<EventNote> {
    match (outcome, &plan.step) {
        (Outcome::Accepted { id, .. }, _) => {
            let operation = plan.step.operation()?;
            let (verb, why) = (operation.call(), cause::summary(&operation));
            Some(match operation.power_cut && verb == Verb::Stop {
                true => {
                    let note = format!(
                        "the power of server {id} is cut: its stop took too long (spec.stopPolicy.gracePeriodSeconds, or 30 s for \
                         a reinstall), failed or was refused, or spec.stopPolicy.force is Always ({why})"
                    );
                    EventNote::warning("ForcedPowerOff", note)
                }
                false => {
                    let running = words::running(&operation, id);
                    let note = format!("the service is {running} ({why})");
                    EventNote::normal(row(verb).reason.as_str(), note)
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

fn released(observed: &Observation, id: &ServerId, why: ReleaseReason) -> EventNote {
    let cause = match why {
        ReleaseReason::Surplus => {
            let note =
                format!("the service is releasing server {id}: this Instance has another one");
            return EventNote::warning("SurplusServerReleased", note);
        }
        ReleaseReason::Deleted => "this Instance is deleted, and spec.deletionPolicy is Release",
        ReleaseReason::Failed => "its create failed and left it behind",
    };
    let generation = observed.facts.generation;
    let note =
        format!("the service is releasing server {id}: {cause} (spec of generation {generation})");
    EventNote::normal("Releasing", note)
}
