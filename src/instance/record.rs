//! Writes the intent before the call. Before a release, reads the object and the server again.
//!
//! An intent is one patch with `uid` and `resourceVersion`, so it fails with a stale cache, next to a second controller, or on a
//! re-created object of the same name. The intent of a purchase writes finalizer and record together, that of an operation writes
//! status.

use crate::api::condition_list::ListedTypes;
use crate::api::conditions::Reason;
use crate::api::names::{BINDING, FINALIZER};
use crate::api::{Instance, InstanceStatus, Operation, PurchaseRecord, Verb};
use crate::cloud::{CallPriority, Detail, ServerId};
use crate::instance::context::Context;
use crate::instance::fact::Fact;
use crate::instance::facts::Facts;
use crate::instance::memory::kinds::{Attempt, CallState, RecordText};
use crate::instance::memory::{Memory, open};
use crate::instance::observation::Observation;
use crate::instance::outcome::Outcome;
use crate::instance::plan::step::{Plan, ReleaseReason, StatusChanges, Step};
use crate::instance::status::{Shown, write};
use crate::instance::{status, times};
use crate::runtime::kubernetes::{call, json_patch, patch_params};
use crate::runtime::queue::ADMISSION;
use crate::runtime::strings::shared;
use crate::runtime::{KubeError, chance};
use crate::session::AccountSession;
use kube::api::{ObjectMeta, PartialObjectMeta, Patch};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use tokio::time::Instant;

/// How often a swap is tried in one reconcile. With another writer at 100 Hz, and a few milliseconds for a read and a patch, more
/// than half of the reconciles succeed.
const SWAPS: u32 = 6;

/// A step that may be carried out now, because its intent is on record.
#[derive(Debug)]
pub struct Announced {
    /// The step, with the values that were written.
    pub step: Step,
    /// The exact text of the current record; the receipt of a purchase is conditional on it.
    pub text: String,
}

/// Writes or confirms what the step requires. Writes to Kubernetes only. Reads the service once, before a release.
///
/// # Errors
/// The outcome if the step must not be carried out.
pub async fn record(
    context: &Context,
    observed: &mut Observation,
    plan: &Plan,
    memory: &Mutex<Memory>,
    session: Option<&AccountSession>,
) -> Result<Announced, Outcome> {
    let mut step = plan.step.clone();
    let mut text = observed.facts.annotation.clone().unwrap_or_default();
    match &mut step {
        Step::Rest | Step::Secret(_) | Step::Finish | Step::LetGo { .. } => {}
        Step::Buy {
            record,
            announce: true,
            ..
        } => {
            record.nonce = nonce();
            text = intend(context, &observed.facts, record, memory, CallState::NotSent).await?;
        }
        Step::Operate {
            operation,
            announce: true,
            ..
        } => {
            operation.nonce = nonce();
            announce(context, observed, plan, operation, memory).await?;
        }
        // The same attempt must still be on record, and the object must still ask for it.
        Step::Buy { .. } | Step::Operate { .. } | Step::Auxiliary { .. } => {
            let now = fresh(context, &observed.facts).await?;
            if !still_wants(&now, &observed.facts) {
                return Err(Outcome::Stale);
            }
        }
        Step::Record { record } => {
            if record.nonce.is_empty() {
                record.nonce = nonce();
            }
            intend(context, &observed.facts, record, memory, CallState::Unknown).await?;
        }
        Step::Release { id, why } => {
            confirm_release(context, observed, id, *why, session).await?;
        }
    }
    Ok(Announced { step, text })
}

