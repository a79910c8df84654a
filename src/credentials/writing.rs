//! Creates and changes Secrets, and names the cause if that fails.

use super::ownership::{ManagedSecret, Ownership, SecretOwner};
use crate::api::Instance;
use crate::api::conditions::{Readiness, Reason};
use crate::api::names::{BINDING, MANAGER, ROTATED_AT, SETTLED_FROM};
use crate::runtime::kubernetes::{call, patch_params};
use crate::runtime::watch::ObjectKey;
use crate::runtime::{KubeError, Metrics, Obstacle, Rights};
use crate::session::{Content, SecretProblem, SecretVersions};
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
    /// The Secret, or the Instance that is to own it, is not in the state that the plan is based on.
    Stale,
    /// The apiserver did not answer, or failed in a way that may pass. The outcome of a write may be unknown.
    Failed(String),
    /// The apiserver refuses it, or the operator creates no Secrets since it has permissions that it must not have. With the cause
    /// and the remedy.
    Refused(Readiness),
}

impl SecretNotWritten {
    pub(super) fn of(name: &str, error: &KubeError) -> Self {
        let Some(obstacle) = error.obstacle() else {
            return Self::Failed(error.to_string());
        };
        let words = refused(name, obstacle, error);
        Self::Refused(obstacle.readiness(Reason::SecretNotWritable, words))
    }

    /// A Secret could not be read, so nothing is written.
    pub(super) fn unread(problem: SecretProblem) -> Self {
        let words = problem.to_string();
        match problem {
            SecretProblem::Unread { source, .. } if source.obstacle().is_some() => {
                Self::Refused(Readiness::reconciling(Reason::SecretReadFailed, words))
            }
            _ => Self::Failed(words),
        }
    }
}

/// The remedy for missing permission to write Secrets of Instances.
const RIGHT: &str = "apply deploy/secret-writer, which allows it (for one namespace, enable \
     deploy/one-namespace/secret-writer in deploy/namespaced/kustomization.yaml)";

/// Message for a refused Secret. The remedy comes first, since a policy's message may be long.
fn refused(name: &str, obstacle: Obstacle, error: &KubeError) -> String {
    let remedy = obstacle.remedy(RIGHT);
    let or = match obstacle {
        Obstacle::Policy => ", or add what the policy requires with a template in the spec",
        _ => "",
    };
    format!(
        "Secret {name} is not written: {remedy}{or}; the operator retries automatically. {error}"
    )
}

/// Values and annotations of one write.
#[derive(Debug, Default)]
pub(super) struct SecretChange {
    /// The value of each key; None removes it.
    pub(super) values: Vec<(&'static str, Option<SecretString>)>,
    /// When the newest password was generated or came into effect.
    pub(super) rotated_at: Option<Timestamp>,
    /// The former version, if its password is still in force in the one that is written.
    pub(super) settled_from: Option<String>,
}

impl SecretChange {
    pub(super) fn put(&mut self, key: &'static str, value: &str) {
        self.values.push((key, Some(SecretString::from(value))));
    }

    pub(super) fn remove(&mut self, key: &'static str) {
        self.values.push((key, None));
    }

    /// The field `data` of a Secret, or of a merge patch of one.
    pub(super) fn data(&self) -> Map<String, Value> {
        let values = self.values.iter().map(|(key, value)| {
            let encoded = |value: &SecretString| BASE64.encode(value.expose_secret().as_bytes());
            ((*key).to_owned(), Value::from(value.as_ref().map(encoded)))
        });
        values.collect()
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
        let values = self.values.iter().filter_map(|(_, value)| value.as_ref());
        error.hiding(values.map(ExposeSecret::expose_secret))
    }
}

impl SecretClient<'_> {
    /// Checks that the Instance exists, stays, and still has the record that the plan is based on. A late watch may show a deleted
    /// Instance. Kubernetes collects the Secret of such an Instance at once, so the operator would create it again and again, and a
    /// successor of the Instance may own the Secret by now. A late watch may also not show the server yet, which has another
    /// password than the first one of a new Secret.
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

