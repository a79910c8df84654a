//! Says what was seen and done: one status, written only if something but time differs; then Events.

mod audit;
mod gainsaid;
mod synced;

pub use synced::again as confirmed_again;

use super::act::Outcome;
use super::facts::Facts;
use super::memory::{Memory, Said, open};
use super::observe::Observation;
use super::plan::{Plan, Step, Tell, doing, ended, operation, refused};
use super::references;
use super::{Context, journal};
use crate::api::conditions::{READY, Reason, STALLED, SYNCED, Synced, Verdict};
use crate::api::names::BINDING;
use crate::api::{Addresses, Binding, EndReason, Instance, InstanceStatus, Verb, printable};
use crate::cloud::ServerId;
use crate::runtime::KubeError;
use crate::runtime::events::News;
use crate::runtime::kubernetes::{call, json_patch, patch_params, pointer};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::Api;
use kube::api::PartialObjectMeta;
use serde_json::{Map, Value, json};
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// A progress that ends within this time is not worth a write (design section 6).
pub const PROGRESS_AFTER: Duration = Duration::from_secs(2);
/// The wait for the request limit is shown later: a whole fleet that is applied at once is through it sooner than that, and
/// who waits longer wonders.
const IN_LINE_AFTER: Duration = Duration::from_secs(10);
/// Entries of the history that are kept.
const HISTORY: usize = 8;
/// Fields of the service that move by themselves: fresh in status only together with another change.
const SELF_MOVING: [&str; 1] = ["usedFlow"];

/// Fields of the service that tell how a server stands.
const STATES: [&str; 2] = ["ecsStatus", "ecsPendingStatus"];

/// Why a status that is to be written is not.
#[derive(Debug)]
pub enum Unsaid {
    /// It could not be written.
    Failed(KubeError),
    /// It could not be written a moment ago: what wakes the object meanwhile makes no write of it. With the rest of the wait.
    TooSoon(Duration),
}

/// Writes status if it changed, tells Events, and gives what is still to be written: a progress that has to last first.
///
/// # Errors
/// The status is not written. Nothing is lost: a later turn says it again.
pub async fn report(
    context: &Context,
    seen: &Observation,
    plan: &Plan,
    outcome: &Outcome,
    memory: &Mutex<Memory>,
) -> Result<Option<Duration>, Unsaid> {
    let said = tell_status(context, seen, plan, outcome, memory).await;
    // That the service took a call is told whatever became of the status.
    if let Some(news) = audit::of(seen, plan, outcome) {
        context.events.tell(&seen.facts.reference, &news).await;
    }
    said
}

async fn tell_status(
    context: &Context,
    seen: &Observation,
    plan: &Plan,
    outcome: &Outcome,
    memory: &Mutex<Memory>,
) -> Result<Option<Duration>, Unsaid> {
    if matches!(outcome, Outcome::Stale | Outcome::Finished) {
        // What the plan was made from is not what stands: there is nothing to say about it.
        return Ok(None);
    }
    let facts = &seen.facts;
    let verdict = verdict(plan, outcome);
    let tell = &tell(seen, plan, outcome);
    let status = status(facts, seen.wall, tell, verdict.as_ref());
    let held = hold(seen, tell, verdict.as_ref(), outcome, memory)
        .or_else(|| gainsaid::wait(facts, tell, verdict.as_ref().map(|_| &status)?, memory));
    let held = held.or_else(|| synced::wait(facts, &status, memory));
    let writes = held.is_none()
        && (differs(&facts.status, &status) || is_owed_its_package(facts, &status, memory));
    if writes {
        if let Some(until) = open(memory).unsaid_until.filter(|until| seen.now < *until) {
            return Err(Unsaid::TooSoon(until - seen.now));
        }
        let said = say(
            context,
            facts,
            &plan.step,
            &status,
            verdict.as_ref(),
            memory,
        )
        .await;
        if !said.map_err(Unsaid::Failed)? {
            // There is nobody to tell: nor are there Events about what was seen of an object that is gone.
            return Ok(None);
        }
    }
    let changed = change_of_ready(&facts.status.conditions, &status.conditions)
        .filter(|news| writes && !audit::tells(news, seen, tell, outcome));
    // What a plan has to tell is told with the status that shows it, or once its record is written.
    let told = writes || matches!(outcome, Outcome::Written);
    let planned = || tell.news.iter().filter(|_| told);
    let server = tell.id.as_ref().map(ServerId::as_str);
    match tell.ended.as_ref().filter(|_| writes) {
        Some(entry) => journal::ended(facts, server, entry),
        None => planned().for_each(|news| journal::told(facts, server, news)),
    }
    for news in changed.iter().chain(planned()) {
        context.events.tell(&facts.reference, news).await;
    }
    Ok(held)
}