/// Announces an operation with one compare-and-swap of status, which shows the operation from then on.
async fn announce(
    context: &Context,
    observed: &mut Observation,
    plan: &Plan,
    operation: &Operation,
    memory: &Mutex<Memory>,
) -> Result<(), Outcome> {
    let facts = &observed.facts;
    let changes = StatusChanges {
        operation: Some(operation.clone()),
        ..plan.changes.clone()
    };
    let (why, shown) = (plan.why.as_ref(), Shown::of(observed));
    let status = status::render(facts, observed.wall_clock, &changes, why, &shown);
    let seen_before = context.highest_version.load(Ordering::SeqCst);
    let intent = Intent::Operation(&status, &operation.nonce);
    let swapped = match swap(context, facts, &intent).await {
        Ok(swapped) => swapped,
        Err(error) => {
            if error.may_stand {
                // If it turns out to be in status, no call was made for it.
                remember_operation(&mut open(memory), facts, operation);
            }
            return Err(error.outcome);
        }
    };
    let has_gone_back = went_back(context, &swapped.version, seen_before);
    let mut memory = open(memory);
    remember_operation(&mut memory, facts, operation);
    // This reconcile, or another one in the meantime, found that the state went back in time.
    if has_gone_back || !memory.is_of(context.memories.doubts()) {
        return Err(Outcome::Stale);
    }
    write::has_said(facts, &status, &swapped.version, &mut memory);
    memory.calls.followed = Some(Box::new(operation.clone()));
    if !swapped.is_wanted {
        return Err(Outcome::Stale);
    }
    drop(memory);
    let listed_types = facts.listed_types.after(&status.conditions);
    observed.facts.listed_types = listed_types.into();
    observed.facts.status = status.into();
    Ok(())
}

/// Remembers an operation that this process announced, or may have announced.
fn remember_operation(memory: &mut Memory, facts: &Facts, operation: &Operation) {
    let account = facts.purchase().map(|record| record.account.clone());
    let number = u32::try_from(operation.attempt).unwrap_or_default();
    let attempt = Attempt {
        doubt: None,
        nonce: operation.nonce.clone(),
        account: shared(&account.unwrap_or_default()),
        verb: operation.verb,
        is_own: true,
        is_newest: true,
        tries: 0,
        since: Instant::now(),
        call_state: CallState::NotSent,
    };
    memory.calls.attempts.insert(number, Box::new(attempt));
}

/// Writes finalizer and record with one compare-and-swap. It is acknowledged, or if the answer was lost, recognized by its nonce.
async fn intend(
    context: &Context,
    facts: &Facts,
    record: &mut PurchaseRecord,
    memory: &Mutex<Memory>,
    call_state: CallState,
) -> Result<String, Outcome> {
    record.cluster.clone_from(&context.settings.cluster);
    let text = record.to_text();
    let mut finalizers = facts.finalizers.clone();
    if !facts.is_held() {
        finalizers.push(FINALIZER.to_owned());
    }
    let seen_before = context.highest_version.load(Ordering::SeqCst);
    let reservations = context.sessions.reservations();
    reservations.announce(&facts.uid, true);
    let intent = Intent::Record(&finalizers, &text);
    let swapped = match swap(context, facts, &intent).await {
        Ok(swapped) => swapped,
        Err(error) => {
            // If the plan is stale, the cause may be an earlier record of ours that the watch has not shown yet.
            let keeps = error.may_stand || matches!(error.outcome, Outcome::Stale);
            reservations.announce(&facts.uid, keeps);
            if error.may_stand && call_state == CallState::NotSent {
                // If it turns out to be on record, no call was made for it.
                remember(&mut open(memory), record, call_state);
            }
            return Err(error.outcome);
        }
    };
    let Swapped {
        version, is_wanted, ..
    } = &swapped;
    // A record that was there already shows nothing, since other objects may have been written since.
    let is_new = swapped.is_written || call_state == CallState::NotSent;
    let has_gone_back = is_new && went_back(context, version, seen_before);
    let mut memory = open(memory);
    // This reconcile, or another one in the meantime, found that the state went back in time.
    if has_gone_back || !memory.is_of(context.memories.doubts()) {
        return Err(Outcome::Stale);
    }
    memory.wrote(Some(version), Instant::now());
    memory.origin.ever_intended = true;
    memory.origin.recordless_since = None;
    memory.origin.recreated = memory.origin.recreated.max(record.recreated);
    if record.id.as_deref() != facts.id().as_ref().map(ServerId::as_str) {
        memory.forget_looks();
    }
    remember(&mut memory, record, call_state);
    if !is_wanted {
        return Err(Outcome::Stale);
    }
    Ok(text)
}

/// Remembers the attempt of a record that this process wrote, or may have written.
fn remember(memory: &mut Memory, record: &PurchaseRecord, call_state: CallState) {
    let known = memory.calls.attempts.get(&record.attempt);
    if known.is_some_and(|attempt| attempt.nonce == record.nonce) {
        return;
    }
    if call_state == CallState::NotSent {
        memory.origin.purchase = Some(Box::new(RecordText::of(record)));
    }
    let attempt = Attempt {
        doubt: None,
        nonce: record.nonce.clone(),
        account: shared(&record.account),
        verb: Verb::Create,
        is_own: call_state == CallState::NotSent,
        is_newest: true,
        tries: 0,
        since: Instant::now(),
        call_state,
    };
    let attempts = &mut memory.calls.attempts;
    attempts.insert(record.attempt, Box::new(attempt));
}

