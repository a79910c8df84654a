//! The next step of one Instance: the open operation, the wait, and the remedy. Pure.

use super::progress::Durations;
use super::readiness::{condition, is_current, is_stalled};
use cloud_server_operator::api::conditions::{READY, Reason, SYNCED};
use cloud_server_operator::api::{Instance, InstanceStatus, Operation};
use jiff::Timestamp;

/// The text for an Instance without a condition Ready, with the remedy.
pub(super) const NEVER_OBSERVED: &str = "The operator has not reported anything about it yet. If this lasts, check that an operator runs and watches this namespace.";
const EDIT_NOT_OBSERVED: &str = "The operator has not observed the newest edit or the deletion yet. If this lasts, check that an operator \
     runs and watches this namespace.";
/// The texts for a reason that this version does not know, since a newer operator wrote it.
const READ_READY: &str = "Read the message of the condition Ready.";
const READ_SYNCED: &str = "read the message of the condition Synced.";
/// Replaces the remedy of `ServerMissing` while the operator does not know whether the server is gone: that remedy lets the user
/// delete the Instance.
const EXISTENCE_UNKNOWN: &str = "Wait: the operator does not know yet whether the server exists.";

/// The description of the next step.
pub(super) fn next(
    instance: &Instance,
    status: &InstanceStatus,
    durations: &Durations,
    now: Timestamp,
) -> String {
    let Some(ready) = condition(&status.conditions, READY) else {
        return NEVER_OBSERVED.to_owned();
    };
    let open = status.operation.as_ref().filter(|one| one.is_open());
    let rest = if !is_current(&instance.metadata, status.observed_generation) {
        EDIT_NOT_OBSERVED.to_owned()
    } else if ready.status != "True" {
        remedy(&ready.reason, status).to_owned()
    } else if open.is_none() {
        idle(status)
    } else {
        String::new()
    };
    let open = open.map(|open| progress(open, durations, now));
    format!("{} {rest}", open.unwrap_or_default())
        .trim()
        .to_owned()
}

/// The text for a Ready Instance without an open operation. While it is not Synced, for example since the service rejects its
/// Account's token, an edit would have to wait for the same remedy.
fn idle(status: &InstanceStatus) -> String {
    let synced = condition(&status.conditions, SYNCED).filter(|synced| synced.status == "False");
    let Some(synced) = synced else {
        return "Nothing, until spec, Secret or server change, or a rotation is due.".to_owned();
    };
    let remedy = Reason::of(&synced.reason).map_or(READ_SYNCED, Reason::remedy);
    format!("Nothing now, but an edit would have to wait: {remedy}")
}

/// The known facts of an open operation.
fn progress(open: &Operation, durations: &Durations, now: Timestamp) -> String {
    let call = match (open.accepted, &open.task_id) {
        (_, Some(task)) => format!("the service accepted its newest call as task {task}"),
        (true, None) => "the service accepted its newest call without a task".to_owned(),
        (false, None) if open.is_refused() => "the service refused it for now".to_owned(),
        (false, None) => "the service has not accepted it yet, or its answer was lost".to_owned(),
    };
    let cause = open.cause.map(|cause| format!(", {cause}"));
    format!(
        "The operator follows the {} (attempt {}{}) until it ends; {call}. {}.",
        open.verb,
        open.attempt,
        cause.unwrap_or_default(),
        durations.progress(open, now)
    )
}

/// The remedy for an Instance that is not Ready for this reason. If only waiting helps, the remedy states that.
fn remedy(reason: &str, status: &InstanceStatus) -> &'static str {
    match Reason::of(reason) {
        Some(Reason::ServerMissing) if !is_stalled(&status.conditions) => EXISTENCE_UNKNOWN,
        Some(reason) => reason.remedy(),
        None => READ_READY,
    }
}
