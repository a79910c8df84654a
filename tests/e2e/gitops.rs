//! How GitOps tools work with our objects, on a real apiserver: the owner of each field, the differences that remain once all
//! is done, and the repository that users copy. The tools' verdicts at each moment of each verb are judged in virtual time
//! (`tests/protocol`).

mod argocd;
mod flux;
mod kustomize;
mod objects;
mod repository;

use crate::judges;
use crate::support::{Setup, World, create, instance, is_ready, other_image};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{Api, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::{Path, PathBuf};

/// The operator's own field manager.
const OPERATOR: &str = "cloud-server-operator";
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/gitops");
const CHECKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/argocd");

/// The fields of an entry, each by its path. Only leaves, since managers share the branches above their leaves.
fn leaves(fields: &Value, path: &str, found: &mut BTreeSet<String>) {
    let Some(below) = fields.as_object().filter(|below| !below.is_empty()) else {
        found.insert(path.to_owned());
        return;
    };
    for (name, fields) in below.iter().filter(|(name, _)| *name != ".") {
        leaves(
            fields,
            &format!("{path}/{}", name.trim_start_matches("f:")),
            found,
        );
    }
}

/// The owners of leaves. An object and its status are written through two endpoints, and a manager has an entry for each.
fn owners(entries: Option<&Vec<ManagedFieldsEntry>>) -> BTreeMap<String, BTreeSet<String>> {
    let mut owners: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in entries.into_iter().flatten() {
        let manager = entry.manager.clone().unwrap_or_default();
        let fields = entry.fields_v1.as_ref().unwrap();
        leaves(&fields.0, "", owners.entry(manager).or_default());
    }
    owners
}

/// Asserts that the user owns the whole spec, the operator its own marks and status, and no other manager anything.
fn nothing_is_shared(object: &impl ResourceExt, marks: &[&str]) {
    let owners = owners(object.meta().managed_fields.as_ref());
    let managers: Vec<&str> = owners.keys().map(String::as_str).collect();
    assert_eq!(managers, [OPERATOR, "user"], "{owners:#?}");
    let (ours, users) = (&owners[OPERATOR], &owners["user"]);
    let shared: Vec<_> = ours.intersection(users).collect();
    assert!(shared.is_empty(), "{shared:?}");
    let is_spec = |path: &&String| path.starts_with("/spec/");
    assert!(users.iter().all(|path| is_spec(&path)), "{users:?}");
    let outside = ours.iter().filter(|path| !path.starts_with("/status/"));
    let outside: Vec<&str> = outside.map(String::as_str).collect();
    assert_eq!(outside, marks, "outside status");
}

async fn read<K>(api: Api<K>, name: &str) -> Value
where
    K: Resource + Clone + DeserializeOwned + Debug + k8s_openapi::serde::Serialize,
{
    serde_json::to_value(api.get(name).await.unwrap()).unwrap()
}

/// The verdicts of Flux and Argo CD on the object.
fn taken_for(object: &Value) -> [String; 2] {
    let objects = [object.clone()];
    let flux = judges::kstatus(&objects).remove(0);
    let argo = judges::argocd(&judges::contributed(), &objects).remove(0);
    [flux.status, argo.status]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn user_and_operator_share_no_field_and_nothing_is_left_to_apply() {
    let mut world = Setup::default().without_operator().begin("gitops").await;
    let (web, old) = (instance("web"), instance("old"));
    world.kubectl_apply(&web).await.unwrap();
    // With the schema's defaults, before an operator has read it, an object is not done.
    let fresh = read(world.instances(), "web").await;
    assert_eq!(taken_for(&fresh), ["InProgress", "Progressing"]);
    let fresh = read(world.accounts(), "default").await;
    assert_eq!(taken_for(&fresh), ["InProgress", "Progressing"]);
    world.start().await;
    world.run(&["apply", "-f", "-"], &old.to_string()).await;
    let ready = world.ready("web").await;
    world.ready("old").await;
    let account = world.account_is_ready("default").await;
    for object in [
        read(world.instances(), "web").await,
        read(world.accounts(), "default").await,
    ] {
        assert_eq!(taken_for(&object), ["Current", "Healthy"], "{object:#}");
    }
    let marks = [
        "/metadata/annotations/cloudserver.dev/binding",
        "/metadata/finalizers/v:\"cloudserver.dev/release\"",
    ];
    nothing_is_shared(&ready, &marks);
    nothing_is_shared(&account, &[]);
    let server_side = ["--server-side", "--field-manager=user", "-f", "-"];
    // As applied, from either side: no difference, and no conflict.
    let mut all = web.clone();
    let diff = [&["diff"], &server_side[..]].concat();
    world.run(&diff, &all.to_string()).await;
    world.run(&["diff", "-f", "-"], &old.to_string()).await;
    let dry_run = ["apply", "--dry-run=server", "-o", "json"];
    let dry_run = [&dry_run[..], &server_side].concat();
    let (done, output) = world.kubectl(&dry_run, &all.to_string()).await;
    assert!(done, "{output}");
    let would_be: Value = serde_json::from_str(&output).unwrap();
    let is = read(world.instances(), "web").await;
    assert_eq!(would_be["spec"], is["spec"]);
    assert_eq!(
        would_be["metadata"]["generation"],
        is["metadata"]["generation"]
    );
    // If something is left to apply, both show it.
    all = other_image("web");
    let (is_clean, output) = world.kubectl(&diff, &all.to_string()).await;
    assert!(!is_clean && output.contains("+    id: "), "{output}");
    world.delete("web").await;
    world.gone("web").await;
    world.finish().await;
}

/// The objects of a rendered folder.
async fn rendered(world: &World, folder: &Path) -> Vec<Value> {
    let (done, text) = world
        .kubectl(&["kustomize", folder.to_str().unwrap()], "")
        .await;
    assert!(done, "{text}");
    serde_saphyr::from_multiple(&text).unwrap()
}

fn wave(object: &Value) -> i64 {
    let wave = &object["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"];
    wave.as_str().map_or(0, |wave| wave.parse().unwrap())
}

/// The Secret that the External Secrets Operator creates from it.
fn secret_of(external: &Value) -> Value {
    let target = &external["spec"]["target"];
    let key = external["spec"]["data"][0]["secretKey"].as_str().unwrap();
    let mut secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": target["template"]["metadata"],
        "stringData": {key: World::TOKEN},
    });
    // The name of the Secret, unless spec.target.name sets another one.
    secret["metadata"]["name"] = external["metadata"]["name"].clone();
    // A Secret in the repository has the wave's annotation itself.
    for (name, value) in external["metadata"]["annotations"].as_object().unwrap() {
        secret["metadata"]["annotations"][name] = value.clone();
    }
    secret
}

