//! What `describe` says of one Instance, in sentences.

use super::progress::Durations;
use super::standing::{about, condition, standing};
use crate::api::conditions::{READY, Reason, STALLED};
use crate::api::{HistoryEntry, Instance, InstanceStatus, printable};
use jiff::Timestamp;
use kube::ResourceExt;

const NOT_LOOKED_AT: &str =
    "The operator has not looked at it yet: does one run, and does it watch this namespace?";

/// All of it.
pub(super) fn describe(instance: &Instance, durations: &Durations, now: Timestamp) -> String {
    let created = instance.metadata.creation_timestamp.as_ref();
    let age = created.map(|created| about(now.duration_since(created.0)));
    let mut lines = vec![format!(
        "Instance {}/{}, {} old, of Account {}",
        instance.namespace().unwrap_or_default(),
        instance.name_any(),
        age.unwrap_or_else(|| "0 s".to_owned()),
        instance.spec.account_ref.name,
    )];
    let Some(status) = &instance.status else {
        lines.push(format!("  {NOT_LOOKED_AT}"));
        return lines.join("\n") + "\n";
    };
    lines.push(format!("  {}", server(status)));
    lines.push(String::new());
    lines.push(format!("How it stands: {}", standing(&status.conditions)));
    for told in &status.conditions {
        let since = about(now.duration_since(told.last_transition_time.0));
        lines.push(format!(
            "  {} is {} since {since} ({}): {}",
            told.type_, told.status, told.reason, told.message
        ));
    }
    let is_seen = status.observed_generation >= instance.metadata.generation.unwrap_or(0);
    if !is_seen && !status.conditions.is_empty() {
        lines.push("  The newest edit of the spec was not looked at yet.".to_owned());
    }
    lines.push(String::new());
    lines.push("What comes next".to_owned());
    lines.push(format!("  {}", next(instance, status, durations, now)));
    if !status.history.is_empty() {
        lines.push(String::new());
        lines.push("What was done, the newest first".to_owned());
        lines.extend(
            status
                .history
                .iter()
                .map(|entry| format!("  {}", ended(entry, now))),
        );
    }
    let lines: Vec<String> = lines
        .iter()
        .map(|line| printable(line).into_owned())
        .collect();
    lines.join("\n") + "\n"
}

fn server(status: &InstanceStatus) -> String {
    let Some(id) = &status.id else {
        return "It has no server.".to_owned();
    };
    let text = |field: &str| status.detail.get(field).and_then(|value| value.as_str());
    let package = status.package.as_deref();
    let told = [
        text("instanceName").map(|name| format!("called {name}")),
        text("ecsStatus").map(ToOwned::to_owned),
        text("publicIpAddress").map(|address| format!("at {address}")),
        text("imageName").map(|image| format!("with image {image}")),
        package.map(|package| format!("package {package}")),
    ];
    let told = told.into_iter().flatten();
    let words: Vec<String> = std::iter::once(format!("Its server is {id}"))
        .chain(told)
        .collect();
    words.join(", ") + "."
}

/// What is being done or waited for, and what a person can do about it.
fn next(
    instance: &Instance,
    status: &InstanceStatus,
    durations: &Durations,
    now: Timestamp,
) -> String {
    let ready = condition(&status.conditions, READY);
    if ready.is_none() {
        return NOT_LOOKED_AT.to_owned();
    }
    let reason = ready.and_then(|ready| Reason::of(&ready.reason));
    let remedy = reason.map_or("", Reason::remedy);
    if let Some(open) = status.operation.as_ref().filter(|told| told.is_open()) {
        let call = match (open.accepted, &open.task_id) {
            (_, Some(task)) => format!("the service took it as task {task}"),
            (true, None) => "the service took it and named no task".to_owned(),
            (false, None) => "the service has not taken it yet, or its answer was lost".to_owned(),
        };
        let cause = open
            .cause
            .map(|cause| format!(", {cause}"))
            .unwrap_or_default();
        return format!(
            "The {} (number {}{cause}) is followed to its end; {call}. {}. {remedy}",
            open.verb,
            open.attempt,
            durations.progress(open, now)
        );
    }
    if instance.metadata.deletion_timestamp.is_some() {
        return format!("Its server is released, then it goes. {remedy}");
    }
    let is_stalled =
        condition(&status.conditions, STALLED).is_some_and(|stalled| stalled.status == "True");
    match ready.map(|ready| ready.status.as_str()) {
        Some("True") => "Nothing, until the spec, a Secret or the server changes.".to_owned(),
        _ if is_stalled => format!("Somebody has to mend something. {remedy}"),
        _ => format!("It goes on by itself. {remedy}"),
    }
}

fn ended(entry: &HistoryEntry, now: Timestamp) -> String {
    let ago = about(now.duration_since(entry.finished_at.0));
    let took = about(entry.finished_at.0.duration_since(entry.started_at.0));
    let cause = entry
        .cause
        .map(|cause| format!(", {cause}"))
        .unwrap_or_default();
    let end = match (entry.succeeded, entry.reason) {
        (true, _) => format!("done in {took}{cause}"),
        (false, Some(reason)) => format!("{reason:?} after {took}{cause}"),
        (false, None) => format!("not done after {took}{cause}"),
    };
    let message = entry
        .message
        .as_ref()
        .map(|message| format!(": {message}"))
        .unwrap_or_default();
    format!(
        "{ago} ago: {} {}: {end}{message}",
        entry.verb, entry.attempt
    )
}
