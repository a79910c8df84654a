//! An explicit null means the same as an absent field: typed clients send their empty fields in this way. Server-side apply
//! refuses it in every custom resource, and names the field.

use crate::support::{Setup, World, eventually, insist, instance, with};
use cloud_server_operator::api::definitions;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Resource;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// The schema of `spec` of a definition.
fn schema_of_spec(definition: &CustomResourceDefinition) -> Value {
    let definition = serde_json::to_value(definition).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
}

fn resource(definition: &CustomResourceDefinition) -> ApiResource {
    let spec = &definition.spec;
    ApiResource {
        group: spec.group.clone(),
        version: "v1alpha1".to_owned(),
        api_version: format!("{}/v1alpha1", spec.group),
        kind: spec.names.kind.clone(),
        plural: spec.names.plural.clone(),
    }
}

/// Sets each field to null that the schema has and the object lacks, in every nested object. Returns the number.
fn with_nulls(schema: &Value, object: &mut Value) -> usize {
    let mut count = 0;
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if object.get(name).is_none() {
            object[name] = Value::Null;
            count += 1;
        } else if object[name].is_object() {
            count += with_nulls(field, &mut object[name]);
        }
    }
    count
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().any(has_null),
        Value::Array(items) => items.iter().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// One Instance for each kind of reference and login.
fn instances() -> Vec<Value> {
    let by_id = instance("by-id");
    let by_name = with("by-name", |spec| {
        spec["package"] = json!({"cpu": 1});
        spec["image"] = json!({"name": "Ubuntu 24.04 LTS"});
        spec["firewall"] = json!({"name": "web"});
        spec["login"] = json!({"sshKey": {"name": "laptop"}});
        spec["import"] = json!({"name": "by-hand"});
        spec["pause"] = json!({});
        spec["stopPolicy"] = json!({"force": "Always"});
    });
    let generated = with("generated", |spec| {
        spec["login"] = json!({"generate": {}});
        spec["connectionSecret"] = json!({"name": "connection"});
        spec["reinstall"] = json!({"token": "1"});
        spec["accountRef"] = json!({});
    });
    vec![by_id, by_name, generated]
}

fn account() -> Value {
    json!({
        "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Account", "metadata": {"name": "with-tls"},
        "spec": {
            "endpoint": "https://cloud.example/api", "tokenSecretRef": {"name": "a", "key": "b"},
            "tls": {"caBundle": {"configMapKeyRef": {"name": "a", "key": "b"}}}, "paths": {}, "requests": {},
        },
    })
}

/// How a client writes a manifest.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// POST, or PUT if the object exists.
    Whole,
    /// Server-side apply.
    Apply,
}

async fn write(
    api: &Api<DynamicObject>,
    manifest: &Value,
    way: Way,
) -> kube::Result<DynamicObject> {
    let mut object: DynamicObject = serde_json::from_value(manifest.clone()).unwrap();
    let name = object.metadata.name.clone().unwrap();
    insist("a manifest is written", async || match way {
        Way::Apply => {
            let params = PatchParams::apply("typed-client").force();
            api.patch(&name, &params, &Patch::Apply(manifest)).await
        }
        Way::Whole => match api.get_opt(&name).await? {
            None => api.create(&PostParams::default(), &object).await,
            Some(now) => {
                object.metadata.resource_version = now.meta().resource_version.clone();
                api.replace(&name, &PostParams::default(), &object).await
            }
        },
    })
    .await
}

/// From now on a server is recorded, and immutable fields cannot be changed.
async fn has_a_server(api: &Api<DynamicObject>, name: &str) {
    let patch = Patch::Merge(json!({"status": {"id": "ecs-1"}}));
    let params = PatchParams::default();
    let written = insist("a status is written", async || {
        api.patch_status(name, &params, &patch).await
    });
    written.await.unwrap();
}

