//! The definitions of the two kinds, as installed.

use super::{Account, Instance};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::Value;

/// The CustomResourceDefinitions of Account and Instance.
///
/// # Errors
/// A derived definition is malformed, which no input can cause.
pub fn definitions() -> serde_json::Result<Vec<CustomResourceDefinition>> {
    let derived = [Account::crd(), Instance::crd()];
    let installed = derived.into_iter().map(|definition| {
        let mut definition = serde_json::to_value(definition)?;
        revise(&mut definition);
        serde_json::from_value(definition)
    });
    installed.collect()
}

/// Changes two properties in every derived schema of a definition.
///
/// No field is nullable. In a create, an update and a read from etcd, the apiserver drops a null of such a field before it
/// applies defaults and rules, so that an explicit null means the same as an absent field. In a server-side apply it refuses
/// the null and names the field. A null of a nullable field would be stored, and a rule that compares two objects would find a
/// difference.
///
/// No description has line breaks within a paragraph, since clients wrap lines at their own width.
fn revise(part: &mut Value) {
    match part {
        Value::Object(fields) => {
            if fields.get("nullable").is_some_and(Value::is_boolean) {
                fields.remove("nullable");
            }
            if let Some(Value::String(text)) = fields.get_mut("description") {
                let paragraphs = text.split("\n\n");
                let joined = paragraphs.map(|paragraph| paragraph.replace('\n', " "));
                *text = joined.collect::<Vec<_>>().join("\n\n");
            }
            fields.values_mut().for_each(revise);
        }
        Value::Array(items) => items.iter_mut().for_each(revise),
        _ => {}
    }
}
