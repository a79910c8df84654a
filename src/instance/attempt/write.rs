//! The conditional writes of an attempt. Each tests the object's UID and the values that it depends on, and fails if one differs.

use super::Attempt;
use crate::api::names::BINDING;
use crate::api::{Instance, PurchaseRecord};
use crate::instance::facts::Facts;
use crate::instance::memory::lock;
use crate::instance::outcome::Outcome;
use crate::runtime::KubeError;
use crate::runtime::kubernetes::{call, json_patch, patch_params, pointer};
use kube::api::{ObjectMeta, PartialObjectMeta, Patch};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Debug;
use tokio::time::Instant;

/// The part of the object that a patch changes.
#[derive(Clone, Copy)]
pub(super) enum PatchedPart {
    Object,
    Status,
}

/// The operation of a JSON patch that fails unless the object has this value there.
pub(super) fn test_op(path: &str, value: impl Serialize) -> Value {
    json!({"op": "test", "path": path, "value": value})
}

pub(super) fn replace(path: &str, value: impl Serialize) -> Value {
    json!({"op": "replace", "path": path, "value": value})
}

/// The path of the record.
pub(super) fn record_path() -> String {
    pointer(&["metadata", "annotations", BINDING])
}

/// The test that the record is the one that was read; None if there was none. If the test of a JSON patch cannot contain the text,
/// it tests `resourceVersion` instead.
pub(super) fn record_test_op(facts: &Facts) -> Option<Value> {
    let text = facts.annotation.as_deref()?;
    Some(match PurchaseRecord::is_testable(text) {
        true => test_op(&record_path(), text),
        false => test_op("/metadata/resourceVersion", &facts.resource_version),
    })
}

impl Attempt<'_> {
    /// Writes a JSON patch with these operations, and tests the object's UID first. `kind` names the write in metrics.
    pub(super) async fn patch(
        &self,
        kind: &'static str,
        part: PatchedPart,
        operations: Vec<Value>,
    ) -> Result<(), KubeError> {
        let patch = self.json_patch(kind, operations)?;
        let version = self.write(kind, part, &patch).await?.resource_version;
        lock(self.memory).note_written_version(version.as_deref(), Instant::now());
        Ok(())
    }

    /// A JSON patch that also tests the object's UID.
    pub(super) fn json_patch(
        &self,
        kind: &'static str,
        operations: Vec<Value>,
    ) -> Result<Patch<()>, KubeError> {
        let mut all = vec![test_op("/metadata/uid", &self.observed.facts.uid)];
        all.extend(operations);
        json_patch(kind, Value::Array(all))
    }

    pub(super) async fn write<P: Serialize + Debug>(
        &self,
        kind: &'static str,
        part: PatchedPart,
        patch: &Patch<P>,
    ) -> Result<ObjectMeta, KubeError> {
        let what = match kind {
            "intent" => "record the intent",
            "finalizer" => "remove the finalizer",
            _ => "write down the service's answer",
        };
        let (name, params) = (&self.observed.facts.key.name, patch_params());
        let written = match part {
            PatchedPart::Object => {
                let api = self.api::<Instance>();
                call(what, api.patch_metadata(name, &params, patch)).await
            }
            PatchedPart::Status => {
                let api = self.api::<PartialObjectMeta<Instance>>();
                call(what, api.patch_status(name, &params, patch)).await
            }
        };
        let result = written.as_ref().map_or_else(KubeError::category, |_| "ok");
        self.context.metrics.kube_writes.count([kind, result]);
        Ok(written?.metadata)
    }

    /// The object as the apiserver has it now, past every cache; `Stale` if it is gone, or another one has its name.
    pub(super) async fn fresh(&self) -> Result<Instance, Outcome> {
        let facts = &self.observed.facts;
        let api = self.api::<Instance>();
        match call("read the Instance", api.get(&facts.key.name)).await {
            Ok(object) if object.uid().as_deref() == Some(facts.uid.as_str()) => Ok(object),
            Ok(_) => Err(Outcome::Stale),
            Err(error) if error.is_not_found() => Err(Outcome::Stale),
            Err(error) => Err(Outcome::not_written(&error)),
        }
    }

    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(
            self.context.client.clone(),
            &self.observed.facts.key.namespace,
        )
    }
}