/// Writes a status and remembers it. False when the object is gone.
pub(super) async fn say(
    context: &Context,
    facts: &Facts,
    step: &Step,
    status: &InstanceStatus,
    verdict: Option<&Verdict>,
    memory: &Mutex<Memory>,
) -> Result<bool, KubeError> {
    let written = write(context, facts, step, status).await;
    let said = verdict.map(|verdict| Said {
        at: Instant::now(),
        generation: facts.generation,
        reason: verdict.reason,
        message: ready(&status.conditions).map_or_else(String::new, |c| c.message.clone()),
        is_stalled: is_stalled(&status.conditions),
        id: status.id.clone(),
    });
    let (now, mut memory) = (Instant::now(), open(memory));
    // An edit is acknowledged by a status that stands, not by one that is on its way. Where none is let in, nothing waits for it.
    let is_let_in = |error: &KubeError| !error.is_refusal() || error.is_overtaken();
    let is_told = written.as_ref().err().is_none_or(|error| !is_let_in(error));
    if is_told {
        memory.acknowledged = Some(status.observed_generation);
    }
    match written {
        Ok(Some(version)) => {
            if gainsaid::stands(facts, &memory) {
                memory.gainsaid = Some(now);
            }
            let news = change_of_ready(&facts.status.conditions, &status.conditions);
            if let (Some(news), Some(now)) = (news, ready(&status.conditions)) {
                journal::ready(facts, status.id.as_deref(), now.status == "True", &news);
            }
            memory.unsaid_until = None;
            memory.wrote(Some(&version), now);
            (memory.said, memory.unanswered) = (said, None);
            Ok(true)
        }
        Ok(None) => Ok(false),
        Err(error) => {
            if error.may_have_happened() {
                memory.unanswered = said;
            }
            Err(error)
        }
    }
}

/// What the plan had to tell, and what came of its call: the operation that runs now, or one that the service does not
/// want, which ends its attempt.
fn tell(seen: &Observation, plan: &Plan, outcome: &Outcome) -> Tell {
    let mut tell = plan.tell.clone();
    tell.resolved = references::pins(seen);
    tell.synced = synced::synced(seen);
    tell.package = references::package(seen).map(|package| package.id);
    if matches!(plan.step, Step::Record { .. }) && !matches!(outcome, Outcome::Written) {
        // What is not on record is not its server: told in status all the same, it would stand in the way of whoever has it.
        tell.id = tell.id.filter(|id| seen.facts.id().as_ref() == Some(id));
    }
    let Step::Call {
        binding, announce, ..
    } = &plan.step
    else {
        return tell;
    };
    match outcome {
        Outcome::Accepted { task, .. } => tell.operation = Some(operation(binding, task.as_ref())),
        // What the service has to be stopped for is ended by a look at it.
        Outcome::Refused {
            message,
            reason: Reason::OperationRefused,
            ..
        } if *announce => {
            let reason = Some(EndReason::Refused);
            tell.ended = Some(ended(seen, binding, reason, Some(message.clone())));
        }
        _ => {}
    }
    tell
}

