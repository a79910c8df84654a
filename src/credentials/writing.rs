//! Creates and changes Secrets, and names the cause if that fails.

use super::ownership::{ManagedSecret, Ownership, SecretOwner};
use crate::api::Instance;
use crate::api::conditions::{Readiness, Reason};
use crate::api::names::{BINDING, MANAGER, ROTATED_AT, SETTLED_FROM};
use crate::runtime::kubernetes::{call, patch_params};
use crate::runtime::watch::ObjectKey;
use crate::runtime::{KubeError, Metrics, Obstacle, Rights};
use crate::session::{Content, SecretVersions};
use data_encoding::BASE64;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, Patch, PostParams};
use kube::{Api, Client, ResourceExt};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use zeroize::Zeroize;

/// Reads and writes Secrets of Instances.
#[derive(Clone, Copy)]
pub struct SecretClient<'a> {
    pub client: &'a Client,
    pub versions: &'a SecretVersions,
    pub rights: &'a Rights,
    pub metrics: &'a Metrics,
}

/// Why a Secret was not written.
#[derive(Debug)]
pub enum SecretNotWritten {
    /// It is not in the state that the plan is based on.
    Stale,
    /// The apiserver did not answer, or the outcome is unknown.
    Failed(String),
    /// The apiserver refuses it, or the operator has permission to write more Secrets than it should and creates none. With the
    /// cause and the remedy.
    Refused(Readiness),
}

impl SecretNotWritten {
    pub(super) fn of(name: &str, error: &KubeError) -> Self {
        let Some(obstacle) = error.obstacle() else {
            return Self::Failed(error.to_string());
        };
        let words = refused(name, obstacle, error);
        Self::Refused(match obstacle.passes_by_itself() {
            true => Readiness::reconciling(Reason::SecretNotWritable, words),
            false => Readiness::stalled(Reason::SecretNotWritable, words),
        })
    }
}

/// The remedy for missing permission to write Secrets of Instances.
const RIGHT: &str = "apply deploy/secret-writer, which allows it (for one namespace: deploy/one-namespace/secret-writer, a line of \
     deploy/namespaced/kustomization.yaml)";

/// Message for a refused Secret. The remedy comes first, since a policy's message may be long.
fn refused(name: &str, obstacle: Obstacle, error: &KubeError) -> String {
    let remedy = obstacle.remedy(RIGHT);
    let or = match obstacle {
        Obstacle::Policy => ", or give the Secret what the policy asks for by template in the spec",
        _ => "",
    };
    format!(
        "Secret {name} is not written: {remedy}{or}; the operator tries again by itself. {error}"
    )
}

/// Values and annotations of one write.
#[derive(Debug, Default)]
pub(super) struct SecretChange {
    pub(super) values: Vec<(&'static str, SecretString)>,
    pub(super) removed: Vec<&'static str>,
    /// Since when the password is in force.
    pub(super) rotated_at: Option<Timestamp>,
    /// The version whose password is in force in the new one.
    pub(super) settled_from: Option<String>,
}

impl SecretChange {
    pub(super) fn put(&mut self, key: &'static str, value: &str) {
        self.values.push((key, SecretString::from(value)));
    }

    /// The field `data` of a Secret, or of a merge patch of one.
    pub(super) fn data(&self) -> Map<String, Value> {
        let values = self.values.iter().map(|(key, value)| {
            let text = BASE64.encode(value.expose_secret().as_bytes());
            ((*key).to_owned(), Value::from(text))
        });
        let removed = self
            .removed
            .iter()
            .map(|key| ((*key).to_owned(), Value::Null));
        values.chain(removed).collect()
    }

    fn annotations(&self, managed: &ManagedSecret<'_>) -> BTreeMap<String, String> {
        let template = managed.template;
        let mut annotations = template
            .map(|it| it.annotations.clone())
            .unwrap_or_default();
        let rotated_at = self.rotated_at.map(|at| at.to_string());
        let settled_from = self.settled_from.clone();
        annotations.extend(rotated_at.map(|text| (ROTATED_AT.to_owned(), text)));
        annotations.extend(settled_from.map(|text| (SETTLED_FROM.to_owned(), text)));
        annotations
    }

