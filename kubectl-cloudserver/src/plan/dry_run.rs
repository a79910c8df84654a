//! A dry run of an apply in the cluster, with defaults, rules and admission policies. It writes nothing.

use super::super::service::Cluster;
use super::changes::{Change, changes, three_way};
use super::files::Manifest;
use cloud_server_operator::api::names::LAST_APPLIED;
use cloud_server_operator::api::{Instance, valid};
use cloud_server_operator::runtime::KubeError;
use cloud_server_operator::runtime::kubernetes::call;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::Status;
use serde_json::{Map, Value};

/// The field manager of client-side `kubectl apply`.
const CLIENT_SIDE: &str = "kubectl-client-side-apply";

/// Part of the apiserver's message if a server-side apply does not match the schema.
const NOT_TYPED: &str = "failed to create typed patch object";

/// The result for one manifest.
#[derive(Debug)]
pub(super) enum DryRun {
    /// The cluster would accept it.
    Taken(Box<Taken>),
    /// The cluster would reject it, for this reason.
    Refused(String),
    /// The result could not be determined, for this reason.
    Unknown(String),
}

/// The object after the apply.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) object: Instance,
    /// The cluster has no object of this name yet.
    pub(super) is_new: bool,
    pub(super) changes: Vec<Change>,
    pub(super) notes: Vec<String>,
}

/// The dry run of one manifest.
pub(super) async fn rehearse(
    cluster: &Cluster,
    namespace: &str,
    manifest: &Manifest,
    manager: &str,
) -> DryRun {
    let Some(name) = manifest.name() else {
        return DryRun::Refused("metadata.name is missing: give the Instance a name".to_owned());
    };
    let named = valid::object_name(name).map_err(|no_name| ("metadata.name", no_name));
    let placed = valid::namespace(namespace).map_err(|no_name| ("metadata.namespace", no_name));
    if let Err((field, no_name)) = named.and(placed) {
        return DryRun::Refused(format!("{field}: {no_name}: fix it"));
    }
    let kind = ApiResource::erase::<Instance>(&());
    let version = manifest.text("/apiVersion").unwrap_or_default();
    if version != kind.api_version {
        let message = format!(
            "apiVersion {version} is not known here: set it to {}",
            kind.api_version
        );
        return DryRun::Refused(message);
    }
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), namespace, &kind);
    let live = match call("read the Instance", api.get_opt(name)).await {
        Ok(live) => live,
        Err(error) => return DryRun::Unknown(cluster.explain(&error)),
    };
    let mut notes = Vec::new();
    let next = match &live {
        Some(live) if is_client_side(live, manager) => {
            client_side(&api, live, manifest, name).await
        }
        _ => server_side(&api, manifest, name, manager, &mut notes).await,
    };
    let next = match next {
        Ok(next) => next,
        Err(error) => return not_taken(cluster, &error, namespace),
    };
    let values = [live.as_ref(), Some(&next)];
    let [now, then] = values.map(|object| serde_json::to_value(object).unwrap_or_default());
    match serde_json::from_value::<Instance>(then.clone()) {
        Ok(object) => DryRun::Taken(Box::new(Taken {
            changes: changes(&now, &then),
            is_new: live.is_none(),
            object,
            notes,
        })),
        Err(error) => DryRun::Unknown(format!(
            "this version cannot read the Instance as it would be: {error}: use the version that its CustomResourceDefinition \
             belongs to"
        )),
    }
}

/// Whether kubectl applied the object client-side, and this manager never applied it server-side.
fn is_client_side(live: &DynamicObject, manager: &str) -> bool {
    let managers = live.metadata.managed_fields.iter().flatten();
    let mut applied = managers.filter(|entry| entry.operation.as_deref() == Some("Apply"));
    let by_manager = applied.any(|entry| entry.manager.as_deref() == Some(manager));
    !by_manager && live.annotations().contains_key(LAST_APPLIED)
}