/// A manifest of the repository, changed for this namespace and this world's service.
fn here(world: &World, object: &Value) -> Value {
    let mut object = match object["kind"] == "ExternalSecret" {
        true => secret_of(object),
        false => object.clone(),
    };
    object["metadata"]["namespace"] = json!(world.namespace);
    let text = object.to_string();
    let text = text.replace("https://cloud.example/api", world.sim.url());
    serde_json::from_str(&text).unwrap()
}

/// A user edits an Instance of the repository in the cluster.
async fn takes_image_by_hand(world: &World, image: &Value) {
    let edit = json!({"spec": {"image": {"id": image}}}).to_string();
    let patch = ["patch", "instance", "web-1", "--type=merge", "-p", &edit];
    world.run(&patch, "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_repository_to_copy_buys_in_waves_and_goes_in_waves() {
    let world = Setup::default().bare().begin("gitops-copy").await;
    let mut objects = rendered(&world, &PathBuf::from(REPOSITORY).join("team-a")).await;
    objects.retain(|object| object["kind"] != "Namespace");
    objects.sort_by_key(wave);
    let kinds: Vec<&str> = objects
        .iter()
        .map(|o| o["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["ExternalSecret", "Account", "Instance", "Instance"]);
    for object in &objects {
        world.kubectl_apply(&here(&world, object)).await.unwrap();
        let name = object["metadata"]["name"].as_str().unwrap();
        match object["kind"].as_str() {
            // A wave ends when all of its objects are healthy.
            Some("Account") => drop(world.account_is_ready(name).await),
            Some("Instance") => drop(world.until(name, "is Ready", is_ready).await),
            _ => {}
        }
    }
    assert_eq!(world.sim.live_servers().len(), 2, "{}", world.ledger_text());
    // The commit that ends the protection.
    let unprotected = json!({"spec": {"deletionProtection": false}});
    let params = PatchParams::default();
    let instances = world.instances();
    for name in ["web-1", "db-1"] {
        let patch = Patch::Merge(&unprotected);
        instances.patch(name, &params, &patch).await.unwrap();
    }
    let mut waves: Vec<i64> = objects.iter().map(wave).collect();
    waves.dedup();
    for now in waves.into_iter().rev() {
        for object in objects.iter().filter(|object| wave(object) == now) {
            let going = here(&world, object);
            world.run(&["delete", "-f", "-"], &going.to_string()).await;
        }
    }
    assert_eq!(world.sim.live_servers(), [], "{}", world.ledger_text());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_health_checks_of_the_config_map_are_those_that_are_contributed() {
    let setup = Setup::default().bare().without_operator();
    let world = setup.begin("gitops-checks").await;
    let [mut ours] = <[Value; 1]>::try_from(rendered(&world, Path::new(CHECKS)).await).unwrap();
    ours["metadata"]["namespace"] = json!(world.namespace);
    // A ConfigMap with other settings exists already.
    let theirs =
        json!({"metadata": {"name": "argocd-cm"}, "data": {"url": "https://argocd.example"}});
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    create(&maps, &serde_json::from_value(theirs).unwrap()).await;
    let apply = [
        "apply",
        "--server-side",
        "--field-manager=cloudserver-health",
        "-f",
        "-",
    ];
    world.run(&apply, &ours.to_string()).await;
    let now = read(maps, "argocd-cm").await;
    assert_eq!(now["data"]["url"], "https://argocd.example");
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut now = now;
    now["apiVersion"] = json!("v1");
    now["kind"] = json!("ConfigMap");
    std::fs::write(file.path(), now.to_string()).unwrap();
    let mut judged = 0;
    for kind in ["Account", "Instance"] {
        for (object, expected) in contributed_tests(kind) {
            let objects = [object];
            let built_in = judges::argocd(&judges::contributed(), &objects).remove(0);
            assert_eq!(built_in, expected, "{:#}", objects[0]);
            let pasted = judges::argocd(file.path(), &objects).remove(0);
            assert_eq!(pasted, expected, "{:#}", objects[0]);
            judged += 1;
        }
    }
    assert!(judged >= 8, "only {judged} objects");
    world.finish().await;
}

/// The tests that belong to a health check, in the format of Argo CD.
fn contributed_tests(kind: &str) -> Vec<(Value, judges::Verdict)> {
    let folder = judges::contributed().join("cloudserver.dev").join(kind);
    let file = |path: &str| {
        let text = std::fs::read_to_string(folder.join(path)).unwrap();
        serde_saphyr::from_str::<Value>(&text).unwrap()
    };
    let tests = file("health_test.yaml")["tests"].clone();
    let tests = tests.as_array().cloned().unwrap_or_default();
    tests
        .into_iter()
        .map(|test| {
            let verdict = serde_json::from_value(test["healthStatus"].clone()).unwrap();
            (file(test["inputPath"].as_str().unwrap()), verdict)
        })
        .collect()
}
