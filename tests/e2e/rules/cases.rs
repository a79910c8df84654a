//! Plays the table of rules against a real apiserver, and checks it against the definitions: every rule has a refused and an
//! accepted case.

use super::table::{Case, cases};
use crate::support::{Setup, World, insist};
use cloud_server_operator::api::{Account, Instance};
use kube::CustomResourceExt;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

/// The messages of all rules of a schema.
fn messages(schema: &Value, found: &mut Vec<String>) {
    let rules = schema["x-kubernetes-validations"].as_array();
    for rule in rules.into_iter().flatten() {
        let message = rule["message"].as_str();
        found.push(message.expect("a rule without a message").to_owned());
    }
    for field in schema["properties"].as_object().into_iter().flatten() {
        messages(field.1, found);
    }
    for inner in ["items", "additionalProperties"] {
        if schema[inner].is_object() {
            messages(&schema[inner], found);
        }
    }
}

fn rules() -> Vec<String> {
    let mut found = Vec::new();
    for definition in [Instance::crd(), Account::crd()] {
        let definition = serde_json::to_value(definition).unwrap();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        messages(schema, &mut found);
    }
    found
}

#[test]
fn every_rule_of_the_definitions_has_an_accepted_and_a_refused_case() {
    let (rules, cases) = (rules(), cases());
    assert!(rules.len() >= 19, "{rules:#?}");
    for case in &cases {
        let text = case.message;
        assert!(
            !case.accepted.is_empty() && !case.refused.is_empty(),
            "{text}"
        );
        let is_there = rules.iter().any(|message| message.starts_with(text));
        assert_eq!(case.is_rule, is_there, "{text}: no such rule");
    }
    for message in &rules {
        let has_case = |case: &Case| case.is_rule && message.starts_with(case.message);
        assert!(cases.iter().any(has_case), "no case for: {message}");
    }
}

/// Applies a manifest, under this name if given, as a dry run.
async fn attempt(world: &World, name: Option<&str>, manifest: &Value) -> Result<(), String> {
    let kind = match manifest["kind"].as_str() {
        Some("Account") => Account::api_resource(),
        _ => Instance::api_resource(),
    };
    let mut manifest = manifest.clone();
    if let Some(name) = name {
        manifest["metadata"]["name"] = json!(name);
    }
    let name = manifest["metadata"]["name"].as_str().unwrap().to_owned();
    let api: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), &world.namespace, &kind);
    let params = PatchParams::apply("user").force().dry_run();
    let patch = Patch::Apply(&manifest);
    let applied = insist("a manifest is tried", async || {
        api.patch(&name, &params, &patch).await
    });
    applied.await.map(|_| ()).map_err(|error| error.to_string())
}

/// Creates an Instance in this state, with or without a server.
async fn make_existing(world: &World, name: &str, manifest: &Value, status: Option<Value>) {
    let mut manifest = manifest.clone();
    manifest["metadata"]["name"] = json!(name);
    world.apply(&manifest).await;
    if let Some(status) = status {
        let patch = Patch::Merge(json!({"status": status}));
        let params = PatchParams::default();
        let instances = world.instances();
        let written = insist("a status is written", async || {
            instances.patch_status(name, &params, &patch).await
        });
        written.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_manifest_is_refused_with_its_message_and_a_valid_one_is_accepted() {
    let setup = Setup::default().bare().without_operator();
    let world = setup.begin("rules").await;
    let rules = rules();
    for (number, case) in cases().iter().enumerate() {
        let (early, bought) = match &case.existing {
            None => (None, None),
            Some(existing) => {
                let names = (format!("early-{number}"), format!("bought-{number}"));
                make_existing(&world, &names.0, existing, None).await;
                let status = json!({"id": "ecs-1"});
                make_existing(&world, &names.1, existing, Some(status)).await;
                (Some(names.0), Some(names.1))
            }
        };
        if let Some(existing) = &case.existing
            && case.message != "spec.import cannot be changed"
        {
            // A spec that was edited right before the status with its server can be set back.
            let name = format!("drifted-{number}");
            let ready = json!({
                "type": "Ready", "status": "False", "reason": "SpecChangedAfterPurchase", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            let status = json!({"id": "ecs-1", "conditions": [ready]});
            make_existing(&world, &name, existing, Some(status)).await;
            for manifest in &case.refused {
                let done = attempt(&world, Some(&name), manifest).await;
                assert_eq!(done, Ok(()), "drifted: {manifest:#}");
            }
        }
        let message = rules
            .iter()
            .find(|message| message.starts_with(case.message));
        let words = message.map_or(case.message, String::as_str);
        for manifest in &case.accepted {
            let done = attempt(&world, early.as_deref(), manifest).await;
            assert_eq!(done, Ok(()), "{words}: {manifest:#}");
        }
        for manifest in &case.refused {
            let why = attempt(&world, bought.as_deref(), manifest).await;
            let why = why.expect_err(&format!("accepted against {words:?}: {manifest:#}"));
            assert!(why.contains(words), "{words:?} is not in: {why}");
        }
    }
    world.finish().await;
}