/// The object of a compare-and-swap.
enum Intent<'a> {
    /// Finalizers and record, for an attempt to buy a server or for an existing server.
    Record(&'a [String], &'a str),
    /// A status with an operation that has this nonce.
    Operation(&'a InstanceStatus, &'a str),
}

impl Intent<'_> {
    /// Writes it over exactly this version of the object.
    async fn write(
        &self,
        context: &Context,
        facts: &Facts,
        version: &str,
        listed_types: &ListedTypes,
    ) -> Result<ObjectMeta, KubeError> {
        const WHAT: &str = "record the intent";
        let (name, params) = (&facts.key.name, patch_params());
        match self {
            Self::Record(finalizers, text) => {
                let patch = json!({"metadata": {
                    "uid": facts.uid,
                    "resourceVersion": version,
                    "finalizers": finalizers,
                    "annotations": {BINDING: text},
                }});
                let api: Api<Instance> =
                    Api::namespaced(context.client.clone(), &facts.key.namespace);
                let patch = Patch::Merge(&patch);
                let written = call(WHAT, api.patch_metadata(name, &params, &patch)).await?;
                Ok(written.metadata)
            }
            // A merge patch would remove no field, and ignores a UID.
            Self::Operation(status, _) => {
                let mut patch = vec![
                    json!({"op": "test", "path": "/metadata/uid", "value": facts.uid}),
                    json!({"op": "test", "path": "/metadata/resourceVersion", "value": version}),
                ];
                patch.extend(listed_types.replace_status(json!(status)));
                let patch = json_patch(WHAT, Value::Array(patch))?;
                let api: Api<PartialObjectMeta<Instance>> =
                    Api::namespaced(context.client.clone(), &facts.key.namespace);
                let written = call(WHAT, api.patch_status(name, &params, &patch)).await?;
                Ok(written.metadata)
            }
        }
    }

    fn stands_on(&self, now: &Instance) -> bool {
        match self {
            Self::Record(_, text) => {
                let is_held = now.finalizers().iter().any(|held| held == FINALIZER);
                is_held && now.annotations().get(BINDING).map(String::as_str) == Some(*text)
            }
            Self::Operation(_, nonce) => {
                let told = now.status.as_ref().and_then(|told| told.operation.as_ref());
                told.is_some_and(|told| told.nonce == *nonce)
            }
        }
    }
}

/// An intent that is on the object.
struct Swapped {
    /// The object's version with the intent.
    version: String,
    /// Whether the swap was acknowledged. If false, a read found the intent.
    is_written: bool,
    /// Whether the object still matches the plan. Between a swap whose answer was lost and the read that finds the intent, a user
    /// may have deleted the object or changed its spec. And after a restore of etcd, the planned version may have come again with
    /// another state of the object.
    is_wanted: bool,
}

/// An intent that was not written, or whose write has an unknown outcome.
struct NotSwapped {
    outcome: Outcome,
    may_stand: bool,
}

impl From<Outcome> for NotSwapped {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            may_stand: false,
        }
    }
}

