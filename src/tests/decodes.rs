//! The types decode every object that the schema accepts; the watch would drop one that does not decode.

use crate::api::{Account, Instance, definitions};
use kube::CustomResourceExt;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The smallest object of this schema: only the required fields.
fn least(schema: &Value) -> Value {
    if let Some(values) = schema["enum"].as_array() {
        return values[0].clone();
    }
    match schema["type"].as_str() {
        Some("object") => {
            let required = schema["required"].as_array().into_iter().flatten();
            let fields = required.map(|name| {
                let name = name.as_str().unwrap();
                (name.to_owned(), least(&schema["properties"][name]))
            });
            Value::Object(fields.collect())
        }
        Some("array") => json!([]),
        Some("integer") => integers(schema)[0].clone(),
        Some("number") => json!(1.5),
        Some("boolean") => json!(false),
        Some("string") if schema["format"] == "date-time" => json!("2026-11-22T10:00:00Z"),
        Some("string") => json!("x"),
        None if schema["x-kubernetes-preserve-unknown-fields"] == true => json!({}),
        other => panic!("unknown type {other:?}: {schema}"),
    }
}

/// The ends of the range of an integer.
fn integers(schema: &Value) -> Vec<Value> {
    let end = |name: &str| {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the schema's bounds are whole"
        )]
        let whole = schema[name].as_f64().map(|end| end as i64);
        whole.map(|end| json!(end))
    };
    let ends: Vec<Value> = ["minimum", "maximum"].into_iter().filter_map(end).collect();
    if ends.is_empty() {
        vec![json!(1)]
    } else {
        ends
    }
}

/// The values to test for a field, next to the other fields of a smallest object: also the empty object if no field is
/// required, each of its own fields, and null if the definitions of an older version allowed it.
fn tries(schema: &Value) -> Vec<Value> {
    let mut all = vec![least(schema)];
    if schema["nullable"] == true {
        all.push(Value::Null);
    }
    all.extend(schema["enum"].as_array().into_iter().flatten().cloned());
    match schema["type"].as_str() {
        Some("object") => {
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                for value in tries(field) {
                    let mut object = least(schema);
                    object[name] = value;
                    all.push(object);
                }
            }
        }
        Some("array") => {
            let items = tries(&schema["items"]).into_iter();
            all.extend(items.map(|item| json!([item])));
        }
        Some("integer") => all.extend(integers(schema)),
        _ => {}
    }
    all
}

/// The schema that is derived from the types of a kind. An older version installed it as it is, with its nullable fields.
fn derived<K: CustomResourceExt>() -> Value {
    let definition = serde_json::to_value(K::crd()).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// The schema of a kind.
pub(super) fn schema<K: CustomResourceExt>() -> Value {
    let mut definitions = definitions().unwrap().into_iter();
    let definition =
        definitions.find(|definition| definition.metadata.name.as_deref() == Some(K::crd_name()));
    let definition = serde_json::to_value(definition).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

fn every_accepted_object_decodes<K: CustomResourceExt + DeserializeOwned>() -> usize {
    let schema = derived::<K>();
    let resource = K::api_resource();
    let fields = &schema["properties"];
    let mut count = 0;
    for part in ["spec", "status"] {
        for value in tries(&fields[part]) {
            let mut object = json!({
                "apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "x"},
                "spec": least(&fields["spec"]),
            });
            object[part] = value;
            if let Err(error) = serde_json::from_value::<K>(object.clone()) {
                panic!("the schema accepts this, and it cannot be decoded ({error}): {object:#}");
            }
            count += 1;
        }
    }
    count
}

#[test]
fn the_types_decode_every_object_that_the_schema_accepts() {
    // So many that no part of the schemas was left out by mistake.
    assert!(every_accepted_object_decodes::<Instance>() > 150);
    assert!(every_accepted_object_decodes::<Account>() > 60);
}

/// Every object of a schema, by its path.
fn objects(path: &str, schema: &Value, found: &mut Map<String, Value>) {
    if schema["type"] == "object" {
        found.insert(path.to_owned(), schema.clone());
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        objects(&format!("{path}.{name}"), field, found);
    }
    if schema["items"].is_object() {
        objects(&format!("{path}[]"), &schema["items"], found);
    }
}

#[test]
fn a_required_field_has_no_default_and_any_other_may_be_omitted() {
    for schema in [schema::<Instance>(), schema::<Account>()] {
        let mut found = Map::new();
        objects("", &schema, &mut found);
        for (path, object) in found {
            for name in object["required"].as_array().into_iter().flatten() {
                let field = &object["properties"][name.as_str().unwrap()];
                assert!(field["default"].is_null(), "{path}.{name} is never missing");
            }
        }
    }
}
