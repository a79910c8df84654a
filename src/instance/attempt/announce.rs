//! Writes the intent of a call, or the record of an existing server, by compare-and-swap.
//!
//! Each is one patch with `uid` and `resourceVersion`, so it fails with a stale cache, after a write of a second controller, or on
//! a re-created object of the same name. The intent of a purchase writes finalizer and record together, that of an operation
//! writes status.

use super::write::{PatchedPart, test_op};
use super::{Attempt, ServiceCall};
use crate::api::condition_list::ListedTypes;
use crate::api::names::{BINDING, FINALIZER};
use crate::api::{Instance, InstanceStatus, Operation, PurchaseRecord};
use crate::cloud::ServerId;
use crate::instance::facts::Facts;
use crate::instance::memory::call::{CallState, Intent, NewestCall};
use crate::instance::memory::lock;
use crate::instance::outcome::Outcome;
use crate::instance::plan::step::{Plan, StatusChanges};
use crate::instance::status::{render, write};
use crate::runtime::{KubeError, chance};
use crate::session::ConflictingOwner;
use kube::ResourceExt;
use kube::api::{ObjectMeta, Patch};
use serde_json::json;
use std::sync::atomic::Ordering;
use tokio::time::Instant;

/// How often a swap is tried in one reconcile. With another writer at 100 Hz, and a few milliseconds for a read and a patch, more
/// than half of the reconciles succeed.
const SWAPS: u32 = 6;

/// The values of a compare-and-swap.
enum Swap<'a> {
    /// Finalizers and record, for an attempt to buy a server or for an existing server.
    Record(&'a [String], &'a str),
    /// A status with an operation that has this nonce.
    Operation(&'a InstanceStatus, &'a str),
}

/// An intent that is on the object.
struct Swapped {
    /// The object's version with the intent.
    version: String,
    /// Whether the object still matches the plan. Between a swap whose answer was lost and the read that finds the intent, a user
    /// may have deleted the object or changed its spec. And after a restore of etcd, the planned version may have come again with
    /// another state of the object.
    is_as_planned: bool,
}

/// An intent that was not written, or that may be on the object although no call may follow it.
struct NotSwapped {
    outcome: Outcome,
    /// The intent may be on the object: the outcome of the write is unknown, or the cluster's state went back in time meanwhile.
    may_stand: bool,
}

