//! A dry run of an apply in the cluster, with defaults, rules and admission policies. It writes nothing.

use super::super::service::Cluster;
use super::changes::{Change, apply_patch, changes};
use super::files::Manifest;
use super::verdict::{Effect, Finding};
use cloud_server_operator::api::names::LAST_APPLIED;
use cloud_server_operator::api::{Instance, valid};
use cloud_server_operator::runtime::KubeError;
use cloud_server_operator::runtime::kubernetes::call;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::{Map, Value};

/// The field manager of client-side `kubectl apply`.
const CLIENT_SIDE: &str = "kubectl-client-side-apply";

/// The name of the dry run in errors.
const DRY_RUN: &str = "make a dry run of the change";

/// Part of the apiserver's message if a server-side apply does not match the schema.
const NOT_TYPED: &str = "failed to create typed patch object";

/// The object after the apply.
#[derive(Debug)]
pub(super) struct Applied {
    pub(super) object: Instance,
    /// The cluster has no object of this name yet.
    pub(super) is_new: bool,
    pub(super) changes: Vec<Change>,
    pub(super) notes: Vec<String>,
}

/// The dry run of one manifest: the object, or a refusal, or why the result is unknown.
pub(super) async fn dry_run(
    cluster: &Cluster,
    namespace: &str,
    manifest: &Manifest,
    manager: &str,
) -> Result<Applied, Finding> {
    let kind = ApiResource::erase::<Instance>(&());
    let name = check(namespace, manifest, &kind.api_version).map_err(refused)?;
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), namespace, &kind);
    let live = call("read the Instance", api.get_opt(name)).await;
    let live = live.map_err(|error| Finding::of(Effect::Unknown, cluster.explain(&error)))?;
    let mut notes = Vec::new();
    let next = match &live {
        Some(live) if is_client_side(live, manager) => {
            client_side(&api, live, manifest, name).await
        }
        _ => server_side(&api, manifest, name, manager, &mut notes).await,
    };
    let next = next.map_err(|error| not_applied(cluster, &error, namespace))?;
    let values = [live.as_ref(), Some(&next)];
    let [now, then] = values.map(|object| serde_json::to_value(object).unwrap_or_default());
    let changes = changes(&now, &then);
    let object = serde_json::from_value(then).map_err(|error| {
        let why = format!(
            "this version cannot read the resulting Instance: {error}: use the version of the installed CustomResourceDefinition"
        );
        Finding::of(Effect::Unknown, why)
    })?;
    Ok(Applied {
        object,
        is_new: live.is_none(),
        changes,
        notes,
    })
}

fn refused(why: String) -> Finding {
    Finding::of(Effect::Refused, why)
}

/// The name of the Instance, if the manifest can be sent.
fn check<'a>(
    namespace: &str,
    manifest: &'a Manifest,
    api_version: &str,
) -> Result<&'a str, String> {
    let name = manifest
        .name()
        .ok_or("metadata.name is missing: give the Instance a name")?;
    valid::object_name(name).map_err(|why| format!("metadata.name: {why}: fix it"))?;
    valid::namespace(namespace).map_err(|why| format!("metadata.namespace: {why}: fix it"))?;
    match manifest.text("/apiVersion").unwrap_or_default() {
        version if version == api_version => Ok(name),
        version => Err(format!(
            "apiVersion {version} is not known here: set it to {api_version}"
        )),
    }
}

/// Whether kubectl applied the object client-side, and this manager owns no field by a server-side apply.
fn is_client_side(live: &DynamicObject, manager: &str) -> bool {
    let managers = live.metadata.managed_fields.iter().flatten();
    let mut applied = managers.filter(|entry| entry.operation.as_deref() == Some("Apply"));
    let by_manager = applied.any(|entry| entry.manager.as_deref() == Some(manager));
    !by_manager && live.annotations().contains_key(LAST_APPLIED)
}

/// Client-side, as `kubectl apply`: a merge patch from the last applied manifest and the new one. Unlike kubectl's, the patch also
/// contains the values that the object already has; they change nothing.
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
    let patch = Patch::Merge(apply_patch(&before, &value));
    let params = PatchParams::apply(CLIENT_SIDE).dry_run();
    let params = params.validation_strict();
    call(DRY_RUN, api.patch(name, &params, &patch)).await
}

/// Server-side, as `kubectl apply --server-side`. If other managers own fields that the manifest changes, the result is that of a
/// forced apply.
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
    let patch = Patch::Apply(value);
    let apply = async |params: &PatchParams| call(DRY_RUN, api.patch(name, params, &patch)).await;
    match apply(&params).await {
        Err(KubeError::Refused { status, .. }) if status.code == 409 => {
            notes.push(format!(
                "other managers own fields of the manifest ({}): the plan shows the result of --force-conflicts; if one of them \
                 applies the manifest, name it with --field-manager",
                status.message.replace('\n', " ")
            ));
            apply(&params.force()).await
        }
        answer => answer,
    }
}

fn not_applied(cluster: &Cluster, error: &KubeError, namespace: &str) -> Finding {
    let KubeError::Refused { status, .. } = error else {
        return Finding::of(Effect::Unknown, cluster.explain(error));
    };
    let message = &status.message;
    match status.code {
        404 => refused(format!(
            "{message}: create namespace {namespace} first, and install the CustomResourceDefinitions (`crds`)"
        )),
        403 if is_forbidden(message) => refused(format!(
            "{message}: have yourself allowed to patch Instances in this namespace, and to create new ones; a dry run needs the \
             same rights as applying, and writes nothing"
        )),
        400 | 401 | 403 | 409 | 413 | 422 => refused(without_the_object(message).to_owned()),
        // The apiserver reports a field that the schema does not know as an internal error (500).
        _ if message.contains(NOT_TYPED) => refused(without_the_object(message).to_owned()),
        _ => Finding::of(Effect::Unknown, cluster.explain(error)),
    }
}

/// The reason in a message of the apiserver. Before the reason, the message quotes an undecodable object completely.
fn without_the_object(message: &str) -> &str {
    const WHY: &str = "strict decoding error: ";
    message
        .rfind(WHY)
        .map_or(message, |at| &message[at + WHY.len()..])
}

/// Whether this is the message of RBAC, which forbids the request, and not that of an admission policy, which denies the
/// object.
fn is_forbidden(message: &str) -> bool {
    message.contains(" is forbidden: User ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_that_quotes_the_whole_object_is_shown_by_its_reason() {
        let quoted = "\"\" is invalid: patch: Invalid value: \"{\\\"metadata\\\":{}}\": strict decoding error: unknown field \"spec.regoin\"";
        assert_eq!(without_the_object(quoted), "unknown field \"spec.regoin\"");
        assert_eq!(without_the_object("denied: because"), "denied: because");
    }
}
