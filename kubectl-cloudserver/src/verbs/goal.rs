//! Whether the requested state of an Instance is reached, judged by its status. Pure.

use cloud_server_operator::api::conditions::{READY, Reason, STALLED};
use cloud_server_operator::api::{Instance, InstanceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

/// The state to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// The Instance matches its spec.
    Ready,
    /// The Instance matches its spec, and this restart token was applied.
    Restarted(String),
    /// The Instance matches its spec, and this reinstall token was applied.
    Reinstalled(String),
    /// Status reports the pause, so no operation begins, and none that the service has confirmed is in progress. A call whose
    /// answer was lost may still be carried out.
    Paused,
    /// Everything was observed for this token, and the Instance matches its spec or is paused.
    Observed(String),
}

/// The aim for one object. A status from before the edit does not count, nor the status of a new object of the same
/// name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Goal {
    pub(super) uid: String,
    /// The generation that the edit caused; without an edit, the current one.
    pub(super) generation: i64,
    pub(super) aim: Aim,
}

/// Whether the goal is reached, in words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done(String),
    /// It needs another attempt, or a person.
    Failed(String),
    Waiting(String),
}

/// Judges an Instance; `None` is a deleted one.
pub(super) fn judge(instance: Option<&Instance>, goal: &Goal) -> Outcome {
    use Reason::{CreateFailed, CreateRefused, OperationFailed, OperationRefused};
    let Some(instance) = instance.filter(|one| one.uid().as_deref() == Some(&goal.uid)) else {
        return Outcome::Failed("it was deleted".to_owned());
    };
    if instance.metadata.deletion_timestamp.is_some() {
        return Outcome::Failed("it is being deleted".to_owned());
    }
    let status = instance.status.as_ref();
    let Some(status) = status.filter(|status| status.observed_generation >= goal.generation) else {
        return Outcome::Waiting("the operator has not observed the edit yet".to_owned());
    };
    let Some(ready) = current(status, READY, goal) else {
        return Outcome::Waiting("it has no condition Ready yet".to_owned());
    };
    let words = format!("{}: {}", ready.reason, ready.message);
    let (is_ready, is_applied) = (ready.status == "True", is_applied(status, &goal.aim));
    if is_ready && !is_applied {
        return Outcome::Waiting("the request has not been carried out yet".to_owned());
    }
    let is_stalled = current(status, STALLED, goal).is_some_and(|one| one.status == "True");
    let reason = Reason::of(&ready.reason);
    let is_paused = reason == Some(Reason::Paused);
    // Failures that the operator retries; the waiting user learns of them now.
    let is_failure = matches!(
        reason,
        Some(CreateFailed | CreateRefused | OperationFailed | OperationRefused)
    );
    match &goal.aim {
        Aim::Paused | Aim::Observed(_) if is_paused && is_applied => Outcome::Done(words),
        Aim::Paused | Aim::Observed(_) if is_paused => Outcome::Waiting(words),
        aim if is_ready && *aim != Aim::Paused => Outcome::Done(words),
        _ if is_stalled || is_paused || is_failure => Outcome::Failed(words),
        _ => Outcome::Waiting(words),
    }
}

/// The condition of this type, if it is not older than the edit.
fn current<'a>(status: &'a InstanceStatus, kind: &str, goal: &Goal) -> Option<&'a Condition> {
    let mut all = status.conditions.iter().filter(|one| one.type_ == kind);
    let since = goal.generation;
    all.find(|one| one.observed_generation.is_none_or(|at| at >= since))
}

/// Whether the token of this aim, if it has one, is the last one that was applied; for a pause, whether no accepted
/// operation is in progress.
fn is_applied(status: &InstanceStatus, aim: &Aim) -> bool {
    let applied = status.applied.as_ref();
    match aim {
        Aim::Ready => true,
        Aim::Paused => !(status.operation.as_ref()).is_some_and(|it| it.is_open() && it.accepted),
        Aim::Restarted(token) => applied.and_then(|a| a.restart.as_ref()) == Some(token),
        Aim::Reinstalled(token) => applied.and_then(|a| a.reinstall.as_ref()) == Some(token),
        Aim::Observed(token) => status.last_reconcile_token.as_ref() == Some(token),
    }
}
