//! The text of `describe` for one Instance.

use super::next::{NEVER_OBSERVED, next};
use super::progress::Durations;
use super::readiness::{about, is_current, readiness};
use crate::output::joined;
use cloud_server_operator::api::conditions::Reason;
use cloud_server_operator::api::names::BINDING;
use cloud_server_operator::api::{HistoryEntry, Instance, InstanceStatus, PurchaseRecord};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

/// The output of `describe`.
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
        lines.push(format!("  {NEVER_OBSERVED}"));
        return lines.join("\n") + "\n";
    };
    lines.push(format!("  {}", server(instance, status)));
    lines.push(String::new());
    let readiness = readiness(
        &instance.metadata,
        status.observed_generation,
        &status.conditions,
    );
    lines.push(format!("State: {readiness}"));
    let is_current = is_current(&instance.metadata, status.observed_generation);
    if !is_current && !status.conditions.is_empty() {
        lines.push("  These conditions are older than the newest edit or the deletion.".to_owned());
    }
    for condition in &status.conditions {
        let since = about(now.duration_since(condition.last_transition_time.0));
        lines.push(format!(
            "  {} has been {} for {since} ({}): {}",
            condition.type_, condition.status, condition.reason, condition.message
        ));
    }
    lines.push(String::new());
    lines.push("Next step".to_owned());
    lines.push(format!("  {}", next(instance, status, durations, now)));
    if !status.history.is_empty() {
        lines.push(String::new());
        lines.push("History, the newest first".to_owned());
        let entries = status.history.iter();
        lines.extend(entries.map(|entry| format!("  {}", history_line(entry, now))));
    }
    joined(&lines) + "\n"
}

fn server(instance: &Instance, status: &InstanceStatus) -> String {
    let Some(id) = &status.id else {
        let record = instance.annotations().get(BINDING);
        return match record.map(|text| PurchaseRecord::parse(text)) {
            Some(Ok(record)) if record.id.is_none() && !record.bought_nothing() => {
                let attempt = record.attempt;
                format!("It may have a server: the record of create {attempt} names none.")
            }
            _ => "Status shows no server.".to_owned(),
        };
    };
    let text = |field: &str| status.detail.get(field).and_then(|value| value.as_str());
    let package = status.package.as_deref();
    let known = [
        text("instanceName").map(|name| format!("called {name}")),
        text("ecsStatus").map(ToOwned::to_owned),
        text("publicIpAddress").map(|address| format!("at {address}")),
        text("imageName").map(|image| format!("with image {image}")),
        package.map(|package| format!("package {package}")),
    ];
    let is_missing = |one: &Condition| one.reason == Reason::ServerMissing.as_str();
    let verb = match status.conditions.iter().any(is_missing) {
        true => "was",
        false => "is",
    };
    let mut words = vec![format!("Its server {verb} {id}")];
    words.extend(known.into_iter().flatten());
    words.join(", ") + "."
}

fn history_line(entry: &HistoryEntry, now: Timestamp) -> String {
    let ago = about(now.duration_since(entry.finished_at.0));
    let took = about(entry.finished_at.0.duration_since(entry.started_at.0));
    let cause = entry.cause.map(|cause| format!(", {cause}"));
    let end = match (entry.succeeded, entry.reason) {
        (true, _) => format!("done in {took}"),
        (false, Some(reason)) => format!("{reason:?} after {took}"),
        (false, None) => format!("not done after {took}"),
    };
    let message = entry.message.as_ref();
    let message = message.map(|message| format!(": {message}"));
    format!(
        "{ago} ago: {} {}: {end}{}{}",
        entry.verb,
        entry.attempt,
        cause.unwrap_or_default(),
        message.unwrap_or_default()
    )
}
