//! kustomize renames objects and the references to them, by the configuration of the repository that users copy.

use super::{REPOSITORY, here, rendered};
use crate::support::{Setup, folder, is_ready};
use devcluster::Executables;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const DEFINITIONS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../crds/cloudserver.dev.yaml"
);

/// A part of the rule for the name of an object.
const OBJECT_NAME: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";

const OURS: &str = "cloudserver.dev/v1alpha1";

/// Version and kind of objects.
type Kind = (&'static str, &'static str);

/// Secrets, and kinds whose objects create a Secret with their own name.
const SECRETS: [Kind; 3] = [
    ("v1", "Secret"),
    ("external-secrets.io/v1", "ExternalSecret"),
    ("bitnami.com/v1alpha1", "SealedSecret"),
];

/// A field of a spec that contains the name of a Kubernetes object.
#[derive(Debug)]
struct Reference {
    /// The kind that has the field.
    holder: String,
    path: Vec<String>,
}

impl Reference {
    /// Version and kind of the named object, where `secret` stands for the kind that provides a Secret; none if the operator
    /// creates the object. The name of a field that refers to a user's object ends in `Ref`.
    fn kind(&self, secret: Kind) -> Option<Kind> {
        let field = self.path.iter().rev().nth(1)?.strip_suffix("Ref")?;
        Some(match field {
            "account" => (OURS, "Account"),
            "configMapKey" => ("v1", "ConfigMap"),
            _ => secret,
        })
    }

    /// An object with only this field.
    fn holding(&self, holder: &str, name: &str) -> Value {
        let path = self.path.iter().rev();
        let spec = path.fold(json!(name), |value, field| json!({field: value}));
        object((OURS, &self.holder), holder, &spec)
    }

    fn read<'a>(&self, object: &'a Value) -> &'a Value {
        let path = self.path.iter();
        path.fold(&object["spec"], |value, field| &value[field])
    }
}

fn object((version, kind): (&str, &str), name: &str, spec: &Value) -> Value {
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// The references in a schema: each string with the rule for an object's name, or whose path indicates one.
fn references(holder: &str, schema: &Value, path: &[String], found: &mut Vec<Reference>) {
    for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
        let path = [path, std::slice::from_ref(field)].concat();
        references(holder, schema, &path, found);
        let mut listed = Vec::new();
        references(holder, &schema["items"], &path, &mut listed);
        assert!(listed.is_empty(), "teach this test lists: {listed:?}");
        let rules = schema["x-kubernetes-validations"].to_string();
        let words = path[path.len().saturating_sub(2)..].concat().to_lowercase();
        let speaks = field.to_lowercase().ends_with("name")
            && ["ref", "secret", "configmap"]
                .iter()
                .any(|word| words.contains(word));
        if schema["type"] == "string" && (speaks || rules.contains(OBJECT_NAME)) {
            found.push(Reference {
                holder: holder.to_owned(),
                path,
            });
        }
    }
}

fn all_references() -> Vec<Reference> {
    let text = fs::read_to_string(DEFINITIONS).unwrap();
    let mut found = Vec::new();
    for definition in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        references(kind, &schema["properties"]["spec"], &[], &mut found);
    }
    found
}

fn write(folder: &Path, name: &str, value: &Value) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join(name), value.to_string()).unwrap();
}

/// Renders a base with these objects through an overlay that adds a prefix and a suffix. The base has the configuration.
/// Secrets and ConfigMaps are generated.
fn renamed(all: &[Value]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let (generated, objects): (Vec<&Value>, Vec<&Value>) =
        all.iter().partition(|object| object["apiVersion"] == "v1");
    let (base, overlay) = (folder.path().join("base"), folder.path().join("overlay"));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    write(&base, "all.json", &list);
    fs::copy(
        PathBuf::from(REPOSITORY).join("team-a/names.yaml"),
        base.join("names.yaml"),
    )
    .unwrap();
    let of_kind = |kind: &str| -> Vec<Value> {
        let of_kind = generated.iter().filter(|object| object["kind"] == kind);
        let arguments = of_kind
            .map(|object| json!({"name": object["metadata"]["name"], "literals": ["key=value"]}));
        arguments.collect()
    };
    let kustomization = json!({
        "resources": ["all.json"], "configurations": ["names.yaml"],
        "secretGenerator": of_kind("Secret"), "configMapGenerator": of_kind("ConfigMap"),
    });
    write(&base, "kustomization.yaml", &kustomization);
    let kustomization = json!({"resources": ["../base"], "namePrefix": "dev-", "nameSuffix": "-x"});
    write(&overlay, "kustomization.yaml", &kustomization);
    let kubectl = Executables::find_or_build().unwrap().path("kubectl");
    let output = Command::new(kubectl)
        .arg("kustomize")
        .arg(&overlay)
        .output();
    let output = output.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{why}");
    serde_saphyr::from_multiple(&text).unwrap()
}

/// The new name of the object.
fn name_of<'a>(objects: &'a [Value], kind: &str, former: &str) -> &'a str {
    let beginning = format!("dev-{former}-x");
    let mut names = objects.iter().filter(|object| object["kind"] == kind);
    let found = names.find_map(|object| {
        let name = object["metadata"]["name"].as_str()?;
        name.starts_with(&beginning).then_some(name)
    });
    found.unwrap_or_else(|| panic!("no {kind} {former}: {objects:#?}"))
}

#[test]
fn kustomize_renames_every_reference_of_the_definitions() {
    let references = all_references();
    assert!(references.len() >= 8, "{references:#?}");
    for secret in SECRETS {
        let mut objects = Vec::new();
        for (n, reference) in references.iter().enumerate() {
            let named = format!("named-{n}");
            objects.push(reference.holding(&format!("holder-{n}"), &named));
            let kind = reference.kind(secret);
            objects.extend(kind.map(|kind| object(kind, &named, &json!({}))));
        }
        let now = renamed(&objects);
        for (n, reference) in references.iter().enumerate() {
            let holder = format!("dev-holder-{n}-x");
            let holder = now.iter().find(|one| one["metadata"]["name"] == holder);
            let named = format!("named-{n}");
            let expected = match reference.kind(secret) {
                Some((_, kind)) => name_of(&now, kind, &named).to_owned(),
                None => format!("dev-{named}-x"),
            };
            assert_eq!(
                *reference.read(holder.unwrap()),
                json!(expected),
                "names.yaml does not have this reference to {secret:?}: {reference:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_variants_of_the_repository_to_copy_live_in_one_namespace() {
    let world = Setup::default().bare().begin("kustomize-copy").await;
    let folder = folder(&world, "kustomize-");
    let copy = folder.path().join("team-a");
    fs::create_dir(&copy).unwrap();
    for file in fs::read_dir(Path::new(REPOSITORY).join("team-a")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    for prefix in ["one-", "two-"] {
        let overlay = folder.path().join(prefix);
        let kustomization = json!({"resources": ["../team-a"], "namePrefix": prefix});
        write(&overlay, "kustomization.yaml", &kustomization);
        let mut objects = rendered(&world, &overlay).await;
        objects.retain(|object| object["kind"] != "Namespace");
        for object in objects {
            world.kubectl_apply(&here(&world, &object)).await.unwrap();
        }
    }
    for name in ["one-web-1", "one-db-1", "two-web-1", "two-db-1"] {
        world.until(name, "is Ready", is_ready).await;
    }
    assert_eq!(world.sim.live_servers().len(), 4, "{}", world.ledger_text());
    world.finish().await;
}
