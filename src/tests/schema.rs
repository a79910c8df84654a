//! Properties that hold of every part of both schemas, so that clients generated from the definitions can use them.

use super::decodes::schema;
use crate::api::{Account, Instance};
use serde_json::{Value, json};

/// Calls `check` with the path of each part of a schema and the part.
fn walk(path: &str, part: &Value, check: &mut impl FnMut(&str, &Value)) {
    check(path, part);
    for (name, field) in part["properties"].as_object().into_iter().flatten() {
        walk(&format!("{path}.{name}"), field, check);
    }
    for inner in ["items", "additionalProperties"] {
        if part[inner].is_object() {
            walk(&format!("{path}[]"), &part[inner], check);
        }
    }
}

/// Every part of both schemas. There are several hundred: a walk that misses a level fails here.
fn every_part(mut check: impl FnMut(&str, &Value)) {
    let mut count = 0;
    for (kind, schema) in [
        ("Instance", schema::<Instance>()),
        ("Account", schema::<Account>()),
    ] {
        walk(kind, &schema, &mut |path, part| {
            count += 1;
            check(path, part);
        });
    }
    assert!(count > 200, "{count}");
}

#[test]
fn no_field_is_nullable() {
    every_part(|path, part| {
        assert!(part["nullable"].is_null(), "{path}");
        let values = part["enum"].as_array().into_iter().flatten();
        assert!(values.clone().all(|value| !value.is_null()), "{path}");
    });
}

#[test]
fn no_description_is_broken_within_a_paragraph() {
    every_part(|path, part| {
        let text = part["description"].as_str().unwrap_or_default();
        let breaks = text.replace("\n\n", "").contains('\n');
        assert!(!breaks, "{path}: {text:?}");
    });
}

#[test]
fn every_field_has_a_type_and_a_description() {
    every_part(|path, part| {
        for (name, field) in part["properties"].as_object().into_iter().flatten() {
            let is_typed = field["type"].is_string();
            assert!(is_typed, "{path}.{name} has no type");
            // Kubernetes defines these three.
            let is_of_kubernetes = ["apiVersion", "kind", "metadata"].contains(&name.as_str());
            let is_described = field["description"].is_string();
            assert!(
                is_described || is_of_kubernetes,
                "{path}.{name} has no description"
            );
        }
    });
}

#[test]
fn every_list_of_a_spec_is_a_set_or_a_map() {
    let mut lists = 0;
    every_part(|path, part| {
        if part["type"] == "array" && path.contains(".spec.") {
            lists += 1;
            let kind = part["x-kubernetes-list-type"].as_str();
            assert!(matches!(kind, Some("set" | "map")), "{path}");
        }
    });
    assert!(lists > 0);
}

#[test]
fn conditions_are_a_map_by_type() {
    for schema in [schema::<Instance>(), schema::<Account>()] {
        let conditions = &schema["properties"]["status"]["properties"]["conditions"];
        assert_eq!(conditions["x-kubernetes-list-type"], "map");
        assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
    }
}

#[test]
fn status_detail_names_the_fields_of_the_specification_and_preserves_others() {
    let schema = schema::<Instance>();
    let detail = &schema["properties"]["status"]["properties"]["detail"];
    assert_eq!(detail["x-kubernetes-preserve-unknown-fields"], true);
    for (field, kind) in [
        ("ecsStatus", "string"),
        ("publicIpAddress", "string"),
        ("cpu", "integer"),
        ("usedFlow", "number"),
        ("supportSsh", "boolean"),
        ("dataDiskInfoList", "array"),
    ] {
        assert_eq!(detail["properties"][field]["type"], kind, "{field}");
    }
    let disk = &detail["properties"]["dataDiskInfoList"]["items"]["properties"];
    assert_eq!(disk["dataDiskSize"]["type"], "integer");
}