/// The compare-and-swap.
///
/// A writer that changes labels or a foreign annotation many times a second makes the planned version outdated before the patch
/// arrives. Then the current object is read. If everything that the plan depends on is unchanged, the swap is repeated with the
/// current version.
async fn swap(
    context: &Context,
    facts: &Facts,
    intent: &Intent<'_>,
) -> Result<Swapped, NotSwapped> {
    let mut version = facts.resource_version.clone();
    let mut listed_types = facts.listed_types.clone();
    for _ in 0..SWAPS {
        let written = intent.write(context, facts, &version, &listed_types);
        let written = written.await;
        let result = written.as_ref().map_or_else(KubeError::category, |_| "ok");
        context.metrics.kube_write("intent", result);
        let error = match written {
            Ok(meta) => {
                return Ok(Swapped {
                    is_wanted: is_as_planned(&meta, facts),
                    version: meta.resource_version.unwrap_or_default(),
                    is_written: true,
                });
            }
            Err(error) if error.is_not_found() => return Err(Outcome::Stale.into()),
            Err(error) if !error.is_overtaken() && !error.may_have_happened() => {
                return Err(Outcome::not_written(&error).into());
            }
            Err(error) => error,
        };
        let unknown = NotSwapped {
            outcome: Outcome::not_written(&error),
            may_stand: error.may_have_happened(),
        };
        let now = match fresh(context, facts).await {
            Ok(now) => now,
            // The patch has an unknown outcome; the read merely failed.
            Err(Outcome::NotDone(..)) if unknown.may_stand => return Err(unknown),
            Err(other) => return Err(other.into()),
        };
        if intent.stands_on(&now) {
            return Ok(Swapped {
                version: now.resource_version().unwrap_or_default(),
                is_written: false,
                is_wanted: is_as_planned(&now.metadata, facts) && now.spec == *facts.spec,
            });
        }
        let is_unchanged = now.metadata.resource_version.as_deref() == Some(version.as_str());
        // A patch that was refused although there was no other write was refused for another reason.
        if unknown.may_stand || is_unchanged {
            return Err(unknown);
        }
        let later = Facts::of(&context.settings.cluster, &now);
        if !facts.is_same_but_version(&later) {
            return Err(Outcome::Stale.into());
        }
        listed_types = later.listed_types;
        version = now.resource_version().unwrap_or_default();
    }
    Err(Outcome::Stale.into())
}

/// Whether spec and deletion of the object match the plan.
fn is_as_planned(now: &ObjectMeta, facts: &Facts) -> bool {
    now.generation == Some(facts.generation) && now.deletion_timestamp.is_some() == facts.deleting
}

/// Whether the resourceVersion of our own write is lower than one that was seen before the write began. Then etcd was restored,
/// and nothing that seemed new or unbought is certain any more. Versions are integers that only grow, over all objects. A version
/// that was seen during the write may be higher.
fn went_back(context: &Context, version: &str, seen_before: u64) -> bool {
    let Ok(version) = version.parse::<u64>() else {
        return false;
    };
    if version >= seen_before {
        context.highest_version.fetch_max(version, Ordering::SeqCst);
        return false;
    }
    tracing::warn!(
        version,
        seen_before,
        "the cluster's state went back in time: settling before anything is bought"
    );
    context.highest_version.store(version, Ordering::SeqCst);
    context.memories.doubt_all();
    true
}

/// A release needs a fresh read of the object and of the server. The release of a surplus server also needs a read in this
/// reconcile that shows the recorded server alive.
async fn confirm_release(
    context: &Context,
    observed: &Observation,
    id: &ServerId,
    why: ReleaseReason,
    session: Option<&AccountSession>,
) -> Result<(), Outcome> {
    let facts = &observed.facts;
    look_at(observed, id, why, session).await?;
    let now = fresh(context, facts).await?;
    // The spec may have been changed to keep the server.
    let is_same = stands(&now, facts) && now.spec == *facts.spec;
    let is_deleting = now.metadata.deletion_timestamp.is_some();
    if !is_same || is_deleting != (why == ReleaseReason::Deleted) {
        return Err(Outcome::Stale);
    }
    if why == ReleaseReason::Surplus {
        let (Some(recorded), Some(session)) = (facts.id(), session) else {
            return Err(Outcome::Stale);
        };
        let detail = session
            .shared
            .client
            .detail(CallPriority::Urgent, &recorded);
        let why = match tokio::time::timeout(ADMISSION, detail).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("it was not answered in good time".to_owned()),
        };
        if let Some(why) = why {
            return Err(Outcome::not_done(format!(
                "server {recorded} was not seen alive, so {id} stays: {why}"
            )));
        }
    }
    Ok(())
}

