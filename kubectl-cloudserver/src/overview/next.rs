//! The next step of one Instance: the open operation, the wait, and the remedy. Pure.

use super::progress::Durations;
use super::readiness::{condition, is_current, is_stalled};
use cloud_server_operator::api::conditions::{READY, Reason, SYNCED};
use cloud_server_operator::api::{
    DeletionPolicy, Instance, InstanceStatus, Lasts, ManagementPolicy, Operation,
};
use jiff::Timestamp;

/// The text for an object without a status.
pub(super) const NEVER_OBSERVED: &str =
    "The operator has not observed it yet: does one run, and does it watch this namespace?";
const EDIT_NOT_OBSERVED: &str = "The operator has not observed the newest edit yet. If it stays so: does one run, and does it \
     watch this namespace?";
/// The text for a reason of a newer operator.
const READ_THE_MESSAGE: &str = "Read the message of the condition Ready.";
/// A user must not delete an Instance before it is certain that its server is gone.
const STILL_LOOKED_FOR: &str = "Wait: the operator does not know yet whether the server exists.";

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
    let open = status.operation.as_ref().filter(|told| told.is_open());
    let is_current = is_current(&instance.metadata, status.observed_generation);
    let rest = if instance.metadata.deletion_timestamp.is_some() {
        deletion(instance, status, now)
    } else if !is_current {
        EDIT_NOT_OBSERVED.to_owned()
    } else if ready.status != "True" {
        remedy(status)
    } else if open.is_none() {
        at_rest(status)
    } else {
        String::new()
    };
    let open = open.map(|open| follows(open, durations, now));
    let sentences = [open.unwrap_or_default(), rest];
    let said = sentences.iter().filter(|sentence| !sentence.is_empty());
    said.map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// The text for a Ready Instance. If the service rejects the token of its Account, an edit would have to wait for a user.
fn at_rest(status: &InstanceStatus) -> String {
    let nothing = "Nothing, until the spec, a Secret or the server changes.";
    let synced = condition(&status.conditions, SYNCED).filter(|synced| synced.status == "False");
    match synced.map(|synced| Reason::of(&synced.reason)) {
        None => nothing.to_owned(),
        Some(Some(reason)) => format!("Nothing, and no change either: {}", reason.remedy()),
        Some(None) => {
            "Nothing, and no change either: read the message of the condition Synced.".to_owned()
        }
    }
}

/// The known facts of an open operation.
fn follows(open: &Operation, durations: &Durations, now: Timestamp) -> String {
    let call = match (open.accepted, &open.task_id) {
        (_, Some(task)) => format!("the service accepted it as task {task}"),
        (true, None) => "the service accepted it and named no task".to_owned(),
        (false, None) => "the service has not accepted it yet, or its answer was lost".to_owned(),
    };
    let cause = open.cause.map(|cause| format!(", {cause}"));
    format!(
        "The {} (number {}{}) is followed to its end; {call}. {}.",
        open.verb,
        open.attempt,
        cause.unwrap_or_default(),
        durations.progress(open, now)
    )
}

/// The remedy for an Instance that is not Ready. If only waiting helps, the remedy states that.
fn remedy(status: &InstanceStatus) -> String {
    let ready = condition(&status.conditions, READY);
    let reason = ready.and_then(|ready| Reason::of(&ready.reason));
    let words = match reason {
        Some(Reason::ServerMissing) if !is_stalled(&status.conditions) => STILL_LOOKED_FOR,
        Some(reason) => reason.remedy(),
        None => READ_THE_MESSAGE,
    };
    words.to_owned()
}

/// The fate of an Instance that is being deleted, and of its server, which may continue to be billed. The spec overrides status,
/// since only the spec is current.
fn deletion(instance: &Instance, status: &InstanceStatus, now: Timestamp) -> String {
    let spec = &instance.spec;
    let pause = spec.pause.as_ref().map(|pause| pause.lasts(now));
    // The operator checks in this order: the protection holds also during a pause.
    if spec.deletion_protection {
        let remedy = Reason::DeletionProtected.remedy();
        return format!(
            "Nothing is released, and the Instance stays, since spec.deletionProtection is true. {remedy}"
        );
    }
    if pause.is_some_and(|lasts| lasts != Lasts::Over) {
        let remedy = Reason::Paused.remedy();
        return format!("Its deletion waits, and nothing is released meanwhile. {remedy}");
    }
    let ready = condition(&status.conditions, READY).filter(|ready| {
        ready.status != "True" && is_current(&instance.metadata, status.observed_generation)
    });
    let remedy = ready.map(|_| remedy(status)).unwrap_or_default();
    let is_releasing = ready.is_some_and(|ready| ready.reason == Reason::Releasing.as_str());
    let fate = match (kept_by(instance), &status.id) {
        (Some(why), id) => {
            let server = match id {
                Some(id) => format!("server {id}"),
                None => "a server that was bought for it".to_owned(),
            };
            format!(
                "Nothing is released, since {why}: {server} stays at the service, where it continues to be billed, and the \
                 Instance goes."
            )
        }
        (None, Some(id)) if is_releasing => {
            format!("Server {id} is being released; then the Instance goes.")
        }
        (None, Some(id)) => {
            format!("The Instance stays until the service confirms that server {id} is released.")
        }
        (None, None) => {
            "The Instance stays until it is certain that no server of it is left.".to_owned()
        }
    };
    format!("{fate} {remedy}").trim_end().to_owned()
}

/// The field of the spec that retains the server when the Instance is deleted.
fn kept_by(instance: &Instance) -> Option<&'static str> {
    match (
        instance.spec.deletion_policy,
        instance.spec.management_policy,
    ) {
        (DeletionPolicy::Retain, _) => Some("spec.deletionPolicy is Retain"),
        (DeletionPolicy::Release, ManagementPolicy::Observe) => {
            Some("spec.managementPolicy is Observe")
        }
        (DeletionPolicy::Release, ManagementPolicy::Manage) => None,
    }
}