/// Client-side, as `kubectl apply`: three manifests make a merge patch.
async fn client_side(
    api: &Api<DynamicObject>,
    live: &DynamicObject,
    manifest: &Manifest,
    name: &str,
) -> Result<DynamicObject, KubeError> {
    let before = live.annotations().get(LAST_APPLIED);
    let before = before.and_then(|text| serde_json::from_str(text).ok());
    let before: Value = before.unwrap_or_default();
    let mut value = manifest.value.clone();
    if let Some(meta) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        // kubectl sets these before it compares.
        meta.insert("namespace".to_owned(), live.namespace().into());
        let annotations = meta.entry("annotations");
        annotations.or_insert_with(|| Value::Object(Map::new()));
    }
    let patch = three_way(&before, &value);
    let params = PatchParams {
        dry_run: true,
        field_manager: Some(CLIENT_SIDE.to_owned()),
        ..PatchParams::default()
    };
    let params = params.validation_strict();
    call(
        "rehearse the change",
        api.patch(name, &params, &Patch::Merge(&patch)),
    )
    .await
}

/// Server-side, as `kubectl apply --server-side`. If other managers own fields, the result is the one of a forced apply.
async fn server_side(
    api: &Api<DynamicObject>,
    manifest: &Manifest,
    name: &str,
    manager: &str,
    notes: &mut Vec<String>,
) -> Result<DynamicObject, KubeError> {
    let mut value = manifest.value.clone();
    if let Some(meta) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("managedFields");
    }
    let params = PatchParams::apply(manager).dry_run().validation_strict();
    let apply = async |params: &PatchParams| {
        call(
            "rehearse the change",
            api.patch(name, params, &Patch::Apply(&value)),
        )
        .await
    };
    match apply(&params).await {
        Err(KubeError::Refused { status, .. }) if status.code == 409 => {
            notes.push(format!(
                "others manage fields of it ({}): shown is what --force-conflicts would make; name the manager that applies it with \
                 --field-manager",
                status.message.replace('\n', " ")
            ));
            apply(&params.force()).await
        }
        answered => answered,
    }
}

fn not_taken(cluster: &Cluster, error: &KubeError, namespace: &str) -> DryRun {
    match error {
        KubeError::Refused { status, .. } if status.code == 404 => DryRun::Refused(format!(
            "{}: create namespace {namespace} first, and install the CustomResourceDefinitions (`crds`)",
            status.message
        )),
        KubeError::Refused { status, .. } if lacks_a_right(status) => DryRun::Refused(format!(
            "{}: have yourself allowed to patch Instances there, and to create those that are new; a dry run needs the same \
             rights as applying, and writes nothing",
            status.message
        )),
        // The apiserver reports a field that the schema does not know as an error of its own.
        KubeError::Refused { status, .. }
            if matches!(status.code, 400 | 401 | 403 | 409 | 413 | 422)
                || status.message.contains(NOT_TYPED) =>
        {
            DryRun::Refused(without_the_object(&status.message).to_owned())
        }
        KubeError::Refused { .. }
        | KubeError::Timeout { .. }
        | KubeError::NotActive { .. }
        | KubeError::Malformed { .. }
        | KubeError::Unwritable { .. }
        | KubeError::Transport { .. } => DryRun::Unknown(cluster.explain(error)),
    }
}

/// The reason in a message of the apiserver, which quotes an undecodable object completely before it.
fn without_the_object(message: &str) -> &str {
    const WHY: &str = "strict decoding error: ";
    message
        .rfind(WHY)
        .map_or(message, |at| &message[at + WHY.len()..])
}

/// Whether RBAC forbids the request, and not a policy the object: this is RBAC's message.
fn lacks_a_right(status: &Status) -> bool {
    status.code == 403 && status.message.contains(" is forbidden: User ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_that_quotes_the_whole_object_is_told_by_its_reason() {
        let quoted = "\"\" is invalid: patch: Invalid value: \"{\\\"metadata\\\":{}}\": strict decoding error: unknown field \"spec.regoin\"";
        assert_eq!(without_the_object(quoted), "unknown field \"spec.regoin\"");
        assert_eq!(without_the_object("denied: because"), "denied: because");
    }
}