/// What to say, now that the step is done or was not.
fn verdict(plan: &Plan, outcome: &Outcome) -> Option<Verdict> {
    match outcome {
        // The plan that has it stopped says so.
        Outcome::Refused {
            reason: Reason::Stopping,
            ..
        } => None,
        // The Account, which knows the remedy, is looked at first.
        Outcome::Refused {
            reason: Reason::TokenRefused,
            ..
        } if matches!(plan.step, Step::Call { announce: true, .. }) => None,
        Outcome::Refused {
            message, reason, ..
        } => Some(refused(message, *reason)),
        Outcome::Accepted { verb, id, .. } if *verb != Verb::Create => {
            let planned = plan.tell.verdict.as_ref()?;
            Some(Verdict::reconciling(planned.reason, doing(*verb, id)))
        }
        // The next look says that the outcome is unknown, and what follows from that.
        Outcome::Unknown(_) => None,
        Outcome::NotDone(_, verdict) => verdict.clone(),
        Outcome::Stale | Outcome::Finished => None,
        Outcome::Rested
        | Outcome::Accepted { .. }
        | Outcome::Aside { .. }
        | Outcome::Written
        | Outcome::Released { .. } => plan.tell.verdict.clone(),
    }
}

/// Whether the verdict waits. A progress is shown when it has stood for [`PROGRESS_AFTER`] and the task, if there is one,
/// was found running; while its reason stands in status, other words for it are not worth a write. Gives the rest of the
/// wait.
fn hold(
    seen: &Observation,
    tell: &Tell,
    verdict: Option<&Verdict>,
    outcome: &Outcome,
    memory: &Mutex<Memory>,
) -> Option<Duration> {
    let facts = &seen.facts;
    let now = Instant::now();
    let mut memory = open(memory);
    let at_once = match outcome {
        // Trouble of the service that the next try may already have behind it.
        Outcome::Refused { reason, .. } => {
            !matches!(reason, Reason::RateLimited | Reason::ServiceUnreachable)
        }
        Outcome::NotDone(..) => true,
        _ => !tell.progress || is_owed(facts, tell),
    };
    let Some(verdict) = verdict.filter(|_| !at_once) else {
        if verdict.is_some() {
            memory.held = None;
        }
        return None;
    };
    let shown =
        ready(&facts.status.conditions).is_some_and(|c| c.reason == verdict.reason.as_str());
    let is_new_operation = tell.operation.is_some() && facts.status.operation.is_none();
    if shown && !is_new_operation {
        let news = tell.id.is_some()
            && tell.id.as_ref().map(ServerId::as_str) != facts.status.id.as_deref();
        let stale = facts.status.observed_generation != facts.generation;
        return (!news && !stale).then_some(super::plan::LONG);
    }
    let since = match memory.held {
        Some((reason, since)) if reason == verdict.reason => since,
        _ => now,
    };
    memory.held = Some((verdict.reason, since));
    let unasked = memory.poll.as_ref().is_some_and(|poll| poll.last.is_none());
    if seen.following.is_some() && unasked {
        // The first query comes when such tasks are usually done.
        return Some(super::plan::LONG);
    }
    let after = match verdict.reason {
        Reason::RequestLimitReached => IN_LINE_AFTER,
        _ => PROGRESS_AFTER,
    };
    let rest = (since + after).saturating_duration_since(now);
    (!rest.is_zero()).then_some(rest)
}

