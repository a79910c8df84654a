//! Creates and changes Secrets, and names the cause if that fails.

use super::ownership::{Managed, Ownership, owner};
use crate::api::Instance;
use crate::api::conditions::{Readiness, Reason};
use crate::api::names::{BINDING, MANAGER};
use crate::instance::context::Context;
use crate::instance::facts::Facts;
use crate::instance::outcome::Outcome;
use crate::runtime::kubernetes::{call, patch_params};
use crate::runtime::watch::ObjectKey;
use crate::runtime::{KubeError, Obstacle};
use crate::session::Content;
use data_encoding::BASE64;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, Patch, PostParams};
use kube::{Api, ResourceExt};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};
use zeroize::Zeroize;

/// Why a Secret was not written.
#[derive(Debug)]
pub(super) enum NotWritten {
    /// It is not in the state that the plan is based on.
    Stale,
    /// The operator has permission to write more Secrets than it should, so it creates none. With the cause and the remedy.
    Unsafe(String),
    /// The apiserver refused, or the outcome is unknown.
    Failed(KubeError),
}

impl NotWritten {
    /// Outcome of the step that writes this Secret.
    pub(super) fn outcome(self, name: &str) -> Outcome {
        let readiness = match &self {
            Self::Stale => return Outcome::Stale,
            Self::Unsafe(words) => Readiness::stalled(Reason::SecretNotWritable, words.clone()),
            Self::Failed(error) => match error.obstacle() {
                None => return Outcome::not_written(error),
                Some(obstacle) if obstacle.passes_by_itself() => Readiness::reconciling(
                    Reason::SecretNotWritable,
                    refused(name, obstacle, error),
                ),
                Some(obstacle) => {
                    Readiness::stalled(Reason::SecretNotWritable, refused(name, obstacle, error))
                }
            },
        };
        Outcome::NotDone(readiness.message.clone(), Some(readiness))
    }
}

/// The remedy for missing permission to write Secrets of Instances.
const RIGHT: &str = "apply deploy/secret-writer, which allows it (for one namespace: deploy/one-namespace/secret-writer, a line of \
     deploy/namespaced/kustomization.yaml)";

