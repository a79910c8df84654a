//! Whose manifest has a field: what a GitOps tool or `kubectl apply` set back the next time. Pure.

use crate::api::Instance;
use crate::api::names::LAST_APPLIED;
use kube::ResourceExt;
use serde_json::Value;
use std::fmt;

/// Field manager of the edits that verbs make. Flux takes whatever begins with `kubectl` for an edit by hand, and undoes it.
pub(super) const MANAGER: &str = "cloudserver-cli";

/// Who applies a manifest with the field in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Declared {
    /// Server-side, under this name.
    By(String),
    /// `kubectl apply` from the client's side, or what does the same.
    ClientSide,
}

impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::By(manager) => write!(f, "field manager {manager}"),
            Self::ClientSide => f.write_str("kubectl apply"),
        }
    }
}

/// Who else has this field of the spec in a manifest.
pub(super) fn declared(live: &Instance, field: &str) -> Option<Declared> {
    let entries = live.metadata.managed_fields.iter().flatten();
    let mut server_side = entries.filter(|entry| entry.operation.as_deref() == Some("Apply"));
    let by = server_side.find_map(|entry| {
        let manager = entry
            .manager
            .as_deref()
            .filter(|manager| *manager != MANAGER)?;
        let fields = &entry.fields_v1.as_ref()?.0;
        let has = fields.pointer(&format!("/f:spec/f:{field}")).is_some();
        has.then(|| Declared::By(manager.to_owned()))
    });
    by.or_else(|| applied(live, field).map(|_| Declared::ClientSide))
}

/// Whether the manifest that kubectl applied last says so of a field: the next apply sets nothing back.
pub(super) fn is_declared_as(live: &Instance, field: &str, value: &Value) -> bool {
    applied(live, field).as_ref() == Some(value)
}

/// What stands in the manifest that kubectl applied last, on its own side.
fn applied(live: &Instance, field: &str) -> Option<Value> {
    let text = live.annotations().get(LAST_APPLIED)?;
    let manifest: Value = serde_json::from_str(text).ok()?;
    manifest.pointer(&format!("/spec/{field}")).cloned()
}
