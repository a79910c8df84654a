//! The reference of the two kinds, made from their definitions.

use crate::api::definitions;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use serde_json::Value;

/// The whole page.
pub(super) fn page() -> String {
    let mut page = String::from(
        "# API reference\n\n\
         Both kinds are of `cloudserver.dev/v1alpha1` and namespaced. Generated from the definitions in `crds/`; the same words come\n\
         from `kubectl explain`. A field in **bold** is required.\n",
    );
    for definition in definitions().unwrap().iter().rev() {
        kind(&mut page, definition);
    }
    page
}

fn kind(page: &mut String, definition: &CustomResourceDefinition) {
    let names = &definition.spec.names;
    let version = definition.spec.versions.first().unwrap();
    let schema = version.schema.as_ref().unwrap();
    let schema = schema.open_api_v3_schema.as_ref().unwrap();
    let short: Vec<String> = names.short_names.iter().flatten().cloned().collect();
    page.push_str(&format!(
        "\n## {}\n\n{} Short name `{}`.\n",
        names.kind,
        schema.description.as_deref().unwrap_or_default(),
        short.join("`, `")
    ));
    rules(page, schema);
    for part in ["spec", "status"] {
        let properties = schema.properties.as_ref().unwrap();
        object(page, &names.kind, part, &properties[part]);
    }
}

/// A table of the fields of one object, then one for each object in it.
fn object(page: &mut String, kind: &str, path: &str, schema: &JSONSchemaProps) {
    let Some(properties) = &schema.properties else {
        return;
    };
    page.push_str(&format!(
        "\n### {kind} `{path}`\n\n{}\n\n| Field | Type | Meaning |\n|---|---|---|\n",
        line(schema)
    ));
    let required = schema.required.as_deref().unwrap_or_default();
    for (name, field) in properties {
        let name_cell = if required.contains(name) {
            format!("**`{name}`**")
        } else {
            format!("`{name}`")
        };
        page.push_str(&format!(
            "| {name_cell} | {} | {}{} |\n",
            type_of(field),
            line(field).replace('|', "\\|"),
            bounds(field)
        ));
    }
    rules(page, schema);
    for (name, field) in properties {
        let path = format!("{path}.{name}");
        object(page, kind, &path, field);
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &field.items
            && name != "conditions"
        {
            object(page, kind, &format!("{path}[]"), items);
        }
    }
}

fn rules(page: &mut String, schema: &JSONSchemaProps) {
    let rules = schema.x_kubernetes_validations.iter().flatten();
    let messages: Vec<&str> = rules.filter_map(|rule| rule.message.as_deref()).collect();
    if !messages.is_empty() {
        page.push_str("\nRefused otherwise:\n\n");
        for message in messages {
            page.push_str(&format!("* {message}\n"));
        }
    }
}

fn line(schema: &JSONSchemaProps) -> String {
    let text = schema.description.as_deref().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn type_of(schema: &JSONSchemaProps) -> String {
    let name = schema.type_.as_deref().unwrap_or("any");
    match &schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => format!("{}[]", type_of(items)),
        _ => name.to_owned(),
    }
}

/// Values, lengths and default, as far as they are bounded.
fn bounds(schema: &JSONSchemaProps) -> String {
    let mut sentences = Vec::new();
    let values: Vec<String> = schema.enum_.iter().flatten().map(|v| text(&v.0)).collect();
    let values: Vec<String> = values.into_iter().filter(|v| v != "null").collect();
    if !values.is_empty() {
        sentences.push(format!("One of {}.", values.join(", ")));
    }
    match (schema.minimum, schema.maximum) {
        (Some(least), Some(most)) => sentences.push(format!("{least} to {most}.")),
        (Some(least), None) => sentences.push(format!("At least {least}.")),
        (None, Some(most)) => sentences.push(format!("At most {most}.")),
        (None, None) => {}
    }
    if let Some(most) = schema.max_length {
        sentences.push(format!("At most {most} characters."));
    }
    if let Some(most) = schema.max_items {
        sentences.push(format!("At most {most} entries."));
    }
    if let Some(pattern) = &schema.pattern {
        sentences.push(format!("Pattern `{}`.", pattern.replace('|', "\\|")));
    }
    if let Some(default) = &schema.default {
        sentences.push(format!("Default {}.", text(&default.0)));
    }
    if sentences.is_empty() {
        return String::new();
    }
    format!(" {}", sentences.join(" "))
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    }
}
