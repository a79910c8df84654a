//! The lines of the log about one Instance: one for each decision, none for a retry that says the same.

use super::act::Outcome;
use super::facts::Facts;
use super::plan::{Plan, ReleaseReason, Step};
use crate::api::{Binding, HistoryEntry, Verb};
use crate::cloud::ServerId;
use crate::runtime::events::News;
use std::time::Duration;

/// Every line names the object, the generation of its spec and, where there is one, its server.
macro_rules! line {
    ($level:ident, $facts:expr, $server:expr, $($rest:tt)+) => {
        tracing::$level!(
            namespace = $facts.key.namespace,
            name = $facts.key.name,
            generation = $facts.generation,
            server = $server,
            $($rest)+
        )
    };
}

/// The service took a call.
pub(super) fn called(facts: &Facts, verb: Verb, id: &ServerId, binding: &Binding) {
    let operation = &binding.operation;
    let secret = operation.target.password_secret.as_ref();
    line!(
        info,
        facts,
        id.as_str(),
        %verb,
        attempt = binding.attempt,
        cause = operation.cause.map(|cause| format!("{cause:?}")),
        secret = secret.filter(|_| verb.bears_login()),
        power_cut = operation.power_cut,
        "the service took the call"
    );
}

/// The service took a call within an attempt.
pub(super) fn called_beside(facts: &Facts, verb: Verb, id: &ServerId, power_cut: bool) {
    let binding = facts.binding();
    let within = binding.map(|binding| binding.operation.verb.to_string());
    line!(
        info,
        facts,
        id.as_str(),
        %verb,
        attempt = binding.map(|binding| binding.attempt),
        within,
        power_cut,
        "the service took the call"
    );
}

/// The service took a release.
pub(super) fn releases(facts: &Facts, id: &ServerId, why: ReleaseReason) {
    line!(info, facts, id.as_str(), verb = %Verb::Release, cause = ?why, "the service took the call");
}

/// An operation ended, and status says so. The words of the service stand there: it may say a password that it refuses.
pub(super) fn ended(facts: &Facts, server: Option<&str>, entry: &HistoryEntry) {
    let outcome = entry
        .reason
        .map_or_else(|| "Succeeded".to_owned(), |reason| format!("{reason:?}"));
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

/// Status says another reason of Ready than before.
pub(super) fn ready(facts: &Facts, server: Option<&str>, is_ready: bool, news: &News) {
    let (reason, why) = (news.reason, &news.note);
    line!(
        info,
        facts,
        server,
        reason,
        ready = is_ready,
        why,
        "condition Ready changed"
    );
}

/// What an Event tells as well.
pub(super) fn told(facts: &Facts, server: Option<&str>, news: &News) {
    line!(info, facts, server, reason = news.reason, "{}", news.note);
}

/// A step was not done, and the last try did not say the same.
pub(super) fn not_done(facts: &Facts, why: &str, what: &'static str) {
    let server = facts.told_id();
    line!(
        warn,
        facts,
        server.as_ref().map(ServerId::as_str),
        why,
        "{what}"
    );
}

/// A reconcile, for whoever wants to know them all.
pub(super) fn reconciled(facts: &Facts, plan: &Plan, outcome: &Outcome, again: Duration) {
    let step = match &plan.step {
        Step::Rest => "rest",
        Step::Call { announce: true, .. } => "call",
        Step::Call { .. } => "call again",
        Step::Aside { .. } => "call within an attempt",
        Step::Record { .. } => "record",
        Step::Secret(_) => "write a Secret",
        Step::Release { .. } => "release",
        Step::Finish => "finish",
        Step::LetGo { .. } => "let go",
    };
    let outcome = match outcome {
        Outcome::Rested => "rested",
        Outcome::Accepted { .. } => "accepted",
        Outcome::Aside { .. } => "called within an attempt",
        Outcome::Refused { .. } => "refused",
        Outcome::Unknown(_) => "unknown",
        Outcome::Written => "written",
        Outcome::Released { .. } => "released",
        Outcome::Finished => "finished",
        Outcome::Stale => "stale",
        Outcome::NotDone(..) => "not done",
    };
    let reason = plan
        .tell
        .verdict
        .as_ref()
        .map(|verdict| verdict.reason.as_str());
    let (server, version) = (facts.told_id(), &facts.resource_version);
    line!(
        debug,
        facts,
        server.as_ref().map(ServerId::as_str),
        version,
        step,
        outcome,
        reason,
        needs = ?plan.needs,
        again_in_ms = u64::try_from(again.as_millis()).unwrap_or(u64::MAX),
        "reconciled"
    );
}
