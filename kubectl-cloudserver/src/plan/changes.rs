//! The differences between an object in the cluster and the planned one, field by field.

use cloud_server_operator::api::names::LAST_APPLIED;
use serde::Serialize;
use serde_json::{Map, Value};

/// One changed field.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Change {
    /// Its path, with dots.
    pub(super) field: String,
    /// The current value; null if absent.
    pub(super) from: Value,
    /// The new value; null if removed.
    pub(super) to: Value,
}

/// The changes in spec, labels and annotations, except in the annotation with the last applied manifest.
pub(super) fn changes(from: &Value, to: &Value) -> Vec<Change> {
    let mut all = Vec::new();
    for part in ["spec", "metadata.labels", "metadata.annotations"] {
        let pointer = format!("/{}", part.replace('.', "/"));
        let empty = Value::Object(Map::new());
        let [from, to] = [from, to].map(|object| object.pointer(&pointer).unwrap_or(&empty));
        compare(part, from, to, &mut all);
    }
    let last_applied = format!("metadata.annotations.{LAST_APPLIED}");
    all.retain(|change| change.field != last_applied);
    all
}

fn compare(path: &str, from: &Value, to: &Value, all: &mut Vec<Change>) {
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            let mut keys: Vec<&String> = from.keys().chain(to.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                let [from, to] = [from, to].map(|fields| fields.get(key).unwrap_or(&Value::Null));
                compare(&format!("{path}.{key}"), from, to, all);
            }
        }
        (from, to) if from == to => {}
        (from, to) => all.push(Change {
            field: path.to_owned(),
            from: from.clone(),
            to: to.clone(),
        }),
    }
}

/// The patch of a client-side apply: the manifest, and null for fields that only the former manifest had.
pub(super) fn apply_patch(before: &Value, manifest: &Value) -> Value {
    let (Value::Object(before), Value::Object(manifest)) = (before, manifest) else {
        return manifest.clone();
    };
    let mut patch = Map::new();
    for (key, value) in manifest {
        let former = before.get(key).unwrap_or(&Value::Null);
        patch.insert(key.clone(), apply_patch(former, value));
    }
    for key in before.keys().filter(|key| !manifest.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_field_that_differs_is_listed_once() {
        let current = json!({"spec": {"image": {"id": "a"}, "restart": {"token": "1"}, "same": [1]},
            "metadata": {"annotations": {LAST_APPLIED: "x", "b": "1"}, "generation": 1}});
        let planned = json!({"spec": {"image": {"name": "n"}, "restart": {"token": "2"}, "same": [1]},
            "metadata": {"labels": {"l": "v"}, "annotations": {LAST_APPLIED: "y", "b": "1"}, "generation": 2}});
        let listed: Vec<(String, Value, Value)> = changes(&current, &planned)
            .into_iter()
            .map(|change| (change.field, change.from, change.to))
            .collect();
        let of = |field: &str, from: Value, to: Value| (field.to_owned(), from, to);
        assert_eq!(
            listed,
            [
                of("spec.image.id", json!("a"), json!(null)),
                of("spec.image.name", json!(null), json!("n")),
                of("spec.restart.token", json!("1"), json!("2")),
                of("metadata.labels.l", json!(null), json!("v")),
            ]
        );
    }

    #[test]
    fn fields_of_only_the_former_manifest_are_removed() {
        let before =
            json!({"spec": {"pause": {}, "image": {"id": "a"}}, "metadata": {"name": "w"}});
        let manifest = json!({"spec": {"image": {"name": "n"}}, "metadata": {"name": "w"}});
        let patch = apply_patch(&before, &manifest);
        let wanted = json!({"spec": {"pause": null, "image": {"name": "n", "id": null}}, "metadata": {"name": "w"}});
        assert_eq!(patch, wanted);
    }
}