    /// Creates a Secret that the Instance owns, or changes the one that was read, if it is still in that version. A Secret without
    /// a living owner gets the Instance as owner. Returns the new version.
    pub(super) async fn write(
        self,
        managed: &ManagedSecret<'_>,
        read: Option<&Content>,
        change: &SecretChange,
    ) -> Result<String, SecretNotWritten> {
        // While no policy confines the permission to create Secrets, the operator creates none, so that no user relies on it.
        if let (None, Some(words)) = (read, self.rights.excess_words()) {
            let words = format!("no Secret is made: {words}");
            let readiness = Readiness::stalled(Reason::SecretNotWritable, words);
            return Err(SecretNotWritten::Refused(readiness));
        }
        let mut secret = json!({
            "metadata": {
                "name": managed.name,
                "labels": managed.labels(read),
                "annotations": change.annotations(managed),
            },
            "data": change.data(),
        });
        if read.is_none_or(|read| managed.ownership(read) != Ownership::Ours) {
            self.stays(managed).await?;
            secret["metadata"]["ownerReferences"] = managed.owner_reference();
        }
        let written = match read {
            Some(read) => self.patch(managed, read, secret).await,
            None => self.create(managed, secret).await,
        };
        let result = written.as_ref().map_or_else(KubeError::category, |_| "ok");
        self.metrics.kube_writes.count(["secret", result]);
        match written {
            Ok(meta) => {
                let part = |part: Option<String>| part.unwrap_or_default();
                let (uid, version) = (part(meta.uid), part(meta.resource_version));
                if read.is_some() {
                    let key = ObjectKey::new(&managed.owner.key.namespace, &managed.name);
                    self.versions.note_own_write(key, &uid, &version);
                }
                Ok(format!("{uid}/{version}"))
            }
            // The Secret exists or was changed, by an older write of ours whose answer was lost or by another writer: read it.
            Err(error) if error.is_swap_lost() => Err(SecretNotWritten::Stale),
            Err(error) => {
                let error = change.without_values(error);
                Err(SecretNotWritten::of(&managed.name, &error))
            }
        }
    }

    /// Creates the Secret. Fails if a Secret of that name exists.
    async fn create(
        self,
        managed: &ManagedSecret<'_>,
        mut secret: Value,
    ) -> Result<ObjectMeta, KubeError> {
        const WHAT: &str = "create a Secret";
        (secret["apiVersion"], secret["kind"]) = ("v1".into(), "Secret".into());
        secret["type"] = "Opaque".into();
        if let Some(data) = secret["data"].as_object_mut() {
            // A key that is to be removed would otherwise be created with an empty value.
            data.retain(|_, value| !value.is_null());
        }
        let secret: Secret =
            serde_json::from_value(secret).map_err(|_| KubeError::unwritable(WHAT))?;
        let params = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        let made = call(WHAT, self.api(managed).create(&params, &secret)).await;
        wipe(secret);
        let mut made = made?;
        let meta = std::mem::take(&mut made.metadata);
        wipe(made);
        Ok(meta)
    }

    async fn patch(
        self,
        managed: &ManagedSecret<'_>,
        read: &Content,
        mut secret: Value,
    ) -> Result<ObjectMeta, KubeError> {
        secret["metadata"]["uid"] = read.uid.as_str().into();
        secret["metadata"]["resourceVersion"] = read.resource_version.as_str().into();
        let (api, params, patch) = (self.api(managed), patch_params(), Patch::Merge(&secret));
        // Only metadata is returned, so the values do not come back.
        let changed = api.patch_metadata(&managed.name, &params, &patch);
        Ok(call("change a Secret", changed).await?.metadata)
    }

    fn api(self, managed: &ManagedSecret<'_>) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &managed.owner.key.namespace)
    }
}

fn wipe(mut secret: Secret) {
    for (_, mut value) in secret.data.take().unwrap_or_default() {
        value.0.zeroize();
    }
}