/// Whether status must tell of a running operation at once: it holds the only receipt, or it still says that all is as the
/// spec wants it, or why nothing is done.
fn is_owed(facts: &Facts, tell: &Tell) -> bool {
    let Some(operation) = &tell.operation else {
        return false;
    };
    let status = &facts.status;
    let holds_receipt = operation.verb.is_harmless_twice()
        && operation.task_id.is_some()
        && status.operation.as_ref() != Some(operation);
    let is_current = status.observed_generation == facts.generation;
    let shown = ready(&status.conditions);
    let says_ready = shown.is_some_and(|c| c.status == "True");
    // What stood in the way, or was about to come, is not so any more.
    let reason = tell.verdict.as_ref().map(|verdict| verdict.reason.as_str());
    let is_told = shown.is_some_and(|shown| Some(shown.reason.as_str()) == reason);
    let is_untrue = !says_ready
        && !is_told
        && operation.verb != Verb::Create
        && operation.task_id.is_some()
        && status.operation.is_none();
    holds_receipt || is_untrue || (is_current && says_ready)
}

/// The status that follows. Pure.
pub fn status(
    facts: &Facts,
    wall: Timestamp,
    tell: &Tell,
    verdict: Option<&Verdict>,
) -> InstanceStatus {
    let former = &facts.status;
    let mut next = InstanceStatus::clone(former);
    if let Some(verdict) = verdict {
        next.observed_generation = facts.generation;
        next.conditions = verdict.to_conditions(&former.conditions, facts.generation, wall);
        next.operation.clone_from(&tell.operation);
    }
    let told = tell.id.as_ref().map(ServerId::as_str);
    let is_another = told.is_some() && next.id.is_some() && told != next.id.as_deref();
    if tell.forget_server || is_another {
        next.id = None;
        next.detail.clear();
        next.addresses = None;
        next.applied = None;
        next.resolved = None;
        next.package = None;
    }
    if let Some(id) = &tell.id {
        next.id = Some(id.to_string());
    }
    if let Some(applied) = &tell.applied {
        next.applied = Some(applied.clone());
    }
    if let Some(token) = &tell.reconciled {
        next.last_reconcile_token = Some(token.clone());
    }
    // What a server shows is told with what follows from it: it may not be as the Ready of before says.
    let says_ready = ready(&former.conditions).is_some_and(|c| c.status == "True");
    if let Some(detail) = &tell.detail
        && (verdict.is_some() || !says_ready)
    {
        next.detail = detail.clone();
        next.addresses = addresses(detail);
    }
    let is_gone = |verdict: &Verdict| {
        matches!(
            verdict.reason,
            Reason::ServerMissing | Reason::RecreateLimitReached
        )
    };
    if verdict.is_some_and(is_gone) {
        // Neither is known of a server that is not there.
        next.addresses = None;
        for field in STATES {
            next.detail.remove(field);
        }
    }
    if let Some(entry) = &tell.ended
        && next
            .history
            .iter()
            .all(|known| known.attempt != entry.attempt)
    {
        next.history.insert(0, entry.clone());
        next.history.truncate(HISTORY);
        next.operation = None;
    }
    // While nothing is bought, nothing is pinned.
    if verdict.is_some() {
        next.resolved = tell.resolved.clone().filter(|_| next.id.is_some());
        // What a filter finds meanwhile may be another one each time.
        let is_settled = next.id.is_some() || facts.spec.package.code.is_some();
        let known = || next.package.clone().filter(|_| next.id.is_some());
        next.package = tell.package.clone().filter(|_| is_settled).or_else(known);
    }
    let stood = former.conditions.iter().find(|told| told.type_ == SYNCED);
    let is_false = stood.is_some_and(|told| told.status == "False");
    let now = match &tell.synced {
        // That all is well is said with the next change, unless it was not.
        Some(Synced::Yes) if !is_false && stood.is_none() && !differs(former, &next) => None,
        Some(synced) => Some(synced.to_condition(&former.conditions, facts.generation, wall)),
        None => stood.cloned(),
    };
    next.conditions.retain(|told| told.type_ != SYNCED);
    next.conditions.extend(now);
    if differs(former, &next) || former.package != next.package {
        next.last_observed_time = Some(Time(wall));
        next
    } else {
        InstanceStatus::clone(former)
    }
}