/// Message for a refused Secret. The remedy comes first, since a policy's message may be long.
pub(super) fn refused(name: &str, obstacle: Obstacle, error: &KubeError) -> String {
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
pub(super) struct Change {
    pub(super) values: Vec<(&'static str, SecretString)>,
    pub(super) removed: Vec<&'static str>,
    pub(super) annotations: Vec<(&'static str, String)>,
}

impl Change {
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

    fn annotations(&self, managed: &Managed<'_>) -> Map<String, Value> {
        let ours = self.annotations.iter();
        let ours = ours.map(|(name, text)| ((*name).to_owned(), Value::from(text.as_str())));
        managed.annotations().into_iter().chain(ours).collect()
    }

    /// The error without the values of the write, in case an admission webhook quotes them.
    pub(super) fn without_values(&self, error: KubeError) -> KubeError {
        error.hiding(self.values.iter().map(|(_, value)| value.expose_secret()))
    }
}

/// Checks that the Instance exists, stays, and still has the record that the plan is based on. Kubernetes collects the Secret of
/// a deleted Instance at once, so the operator would create it again and again until a late watch shows the deletion. And if a
/// late watch does not show the server yet, that server does not have the first password of a new Secret.
async fn stays(context: &Context, facts: &Facts) -> Result<(), NotWritten> {
    let api: Api<Instance> = Api::namespaced(context.client.clone(), &facts.key.namespace);
    match call("read the Instance", api.get_metadata(&facts.key.name)).await {
        Ok(object)
            if object.metadata.uid.as_deref() == Some(facts.uid.as_str())
                && object.metadata.deletion_timestamp.is_none()
                && object.annotations().get(BINDING) == facts.annotation.as_ref() =>
        {
            Ok(())
        }
        Ok(_) => Err(NotWritten::Stale),
        Err(error) if error.is_not_found() => Err(NotWritten::Stale),
        Err(error) => Err(NotWritten::Failed(error)),
    }
}

/// Creates a Secret that the Instance owns; leaves an existing one alone.
pub(super) async fn create(
    context: &Context,
    facts: &Facts,
    managed: &Managed<'_>,
    change: &Change,
) -> Result<(), NotWritten> {
    // The operator does not use permissions that no policy confines, so that no user relies on them.
    if let Some(words) = context.rights.excess_words() {
        return Err(NotWritten::Unsafe(format!("no Secret is made: {words}")));
    }
    stays(context, facts).await?;
    // A key that is to be removed would otherwise be created with an empty value.
    let mut data = change.data();
    data.retain(|_, value| !value.is_null());
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {
            "name": managed.name,
            "labels": managed.labels(facts),
            "annotations": change.annotations(managed),
            "ownerReferences": owner(facts),
        },
        "data": data,
    });
    let what = "create a Secret";
    let secret: Secret = serde_json::from_value(secret).map_err(|source| {
        NotWritten::Failed(KubeError::Unwritable {
            operation: what,
            source,
        })
    })?;
    let params = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &facts.key.namespace);
    let written = call(what, api.create(&params, &secret)).await;
    wipe(secret);
    let result = written.as_ref().map_or_else(KubeError::category, |_| "ok");
    context.metrics.kube_writes.count(["secret", result]);
    match written {
        Ok(mut made) => {
            let meta = std::mem::take(&mut made.metadata);
            wipe(made);
            // The reconcile that waits for a login is triggered by the watch event of the new Secret, so that event must count as
            // news.
            if !managed.is_login() {
                note(context, facts, managed, meta);
            }
            Ok(())
        }
        // The Secret exists, from an older write of ours whose answer was lost or from another writer: read it.
        Err(error) if error.is_conflict() => Err(NotWritten::Stale),
        Err(error) => Err(NotWritten::Failed(change.without_values(error))),
    }
}

/// Changes a Secret of the Instance in exactly the version that was read. A Secret without an owner gets the Instance as owner.
pub(super) async fn patch(
    context: &Context,
    facts: &Facts,
    managed: &Managed<'_>,
    content: &Content,
    change: &Change,
) -> Result<(), NotWritten> {
    let mut patch = json!({
        "metadata": {
            "uid": content.uid,
            "resourceVersion": content.resource_version,
            "labels": managed.labels(facts),
            "annotations": change.annotations(managed),
        },
        "data": change.data(),
    });
    if managed.ownership(content, facts) != Ownership::Ours {
        // A late watch may show a deleted Instance, whose successor owns the Secret by now.
        stays(context, facts).await?;
        patch["metadata"]["ownerReferences"] = owner(facts);
    }
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &facts.key.namespace);
    let (params, patch) = (patch_params(), Patch::Merge(&patch));
    // Only metadata is returned, so the values do not come back.
    let written = api.patch_metadata(&managed.name, &params, &patch);
    let written = call("change a Secret", written).await;
    let result = written.as_ref().map_or_else(KubeError::category, |_| "ok");
    context.metrics.kube_writes.count(["secret", result]);
    match written {
        Ok(object) => {
            note(context, facts, managed, object.metadata);
            Ok(())
        }
        Err(error) if error.is_conflict() || error.is_not_found() => Err(NotWritten::Stale),
        Err(error) => Err(NotWritten::Failed(change.without_values(error))),
    }
}

/// Records the version in the answer to our own write.
fn note(context: &Context, facts: &Facts, managed: &Managed<'_>, written: ObjectMeta) {
    let secret = ObjectKey::new(&facts.key.namespace, &managed.name);
    if let (Some(uid), Some(version)) = (written.uid, written.resource_version) {
        context.secrets.wrote(secret, &uid, &version);
    }
}

fn wipe(mut secret: Secret) {
    for (_, mut value) in secret.data.take().unwrap_or_default() {
        value.0.zeroize();
    }
}