/// A manifest under another name.
fn named(manifest: &Value, name: &str) -> Value {
    let mut manifest = manifest.clone();
    manifest["metadata"]["name"] = json!(name);
    manifest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_null_means_the_same_as_an_absent_field_and_server_side_apply_refuses_it() {
    let setup = Setup::default().bare().without_operator();
    let world = setup.begin("nulls").await;
    let definitions = definitions().unwrap();
    for definition in &definitions {
        let (schema, kind) = (schema_of_spec(definition), resource(definition));
        let api: Api<DynamicObject> =
            Api::namespaced_with(world.client.clone(), &world.namespace, &kind);
        let manifests = if kind.kind == "Account" {
            vec![account()]
        } else {
            instances()
        };
        for plain in manifests {
            let mut nulls = plain.clone();
            let count = with_nulls(&schema, &mut nulls["spec"]);
            nulls["status"] = Value::Null;
            assert!(count > 8, "{count} nulls: {nulls:#}");
            let name = plain["metadata"]["name"].as_str().unwrap();
            let expected = write(&api, &plain, Way::Whole).await.unwrap();
            let expected = &expected.data["spec"];
            let name = format!("{name}-nulls");
            let (nulls, plain) = (named(&nulls, &name), named(&plain, &name));
            // The first write creates the object, the others change nothing, with or without a server.
            for (manifest, bought) in [
                (&nulls, false),
                (&plain, false),
                (&nulls, true),
                (&plain, true),
            ] {
                if bought && kind.kind == "Instance" {
                    has_a_server(&api, &name).await;
                }
                let written = write(&api, manifest, Way::Whole).await;
                let written = written.unwrap_or_else(|error| panic!("{error}: {manifest:#}"));
                assert_eq!(&written.data["spec"], expected, "{manifest:#}");
            }
            let why = write(&api, &nulls, Way::Apply)
                .await
                .unwrap_err()
                .to_string();
            assert!(why.contains("in body must be of type"), "{why}");
            assert!(!why.contains("delete this Instance"), "{why}");
            let applied = write(&api, &plain, Way::Apply).await.unwrap();
            assert_eq!(&applied.data["spec"], expected);
        }
    }
    world.finish().await;
}

/// The definition of Instances in the last release, and the current one, under names that no other test uses.
fn relics() -> [CustomResourceDefinition; 2] {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../released/cloudserver.dev.yaml"
    );
    let released = std::fs::read_to_string(path).unwrap();
    let mut released = released
        .split("---\n")
        .filter(|part| part.contains("kind: Instance\n"));
    let released = serde_saphyr::from_str(released.next().unwrap()).unwrap();
    let now = definitions()
        .unwrap()
        .into_iter()
        .find(|now| now.spec.names.kind == "Instance");
    [released, now.unwrap()].map(|mut definition: CustomResourceDefinition| {
        definition.metadata.name = Some("relics.relics.cloudserver.dev".to_owned());
        let spec = &mut definition.spec;
        spec.group = "relics.cloudserver.dev".to_owned();
        let names = &mut spec.names;
        names.kind = "Relic".to_owned();
        names.plural = "relics".to_owned();
        names.singular = Some("relic".to_owned());
        (names.list_kind, names.categories, names.short_names) = (None, None, None);
        definition
    })
}

async fn install(world: &World, definition: &CustomResourceDefinition) {
    let api: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let name = definition.metadata.name.as_deref().unwrap();
    let params = PatchParams::apply("test").force();
    let patch = Patch::Apply(definition);
    let installed = insist("a definition is installed", async || {
        api.patch(name, &params, &patch).await
    });
    installed.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_was_stored_with_nulls_can_be_written_without_them() {
    let setup = Setup::default().bare().without_operator();
    let world = setup.begin("stored-nulls").await;
    let [released, now] = relics();
    let kind = resource(&now);
    let api: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), &world.namespace, &kind);
    let mut plain = instance("web");
    plain["apiVersion"] = json!(kind.api_version);
    plain["kind"] = json!(kind.kind);
    let mut nulls = plain.clone();
    with_nulls(&schema_of_spec(&released), &mut nulls["spec"]);
    // The last release stored these nulls, but not those of enums and not those of fields with a default.
    for field in ["package", "image"] {
        for value in ["chargeMode", "type"] {
            nulls["spec"][field].as_object_mut().unwrap().remove(value);
        }
    }

    install(&world, &released).await;
    eventually("the definition is served", async || {
        write(&api, &nulls, Way::Apply)
            .await
            .map_err(|error| error.to_string())
    })
    .await;
    has_a_server(&api, "web").await;
    let stored = api.get("web").await.unwrap();
    assert!(stored.data["spec"]["firewall"]["name"].is_null());
    assert!(has_null(&stored.data["spec"]), "{:#}", stored.data);
    let why = write(&api, &plain, Way::Whole)
        .await
        .unwrap_err()
        .to_string();
    assert!(why.contains("cannot be changed"), "{why}");

    install(&world, &now).await;
    eventually("the definition of today is served", async || {
        let read = api.get("web").await.map_err(|error| error.to_string())?;
        if has_null(&read.data["spec"]) {
            return Err(format!("{:#}", read.data["spec"]));
        }
        Ok(())
    })
    .await;
    for (manifest, way) in [
        (&plain, Way::Apply),
        (&nulls, Way::Whole),
        (&plain, Way::Whole),
    ] {
        let written = write(&api, manifest, way).await;
        let written = written.unwrap_or_else(|error| panic!("{way:?}: {error}: {manifest:#}"));
        assert!(!has_null(&written.data["spec"]), "{:#}", written.data);
    }
    let all: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let name = now.metadata.name.as_deref().unwrap();
    all.delete(name, &DeleteParams::default()).await.unwrap();
    world.finish().await;
}