fn addresses(detail: &Map<String, Value>) -> Option<Addresses> {
    let text = |field: &str| {
        detail
            .get(field)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
            .map(|text| printable(text).into_owned())
    };
    let addresses = Addresses {
        public: text("publicIpAddress"),
        internal: text("internalIpAddress"),
    };
    (addresses != Addresses::default()).then_some(addresses)
}

/// Whether the package is all that a status lacks, which one of an older version does: told once in the life of a process. Where the
/// older CustomResourceDefinition is still installed, the apiserver drops the field, and it would be written for ever.
fn is_owed_its_package(facts: &Facts, next: &InstanceStatus, memory: &Mutex<Memory>) -> bool {
    facts.status.package != next.package && open(memory).said.is_none()
}

/// Whether two statuses differ in anything that is worth a write: times and what moves by itself are not, and the package comes
/// with what shows that it was chosen.
fn differs(former: &InstanceStatus, next: &InstanceStatus) -> bool {
    let core = |status: &InstanceStatus| {
        let mut core = status.clone();
        core.last_observed_time = None;
        core.package = None;
        for field in SELF_MOVING {
            core.detail.remove(field);
        }
        core
    };
    core(former) != core(next)
}

/// JSON patch on `/status`: test the UID and the generation that status speaks of, then put the whole status. A merge would
/// never remove a field, a namesake that was re-created meanwhile must not get it, and what a process says whose watch is
/// late (it has just taken over) must not take back what its predecessor said of a newer spec, or of an operation that it has
/// announced since. Gives the new version; none when the object is gone.
async fn write(
    context: &Context,
    facts: &Facts,
    step: &Step,
    status: &InstanceStatus,
) -> Result<Option<String>, KubeError> {
    const WHAT: &str = "write the status";
    let mut operations = vec![
        json!({"op": "test", "path": "/metadata/uid", "value": facts.uid}),
        json!({"op": "test", "path": "/status/observedGeneration", "value": facts.status.observed_generation}),
    ];
    if let Some(record) = facts
        .annotation
        .as_ref()
        .filter(|record| !is_about_the_record(step) && Binding::is_testable(record))
    {
        let path = pointer(&["metadata", "annotations", BINDING]);
        operations.push(json!({"op": "test", "path": path, "value": record}));
    }
    operations.push(json!({"op": "add", "path": "/status", "value": status}));
    let patch = json_patch(WHAT, Value::Array(operations))?;
    let api: Api<PartialObjectMeta<Instance>> =
        Api::namespaced(context.client.clone(), &facts.key.namespace);
    let params = patch_params();
    let written = call(WHAT, api.patch_status(&facts.key.name, &params, &patch)).await;
    let result = written.as_ref().map_or_else(KubeError::category, |_| "ok");
    context.metrics.kube_write("status", result);
    match written {
        Ok(object) => Ok(Some(object.metadata.resource_version.unwrap_or_default())),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the step itself writes the record, or was made sure that it stands: that was a compare-and-swap, or a read past the
/// cache.
fn is_about_the_record(step: &Step) -> bool {
    matches!(step, Step::Call { .. } | Step::Record { .. })
}

fn ready(conditions: &[Condition]) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == READY)
}

fn is_stalled(conditions: &[Condition]) -> bool {
    conditions.iter().any(|c| c.type_ == STALLED)
}

/// A change of the Ready reason is what a user wants to know.
fn change_of_ready(former: &[Condition], next: &[Condition]) -> Option<News> {
    let now = ready(next)?;
    if ready(former)
        .is_some_and(|before| before.reason == now.reason && before.status == now.status)
    {
        return None;
    }
    let reason = Reason::ALL
        .iter()
        .find(|reason| reason.as_str() == now.reason)?;
    Some(News {
        warning: is_stalled(next),
        reason: reason.as_str(),
        note: now.message.clone(),
    })
}

#[cfg(test)]
mod tests;
