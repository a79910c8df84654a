//! Writes a status, and remembers it.

use crate::api::names::BINDING;
use crate::api::{Instance, InstanceStatus, PurchaseRecord};
use crate::instance::context::Context;
use crate::instance::facts::Facts;
use crate::instance::memory::parts::StatusPause;
use crate::instance::memory::{Memory, lock};
use crate::instance::status::{change_of_ready, ready};
use crate::instance::{journal, times};
use crate::runtime::KubeError;
use crate::runtime::kubernetes::{patch_status, pointer};
use serde_json::json;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;
use tokio::time::Instant;

/// Writes a status and remembers it. Returns false if the object is gone.
///
/// # Errors
/// The status is not written, or the outcome is unknown.
pub async fn write_status(
    context: &Context,
    facts: &Facts,
    status: &InstanceStatus,
    memory: &Mutex<Memory>,
) -> Result<bool, KubeError> {
    let result = write(context, facts, status).await;
    let mut memory = lock(memory);
    match result {
        Ok(Some(version)) => {
            status_written(facts, status, &version, &mut memory);
            Ok(true)
        }
        Ok(None) => {
            memory.status_writes.acknowledged = Some(status.observed_generation);
            Ok(false)
        }
        Err(error) => {
            // An edit is acknowledged by a status that was written, not by one that was sent. If the apiserver refuses status
            // writes, nothing waits for the acknowledgement.
            if error.is_refusal() && !error.is_overtaken() {
                memory.status_writes.acknowledged = Some(status.observed_generation);
            }
            Err(error)
        }
    }
}

/// This status was written; the object has this version with it.
pub fn status_written(facts: &Facts, status: &InstanceStatus, version: &str, memory: &mut Memory) {
    let event = change_of_ready(&facts.status.conditions, &status.conditions);
    if let (Some(event), Some(now)) = (event, ready(&status.conditions)) {
        let (id, is_ready) = (status.id.as_deref(), now.status == "True");
        journal::ready(facts, id, is_ready, event.reason);
    }
    memory.note_written_version(Some(version), Instant::now());
    let writes = &mut memory.status_writes;
    writes.acknowledged = Some(status.observed_generation);
    writes.progress = None;
    writes.pause = Some(StatusPause {
        until: Instant::now() + times::SAME_STATUS_REWRITE,
        digest: Some(digest(status)),
    });
}

/// The digest of what a status reports: the server, and the operator's own conditions without their times.
pub fn digest(status: &InstanceStatus) -> u64 {
    let mut digest = DefaultHasher::new();
    (&status.id, status.observed_generation).hash(&mut digest);
    for own in &status.conditions {
        (&own.type_, &own.status, &own.reason, &own.message).hash(&mut digest);
    }
    digest.finish()
}

/// JSON patch on `/status`. It tests the UID, the generation, the observed generation, the number of the newest operation, the
/// nonce of its newest call and whether that has its receipt, the text of the record if a test can contain it, and the types of the
/// conditions. Then it replaces the whole status except for the conditions of other controllers. A merge would never remove a
/// field, and a re-created object of the same name must not get this status. A process whose watch is late (it has just taken over)
/// must not revert what its predecessor wrote about a newer spec, about an operation that the predecessor announced since, or about
/// its receipt. The end of a failed operation is not tested, so such a process may report the operation as open again. Returns the
/// new version; None if the object is gone.
async fn write(
    context: &Context,
    facts: &Facts,
    status: &InstanceStatus,
) -> Result<Option<String>, KubeError> {
    let mut operations = vec![
        json!({"op": "test", "path": "/metadata/uid", "value": facts.uid}),
        json!({"op": "test", "path": "/metadata/generation", "value": facts.generation}),
        json!({"op": "test", "path": "/status/observedGeneration", "value": facts.status.observed_generation}),
        json!({"op": "test", "path": "/status/attempt", "value": facts.status.attempt}),
    ];
    if let Some(operation) = &facts.status.operation {
        let path = "/status/operation/accepted";
        operations.push(json!({"op": "test", "path": path, "value": operation.accepted}));
        // The calls of one operation differ in their nonce alone; refused ones share it, and none of them is in flight.
        if !operation.nonce.is_empty() {
            let path = "/status/operation/nonce";
            operations.push(json!({"op": "test", "path": path, "value": operation.nonce}));
        }
    }
    let record = facts.annotation.as_ref();
    if let Some(record) = record.filter(|record| PurchaseRecord::is_testable(record)) {
        let path = pointer(&["metadata", "annotations", BINDING]);
        operations.push(json!({"op": "test", "path": path, "value": record}));
    }
    operations.extend(facts.listed_types.replace_status(json!(status)));
    let (client, key) = (&context.client, &facts.key);
    let written = patch_status::<Instance>(client, key, "write the status", operations).await;
    let result = written.as_ref().map_or_else(KubeError::category, |_| "ok");
    context.metrics.kube_writes.count(["status", result]);
    match written {
        Ok(metadata) => Ok(Some(metadata.resource_version.unwrap_or_default())),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