impl Attempt<'_> {
    pub(super) async fn announce(
        &mut self,
        plan: &Plan,
        call: &mut ServiceCall,
    ) -> Result<(), Outcome> {
        match call {
            ServiceCall::Create(record) => {
                record.nonce = nonce();
                self.put_on_record(record, CallState::NotSent).await
            }
            ServiceCall::Operate(operation) => {
                operation.nonce = nonce();
                self.is_status_write_in_progress
                    .store(true, Ordering::Relaxed);
                let announced = self.put_in_status(plan, operation).await;
                self.is_status_write_in_progress
                    .store(false, Ordering::Relaxed);
                announced
            }
            ServiceCall::Release(..) => Ok(()),
        }
    }

    /// Writes the record of an existing server.
    pub(super) async fn record(&mut self, mut record: Box<PurchaseRecord>) -> Outcome {
        if record.nonce.is_empty() {
            record.nonce = nonce();
        }
        let recorded = self.put_on_record(&mut record, CallState::Unknown).await;
        recorded.err().unwrap_or(Outcome::Written)
    }

    /// Writes finalizer and record. If the answer to the write is lost, a read recognizes the record by its nonce.
    async fn put_on_record(
        &mut self,
        record: &mut PurchaseRecord,
        call_state: CallState,
    ) -> Result<(), Outcome> {
        let facts = &self.observed.facts;
        record.cluster.clone_from(&self.context.cluster);
        let text = record.to_text();
        let mut finalizers = facts.finalizers.clone();
        if !facts.is_held() {
            finalizers.push(FINALIZER.to_owned());
        }
        let is_purchase = call_state == CallState::NotSent;
        let mut known = NewestCall::of_purchase(record, call_state, Instant::now());
        known.is_newest = true;
        let (uid, account) = (&facts.uid, &self.observed.account_key);
        let owners = self.context.sessions.owners();
        let id = record.id.as_deref().map(ServerId::from);
        if !is_purchase && !owners.admit_server(uid, account, id) {
            return Err(Outcome::Stale); // the next reconcile observes why
        }
        if self.is_owned_meanwhile(record) {
            owners.withdraw(uid);
            return Err(Outcome::Stale);
        }
        let swapped = match self.swap(&Swap::Record(&finalizers, &text)).await {
            Ok(swapped) => swapped,
            Err(NotSwapped { outcome, may_stand }) => {
                // If the plan is stale, the admission stays: an earlier record of ours may be the cause, which the watch has not
                // shown yet.
                if !may_stand && !matches!(outcome, Outcome::Stale) {
                    owners.withdraw(uid);
                }
                let is_restored = self.observed.epoch != self.context.memories.epoch();
                // If this intent turns out to be on record, no call was made for it. After a restore of etcd nothing is certain.
                if is_purchase && may_stand && !is_restored {
                    lock(self.memory).announced(known);
                }
                return Err(outcome);
            }
        };
        let mut memory = lock(self.memory);
        memory.note_written_version(Some(&swapped.version), Instant::now());
        memory.note_record(record);
        if record.id.as_deref() != facts.id().as_ref().map(ServerId::as_str) {
            memory.forget_server();
        }
        memory.announced(known);
        drop(memory);
        self.observed.facts.annotation = Some(text);
        swapped.is_as_planned.then_some(()).ok_or(Outcome::Stale)
    }

    /// Whether another Instance recorded the server to import since this reconcile observed its owners. Two Instances are not
    /// admitted for the same server at once, so the second one sees the record of the first.
    fn is_owned_meanwhile(&self, record: &PurchaseRecord) -> bool {
        let (facts, sessions) = (&self.observed.facts, &self.context.sessions);
        let id = record.id.as_deref().map(ServerId::from);
        let import = id.filter(|id| record.imported.is_some() && facts.id().as_ref() != Some(id));
        import.zip(self.session).is_some_and(|(id, session)| {
            let owner = sessions.owner_before_import(&facts.uid, &id, None, session);
            owner != ConflictingOwner::None
        })
    }

    /// Writes the status with an operation, which users see from then on.
    async fn put_in_status(&mut self, plan: &Plan, operation: &Operation) -> Result<(), Outcome> {
        let facts = &self.observed.facts;
        let pause = lock(self.memory).status_writes.pause;
        if pause.is_some_and(|it| it.digest.is_none() && it.until > Instant::now()) {
            return Err(Outcome::not_done("a write of status failed a moment ago"));
        }
        let changes = StatusChanges {
            operation: Some(operation.clone()),
            ..plan.changes.clone()
        };
        let (observed, why) = (&*self.observed, plan.why.as_ref());
        let status = render(facts, Some(observed), observed.wall_clock, &changes, why);
        let swapped = self.swap(&Swap::Operation(&status, &operation.nonce)).await;
        let mut memory = lock(self.memory);
        let may_stand = swapped.as_ref().err().is_none_or(|it| it.may_stand);
        if let Some(record) = facts.purchase().filter(|_| may_stand) {
            // If this intent turns out to be in status, no call was made for it.
            let (state, now) = (CallState::NotSent, Instant::now());
            let mut call = NewestCall::of_operation(operation, record, state, now);
            if swapped.is_err() {
                // Only status shows whether the intent was written, so this process does not write it again.
                call.intent = Intent::Unneeded;
            }
            memory.announced(call);
        }
        let swapped = swapped.map_err(|not_swapped| not_swapped.outcome)?;
        write::status_written(facts, &status, &swapped.version, &mut memory);
        drop(memory);
        if !swapped.is_as_planned {
            return Err(Outcome::Stale);
        }
        let facts = &mut self.observed.facts;
        facts.listed_types = facts.listed_types.after(&status.conditions).into();
        facts.status = status.into();
        Ok(())
    }

    /// The compare-and-swap.
    ///
    /// A writer that changes labels or a foreign annotation many times a second makes the planned version outdated before the patch
    /// arrives. Then the current object is read. If everything that the plan depends on is unchanged, the swap is repeated with the
    /// current version.
    async fn swap(&self, intent: &Swap<'_>) -> Result<Swapped, NotSwapped> {
        let facts = &self.observed.facts;
        let mut version = facts.resource_version.clone();
        let mut listed_types = facts.listed_types.clone();
        let seen_before = self.context.highest_version.load(Ordering::SeqCst);
        for _ in 0..SWAPS {
            let error = match self.try_swap(intent, &version, &listed_types).await {
                Ok(meta) => {
                    let is_as_planned = is_as_planned(&meta, facts);
                    let version = meta.resource_version.unwrap_or_default();
                    self.is_current(Some(&version), seen_before)?;
                    return Ok(Swapped {
                        version,
                        is_as_planned,
                    });
                }
                Err(error) if error.is_not_found() => break,
                Err(error) => error,
            };
            let may_stand = error.may_have_happened();
            let not_written = |may_stand| NotSwapped {
                outcome: Outcome::not_written(&error),
                may_stand,
            };
            if !error.is_overtaken() && !may_stand {
                return Err(not_written(false));
            }
            let now = match self.fresh().await {
                Ok(now) => now,
                // The patch has an unknown outcome; the read merely failed.
                Err(Outcome::NotDone(..)) if may_stand => return Err(not_written(true)),
                Err(other) => return Err(NotSwapped::absent(other)),
            };
            if intent.stands_on(&now) {
                // The object's version is not compared: other objects may have been written since the intent.
                self.is_current(None, seen_before)?;
                return Ok(Swapped {
                    version: now.resource_version().unwrap_or_default(),
                    is_as_planned: is_as_planned(&now.metadata, facts) && now.spec == *facts.spec,
                });
            }
            let is_unchanged = now.metadata.resource_version.as_deref() == Some(version.as_str());
            // A patch that was refused although there was no other write was refused for another reason. After another write, one
            // without an answer can no longer be applied.
            if may_stand || is_unchanged {
                return Err(not_written(may_stand && is_unchanged));
            }
            let later = Facts::of(&self.context.cluster, &now);
            if !facts.is_same_but_version(&later) {
                break;
            }
            listed_types = later.listed_types;
            version = later.resource_version;
        }
        Err(NotSwapped::absent(Outcome::Stale))
    }

    /// Writes the intent over exactly this version of the object.
    async fn try_swap(
        &self,
        intent: &Swap<'_>,
        version: &str,
        listed_types: &ListedTypes,
    ) -> Result<ObjectMeta, KubeError> {
        let facts = &self.observed.facts;
        match intent {
            Swap::Record(finalizers, text) => {
                let patch = Patch::Merge(json!({"metadata": {
                    "uid": facts.uid,
                    "resourceVersion": version,
                    "finalizers": finalizers,
                    "annotations": {BINDING: text},
                }}));
                self.write("intent", PatchedPart::Object, &patch).await
            }
            // A merge patch of status would remove no field, and the apiserver would ignore its UID.
            Swap::Operation(status, _) => {
                let mut patch = vec![test_op("/metadata/resourceVersion", version)];
                patch.extend(listed_types.replace_status(json!(status)));
                let patch = self.json_patch("intent", patch)?;
                self.write("intent", PatchedPart::Status, &patch).await
            }
        }
    }

    /// Checks that neither our own write nor another reconcile has shown that the cluster's state went back in time. If it did, the
    /// intent may be on an old state.
    ///
    /// The state went back if the resourceVersion of our own write is lower than one that was seen before the write began: etcd was
    /// restored, and nothing that seemed new or unbought is certain any more. Versions are integers that only grow, over all
    /// objects. A version that was seen during the write may be higher.
    fn is_current(&self, version: Option<&str>, seen_before: u64) -> Result<(), NotSwapped> {
        let context = self.context;
        let went_back = NotSwapped {
            outcome: Outcome::Stale,
            may_stand: true,
        };
        // The answer may be from the state before the restore that another reconcile found meanwhile.
        if self.observed.epoch != context.memories.epoch() {
            return Err(went_back);
        }
        let Some(version) = version.and_then(|version| version.parse::<u64>().ok()) else {
            return Ok(());
        };
        if version >= seen_before {
            context.highest_version.fetch_max(version, Ordering::SeqCst);
            return Ok(());
        }
        context.went_back(version);
        Err(went_back)
    }
}

impl NotSwapped {
    fn absent(outcome: Outcome) -> Self {
        let may_stand = false;
        Self { outcome, may_stand }
    }
}

impl Swap<'_> {
    fn stands_on(&self, now: &Instance) -> bool {
        match self {
            Self::Record(_, text) => {
                let is_held = now.finalizers().iter().any(|held| held == FINALIZER);
                is_held && now.annotations().get(BINDING).map(String::as_str) == Some(*text)
            }
            Self::Operation(_, nonce) => {
                let shown = now.status.as_ref().and_then(|it| it.operation.as_ref());
                shown.is_some_and(|shown| shown.nonce == *nonce)
            }
        }
    }
}

/// Whether spec and deletion of the object match the plan.
fn is_as_planned(now: &ObjectMeta, facts: &Facts) -> bool {
    now.generation == Some(facts.generation)
        && now.deletion_timestamp.is_some() == facts.deleted_at.is_some()
}

/// A value that no other reconcile has written.
fn nonce() -> String {
    format!("{:016x}", chance::word())
}
