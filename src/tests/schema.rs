//! Properties that hold of every part of both schemas, so that clients generated from the definitions can use them.

use super::decodes::schema;
use crate::api::{Account, Instance};
use serde_json::Value;

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
