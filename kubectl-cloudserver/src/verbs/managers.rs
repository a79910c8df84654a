//! Which manifests contain a field, so that a GitOps tool or `kubectl apply` would revert an edit. Pure.

use cloud_server_operator::api::Instance;
use cloud_server_operator::api::names::LAST_APPLIED;
use kube::ResourceExt;
use serde_json::Value;

/// Field manager of the edits that verbs make. Flux treats names that begin with `kubectl` as manual edits, and reverts them.
pub(super) const FIELD_MANAGER: &str = "cloudserver-cli";

/// The writer that would revert this edit of the spec: a field manager that applied the field server-side, regardless of its
/// value; otherwise kubectl, if its last-applied manifest has another value.
pub(super) fn reverting_applier(live: &Instance, field: &str, value: &Value) -> Option<String> {
    let entries = live.metadata.managed_fields.iter().flatten();
    let mut server_side = entries.filter(|entry| entry.operation.as_deref() == Some("Apply"));
    let by = server_side.find_map(|entry| {
        let manager = entry
            .manager
            .as_deref()
            .filter(|manager| *manager != FIELD_MANAGER)?;
        let fields = &entry.fields_v1.as_ref()?.0;
        let has = fields.pointer(&format!("/f:spec/f:{field}")).is_some();
        has.then(|| format!("field manager {manager}"))
    });
    by.or_else(|| {
        let text = live.annotations().get(LAST_APPLIED)?;
        let manifest: Value = serde_json::from_str(text).ok()?;
        let applied = manifest.pointer(&format!("/spec/{field}"))?;
        (applied != value).then(|| "kubectl apply".to_owned())
    })
}
