//! Which manifests contain a field, so that a GitOps tool or `kubectl apply` would revert an edit. Pure.

use cloud_server_operator::api::Instance;
use cloud_server_operator::api::names::LAST_APPLIED;
use kube::ResourceExt;
use serde_json::Value;

/// Field manager of the edits that verbs make. Flux treats names that begin with `kubectl` as manual edits, and reverts them.
pub(super) const MANAGER: &str = "cloudserver-cli";

/// The other applier of this field of the spec, if one would revert this value: a field manager of server-side applies, or kubectl,
/// unless its last manifest has the value already.
pub(super) fn applier(live: &Instance, field: &str, value: &Value) -> Option<String> {
    let entries = live.metadata.managed_fields.iter().flatten();
    let mut server_side = entries.filter(|entry| entry.operation.as_deref() == Some("Apply"));
    let by = server_side.find_map(|entry| {
        let manager = entry
            .manager
            .as_deref()
            .filter(|manager| *manager != MANAGER)?;
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
