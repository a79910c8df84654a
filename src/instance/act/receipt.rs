//! Writes the service's answer into the record, immediately and only if the intent is unchanged.

use super::attempt::{Attempt, room};
use crate::api::conditions::Reason;
use crate::api::names::BINDING;
use crate::api::{Instance, Operation, PurchaseRecord, Refusal};
use crate::cloud::{CallPriority, Place, ServerId};
use crate::instance::facts::Facts;
use crate::instance::memory::open;
use crate::runtime::KubeError;
use crate::runtime::kubernetes::{call, json_patch, patch_params, pointer};
use crate::session::AccountSession;
use kube::api::PartialObjectMeta;
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use serde_json::{Value, json};
use tokio::time::Instant;

/// How often a receipt is tried before the reconcile gives up. The process remembers it and tries again in the next reconcile.
const RECEIPTS: u32 = 3;

impl Attempt<'_> {
    /// Writes the receipt, conditional on the object's UID and on the exact intent. Returns whether it is on record.
    ///
    /// If the object is gone, no Instance owns the new server, so it is released here. A tombstone of its marker remains: if the
    /// release fails, the Account controller releases the server once a listing shows it.
    pub(super) async fn give_receipt(
        &self,
        intent: &str,
        receipt: &PurchaseRecord,
        session: &AccountSession,
        id: &ServerId,
    ) -> bool {
        let mut tries = 0;
        loop {
            tries += 1;
            let written = self.replace_record(intent, &receipt.to_text()).await;
            let result = written.as_ref().map_or_else(KubeError::category, |()| "ok");
            self.context.metrics.kube_write("receipt", result);
            match written {
                Ok(()) => return true,
                Err(error) if error.is_not_found() || self.is_other_object().await => {
                    if self.facts.spec.keeps_its_server() {
                        // It is reported as left behind.
                        return false;
                    }
                    let Facts {
                        key, generation, ..
                    } = self.facts;
                    let (namespace, name) = (&key.namespace, &key.name);
                    tracing::warn!(namespace, name, generation, server = %id, "the Instance is gone: releasing its new server");
                    self.release_homeless(session, receipt, id).await;
                    return false;
                }
                // Another writer changed the record between intent and receipt, or the answer to our first try was lost. The next
                // reconcile finds out.
                Err(error) if error.is_stale() => return false,
                Err(error) if tries < RECEIPTS => {
                    tracing::warn!(%error, "the receipt was not written, trying again");
                }
                Err(error) => {
                    tracing::error!(%error, server = %id, "the receipt was not written; it is remembered");
                    return false;
                }
            }
        }
    }

    /// Writes into status that the service accepted an operation, conditional on the object's UID and on the intent. Returns
    /// whether it is in status. If not, the report or the next reconcile writes it.
    pub(super) async fn give_operation_receipt(&self, operation: &Operation) -> bool {
        let patch = json!([
            {"op": "test", "path": "/metadata/uid", "value": self.facts.uid},
            {"op": "test", "path": "/status/operation/nonce", "value": operation.nonce},
            {"op": "replace", "path": "/status/operation", "value": operation},
        ]);
        for _ in 0..RECEIPTS {
            let written = self.patch_status("write the receipt", patch.clone()).await;
            let result = written.as_ref().map_or_else(KubeError::category, |()| "ok");
            self.context.metrics.kube_write("receipt", result);
            match written {
                Ok(()) => return true,
                Err(error) if error.is_not_found() || error.is_stale() => return false,
                Err(error) => tracing::warn!(%error, "the receipt was not written"),
            }
        }
        false
    }

    /// Records that the service refused the create, conditional on the exact intent. A later process then does not mistake it for
    /// a lost answer. If the write fails, this process still knows about the refusal.
    pub(super) async fn close(
        &self,
        intent: &str,
        record: &PurchaseRecord,
        reason: Reason,
        message: &str,
    ) {
        let closed = PurchaseRecord {
            refused: Some(Refusal {
                reason: reason.as_str().to_owned(),
                message: message.to_owned(),
            }),
            ..record.clone()
        };
        let written = self.replace_record(intent, &closed.to_text()).await;
        let result = written.as_ref().map_or_else(KubeError::category, |()| "ok");
        self.context.metrics.kube_write("refusal", result);
        if let Err(error) = written {
            let Facts { key, .. } = self.facts;
            tracing::warn!(namespace = key.namespace, name = key.name, %error, "a refused create was not recorded");
        }
    }

    async fn is_other_object(&self) -> bool {
        let api = self.api::<Instance>();
        match call("read the Instance", api.get_metadata(&self.facts.key.name)).await {
            Ok(object) => object.metadata.uid.as_deref() != Some(self.facts.uid.as_str()),
            Err(error) => error.is_not_found(),
        }
    }

    async fn release_homeless(
        &self,
        session: &AccountSession,
        receipt: &PurchaseRecord,
        id: &ServerId,
    ) {
        let places = receipt
            .places
            .iter()
            .filter_map(|place| place.split_once('/'));
        let places = places
            .map(|(region, zone)| Place::new(region, zone))
            .collect();
        self.context
            .sessions
            .add_tombstone(self.account, session, &receipt.marker, places);
        let permit = room(session, CallPriority::Urgent).await;
        // With a tombstone the server is not left behind: it is released once a listing shows it.
        open(self.memory).origin.is_finished = true;
        let Ok(permit) = permit else {
            tracing::error!(server = %id, "a server without an Instance was not released: the request limit left no room; listings look out for it");
            return;
        };
        // If this process was suspended after its call, another process may have become the leader and adopted the server for an
        // object that was restored with the same marker.
        if self.has_time().is_err() {
            tracing::error!(server = %id, "a server without an Instance was not released: no time, or no Lease, is left");
            return;
        }
        if let Err(error) = session.shared.client.release(permit, id).await {
            tracing::error!(server = %id, %error, "a server without an Instance was not released; listings look out for it");
        }
    }

    /// JSON patch of the main resource: test UID and record, replace the record.
    async fn replace_record(&self, old: &str, new: &str) -> Result<(), KubeError> {
        let path = pointer(&["metadata", "annotations", BINDING]);
        let patch = json!([
            {"op": "test", "path": "/metadata/uid", "value": self.facts.uid},
            {"op": "test", "path": path, "value": old},
            {"op": "replace", "path": path, "value": new},
        ]);
        self.patch("write the receipt", patch).await
    }

    pub(super) async fn patch(&self, what: &'static str, patch: Value) -> Result<(), KubeError> {
        let patch = json_patch(what, patch)?;
        let params = patch_params();
        let written = call(
            what,
            self.api::<Instance>()
                .patch_metadata(&self.facts.key.name, &params, &patch),
        )
        .await?;
        open(self.memory).wrote(written.metadata.resource_version.as_deref(), Instant::now());
        Ok(())
    }

    async fn patch_status(&self, what: &'static str, patch: Value) -> Result<(), KubeError> {
        let patch = json_patch(what, patch)?;
        let (api, params) = (self.api::<PartialObjectMeta<Instance>>(), patch_params());
        let written = call(
            what,
            api.patch_status(&self.facts.key.name, &params, &patch),
        )
        .await?;
        open(self.memory).wrote(written.metadata.resource_version.as_deref(), Instant::now());
        Ok(())
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.context.client.clone(), &self.facts.key.namespace)
    }
}
