//! Which manifests contain a field, so that a GitOps tool or `kubectl apply` would revert an edit. Pure.

use cloud_server_operator::api::Instance;
use cloud_server_operator::api::names::LAST_APPLIED;
use kube::ResourceExt;
use serde_json::Value;
use std::fmt;

/// Field manager of the edits that verbs make. Flux treats names that begin with `kubectl` as manual edits, and reverts them.
pub(super) const MANAGER: &str = "cloudserver-cli";

/// The applier of a manifest that contains the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Applier {
    /// Server-side, under this name.
    By(String),
    /// Client-side `kubectl apply`, or an equivalent.
    ClientSide,
}

impl fmt::Display for Applier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::By(manager) => write!(f, "field manager {manager}"),
            Self::ClientSide => f.write_str("kubectl apply"),
        }
    }
}

/// The other applier of this field of the spec, if any.
pub(super) fn applier(live: &Instance, field: &str) -> Option<Applier> {
    let entries = live.metadata.managed_fields.iter().flatten();
    let mut server_side = entries.filter(|entry| entry.operation.as_deref() == Some("Apply"));
    let by = server_side.find_map(|entry| {
        let manager = entry
            .manager
            .as_deref()
            .filter(|manager| *manager != MANAGER)?;
        let fields = &entry.fields_v1.as_ref()?.0;
        let has = fields.pointer(&format!("/f:spec/f:{field}")).is_some();
        has.then(|| Applier::By(manager.to_owned()))
    });
    by.or_else(|| applied(live, field).map(|_| Applier::ClientSide))
}

/// Whether the last manifest of kubectl has this value in a field, so that the next apply reverts nothing.
pub(super) fn is_applied_as(live: &Instance, field: &str, value: &Value) -> bool {
    applied(live, field).as_ref() == Some(value)
}

/// The value of a field in the last manifest of client-side `kubectl apply`.
fn applied(live: &Instance, field: &str) -> Option<Value> {
    let text = live.annotations().get(LAST_APPLIED)?;
    let manifest: Value = serde_json::from_str(text).ok()?;
    manifest.pointer(&format!("/spec/{field}")).cloned()
}