    /// The error without the values of the write, in case an admission webhook quotes them.
    pub(super) fn without_values(&self, error: KubeError) -> KubeError {
        error.hiding(self.values.iter().map(|(_, value)| value.expose_secret()))
    }
}

impl SecretClient<'_> {
    /// Checks that the Instance exists, stays, and still has the record that the plan is based on. Kubernetes collects the Secret
    /// of a deleted Instance at once, so the operator would create it again and again until a late watch shows the deletion. And if
    /// a late watch does not show the server yet, that server does not have the first password of a new Secret.
    async fn stays(self, managed: &ManagedSecret<'_>) -> Result<(), SecretNotWritten> {
        let SecretOwner {
            key, uid, record, ..
        } = managed.owner;
        let api: Api<Instance> = Api::namespaced(self.client.clone(), &key.namespace);
        match call("read the Instance", api.get_metadata(&key.name)).await {
            Ok(object)
                if object.metadata.uid.as_deref() == Some(uid)
                    && object.metadata.deletion_timestamp.is_none()
                    && object.annotations().get(BINDING) == record =>
            {
                Ok(())
            }
            Ok(_) => Err(SecretNotWritten::Stale),
            Err(error) if error.is_not_found() => Err(SecretNotWritten::Stale),
            Err(error) => Err(SecretNotWritten::of(&managed.name, &error)),
        }
    }

    /// Creates a Secret that the Instance owns; leaves an existing one alone. Returns its version.
    pub(super) async fn create(
        self,
        managed: &ManagedSecret<'_>,
        change: &SecretChange,
    ) -> Result<String, SecretNotWritten> {
        const WHAT: &str = "create a Secret";
        // The operator does not use permissions that no policy confines, so that no user relies on them.
        if let Some(words) = self.rights.excess_words() {
            let words = format!("no Secret is made: {words}");
            let readiness = Readiness::stalled(Reason::SecretNotWritable, words);
            return Err(SecretNotWritten::Refused(readiness));
        }
        self.stays(managed).await?;
        // A key that is to be removed would otherwise be created with an empty value.
        let mut data = change.data();
        data.retain(|_, value| !value.is_null());
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {
                "name": managed.name,
                "labels": managed.labels(),
                "annotations": change.annotations(managed),
                "ownerReferences": managed.owner_reference(),
            },
            "data": data,
        });
        let failed = |error| SecretNotWritten::of(&managed.name, &change.without_values(error));
        let secret: Secret =
            serde_json::from_value(secret).map_err(|_| failed(KubeError::unwritable(WHAT)))?;
        let params = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        let written = call(WHAT, self.api(managed).create(&params, &secret)).await;
        wipe(secret);
        self.count(&written);
        match written {
            Ok(mut made) => {
                let meta = std::mem::take(&mut made.metadata);
                wipe(made);
                Ok(version(&meta))
            }
            // The Secret exists, from an older write of ours whose answer was lost or from another writer: read it.
            Err(error) if error.is_conflict() => Err(SecretNotWritten::Stale),
            Err(error) => Err(failed(error)),
        }
    }

    /// Changes a Secret of the Instance in exactly the version that was read. A Secret without an owner gets the Instance as owner.
    /// Returns its new version.
    pub(super) async fn patch(
        self,
        managed: &ManagedSecret<'_>,
        content: &Content,
        change: &SecretChange,
    ) -> Result<String, SecretNotWritten> {
        let mut patch = json!({
            "metadata": {
                "uid": content.uid,
                "resourceVersion": content.resource_version,
                "labels": managed.labels(),
                "annotations": change.annotations(managed),
            },
            "data": change.data(),
        });
        if managed.ownership(content) != Ownership::Ours {
            // A late watch may show a deleted Instance, whose successor owns the Secret by now.
            self.stays(managed).await?;
            patch["metadata"]["ownerReferences"] = managed.owner_reference();
        }
        let (api, params, patch) = (self.api(managed), patch_params(), Patch::Merge(&patch));
        // Only metadata is returned, so the values do not come back.
        let written = api.patch_metadata(&managed.name, &params, &patch);
        let written = call("change a Secret", written).await;
        self.count(&written);
        match written {
            Ok(object) => {
                let meta = object.metadata;
                let key = ObjectKey::new(&managed.owner.key.namespace, &managed.name);
                if let (Some(uid), Some(version)) = (&meta.uid, &meta.resource_version) {
                    self.versions.wrote(key, uid, version);
                }
                Ok(version(&meta))
            }
            Err(error) if error.is_swap_lost() => Err(SecretNotWritten::Stale),
            Err(error) => Err(SecretNotWritten::of(
                &managed.name,
                &change.without_values(error),
            )),
        }
    }

    fn api(self, managed: &ManagedSecret<'_>) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &managed.owner.key.namespace)
    }

    fn count<T>(self, written: &Result<T, KubeError>) {
        let result = written.as_ref().map_or_else(KubeError::category, |_| "ok");
        self.metrics.kube_writes.count(["secret", result]);
    }
}

fn wipe(mut secret: Secret) {
    for (_, mut value) in secret.data.take().unwrap_or_default() {
        value.0.zeroize();
    }
}

fn version(meta: &ObjectMeta) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}/{}", part(&meta.uid), part(&meta.resource_version))
}