/// Checks that a server bears our marker before its release, in a listing from a moment ago or in its detail, because the service
/// may have reused its identifier. If the server does not exist at all, the release itself finds out. A detail that this
/// reconcile has read is not read again.
async fn look_at(
    observed: &Observation,
    id: &ServerId,
    why: ReleaseReason,
    session: Option<&AccountSession>,
) -> Result<(), Outcome> {
    let facts = &observed.facts;
    let listed = observed
        .listing
        .as_ref()
        .and_then(|listing| listing.row(id));
    let listed = listed.and_then(|(row, at)| Some((String::from(row.name.clone()?), at)));
    let is_new = |at: Instant| observed.now < at + times::LISTED_LATELY;
    let name = match (listed, session) {
        (Some((name, at)), _) if is_new(at) => Some(name),
        (listed, None) => listed.map(|(name, _)| name),
        (listed, Some(session)) => {
            let listed = listed.map(|(name, _)| name);
            let (detail, is_unreached) = look_again(observed, id, why, session).await;
            match detail {
                Fact::Known(detail) => detail.name().map(ToOwned::to_owned).or(listed),
                Fact::Absent => None,
                // The release would not reach the service either.
                Fact::Unknown(trouble) if is_unreached => {
                    return Err(unconfirmed(id, &trouble));
                }
                // A detail that cannot be read must not block a release forever.
                Fact::Unknown(_) | Fact::NotAsked if listed.is_some() => listed,
                Fact::Unknown(trouble) => return Err(unconfirmed(id, &trouble)),
                Fact::NotAsked => None,
            }
        }
    };
    match name {
        Some(name) if !facts.is_own_name(id, &name) => {
            let remedy = facts.imported().map_or_else(
                || format!("to end in -{}", facts.marker),
                |imported| format!("back to {imported}"),
            );
            let why = format!(
                "the record names server {id}, which is called {name} at the service: that is not a name this Instance gives, \
                 so the server is not released; rename it {remedy}, or mend or remove the annotation {BINDING}"
            );
            Err(Outcome::stalled(Reason::RecordInvalid, why))
        }
        _ => Ok(()),
    }
}

fn unconfirmed(id: &ServerId, trouble: &str) -> Outcome {
    Outcome::not_done(format!(
        "server {id} was not seen, so it is not released yet: {trouble}"
    ))
}

/// The detail of a server that is to be released: as this reconcile read it, or a new read. Also returns whether the service
/// could not be reached.
async fn look_again(
    observed: &Observation,
    id: &ServerId,
    why: ReleaseReason,
    session: &AccountSession,
) -> (Fact<Detail>, bool) {
    // The reconcile has read the server that is to be released, unless it is a surplus server.
    let is_asked = !matches!(observed.detail, Fact::NotAsked | Fact::Absent);
    if is_asked && why != ReleaseReason::Surplus {
        return (
            observed.detail.clone(),
            observed.memory.observations.unreached,
        );
    }
    let detail = session.shared.client.detail(CallPriority::Urgent, id);
    let asked = tokio::time::timeout(times::LOOK_BEFORE_RELEASE, detail).await;
    let is_unreached = matches!(&asked, Ok(Err(error)) if error.was_not_sent());
    let fact = match asked {
        Ok(Ok(detail)) => Fact::Known(detail),
        Ok(Err(error)) if error.is_no_such_instance() => Fact::Absent,
        Ok(Err(error)) => Fact::Unknown(error.to_string()),
        Err(_) => Fact::Unknown("the request limit left no room for a query".to_owned()),
    };
    (fact, is_unreached)
}

/// The object as the apiserver has it now, past every cache.
async fn fresh(context: &Context, facts: &Facts) -> Result<Instance, Outcome> {
    let api: Api<Instance> = Api::namespaced(context.client.clone(), &facts.key.namespace);
    match call("read the Instance", api.get(&facts.key.name)).await {
        Ok(object) if object.uid().as_deref() == Some(facts.uid.as_str()) => Ok(object),
        Ok(_) => Err(Outcome::Stale),
        Err(error) if error.is_not_found() => Err(Outcome::Stale),
        Err(error) => Err(Outcome::not_written(&error)),
    }
}

/// Whether the record is exactly the one that the plan is based on.
fn stands(now: &Instance, facts: &Facts) -> bool {
    now.annotations().get(BINDING) == facts.annotation.as_ref()
}

/// Whether record, spec and operation are those that the plan is based on, and the object is not being deleted.
fn still_wants(now: &Instance, facts: &Facts) -> bool {
    let nonce = |told: Option<&Operation>| told.map(|told| (told.nonce.clone(), told.is_open()));
    let told = now.status.as_ref().and_then(|told| told.operation.as_ref());
    let is_same = stands(now, facts)
        && now.spec == *facts.spec
        && nonce(told) == nonce(facts.status.operation.as_ref());
    is_same && is_as_planned(&now.metadata, facts) && !facts.deleting
}

/// A value that no other reconcile has written.
fn nonce() -> String {
    format!("{:016x}", chance::word())
}
