//! The chart on a real control plane: the objects that it stores, upgrades and leaves behind. No Pods run there, so the tests
//! do not wait for Pods.

use crate::rendered::{KEPT, LABELS_OF_HELM, Objects, copy, identity, objects};
use crate::{OPERATOR, OWN, chart, helm, refused, root, succeeded};
use devcluster::Cluster;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Long enough for a machine that runs three other builds.
const PATIENCE: Duration = Duration::from_secs(120);

async fn start() -> Cluster {
    Cluster::builder().audit(false).start().await.unwrap()
}

fn run(command: &mut Command, input: &str) -> Output {
    let mut process = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    process.wait_with_output().unwrap()
}

fn kubectl(cluster: &Cluster, arguments: &[&str], input: &str) -> Output {
    run(cluster.kubectl().args(arguments), input)
}

/// Runs helm on a release with this name.
fn release(cluster: &Cluster, verb: &str, name: &str, arguments: &[&str]) -> Output {
    let mut command = helm();
    command
        .env("KUBECONFIG", cluster.kubeconfig_path())
        .args([verb, name, "--namespace", OWN])
        .args(arguments);
    run(&mut command, "")
}

fn make_namespace(cluster: &Cluster) {
    let namespace = fs::read_to_string(root().join("deploy/operator/namespace.yaml")).unwrap();
    succeeded(&kubectl(cluster, &["apply", "-f", "-"], &namespace));
}

/// The install.yaml that `make dist` creates.
fn install_yaml(directory: &Path) -> String {
    let kubectl = devcluster::Executables::find_or_build().unwrap();
    let mut make = Command::new("make");
    make.arg("--directory").arg(root()).arg("dist");
    // These come from the make that runs the tests, if there is one.
    make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
    make.env("KUBECTL", kubectl.path("kubectl"));
    make.arg(format!("DIST={}", directory.display()));
    succeeded(&make.output().unwrap());
    fs::read_to_string(directory.join("install.yaml")).unwrap()
}

/// The stored form of these objects, without the values that differ between clusters or releases.
fn stored(cluster: &Cluster, manifest: &str) -> Objects {
    let get = ["get", "-o", "json", "-f", "-"];
    let list = succeeded(&kubectl(cluster, &get, manifest));
    let mut list: Value = serde_json::from_str(&list).unwrap();
    let items = list["items"].as_array_mut().unwrap();
    let mut objects = Objects::new();
    for mut object in items.drain(..) {
        object.as_object_mut().unwrap().remove("status");
        let metadata = object["metadata"].as_object_mut().unwrap();
        for field in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "generation",
            "managedFields",
        ] {
            metadata.remove(field);
        }
        if let Some(annotations) = metadata.get_mut("annotations") {
            let annotations = annotations.as_object_mut().unwrap();
            annotations.retain(|key, _| {
                key != KEPT
                    && !key.starts_with("meta.helm.sh/")
                    && key != "kubectl.kubernetes.io/last-applied-configuration"
            });
        }
        if let Some(labels) = metadata.get_mut("labels") {
            let labels = labels.as_object_mut().unwrap();
            labels.retain(|key, _| !LABELS_OF_HELM.contains(&key.as_str()));
        }
        metadata.retain(|_, value| *value != json!({}));
        objects.insert(identity(&object), object);
    }
    objects
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chart_and_the_single_file_of_make_dist_install_the_same_objects() {
    let directory = tempfile::tempdir().unwrap();
    let file = install_yaml(directory.path());
    let (by_file, by_chart) = tokio::join!(start(), start());

    // Twice, as in an upgrade.
    for _ in 0..2 {
        succeeded(&kubectl(&by_file, &["apply", "-f", "-"], &file));
    }
    make_namespace(&by_chart);
    // The package, not the folder that it is made from.
    let package = format!("{OPERATOR}-{}.tgz", env!("CARGO_PKG_VERSION"));
    let package = directory.path().join(package);
    let package = package.to_str().unwrap();
    succeeded(&release(&by_chart, "install", OPERATOR, &[package]));

    let (one, other) = (stored(&by_file, &file), stored(&by_chart, &file));
    assert_eq!(one.len(), objects(&file).len());
    for (name, object) in &one {
        let changes = json_patch::diff(object, &other[name]);
        assert!(changes.is_empty(), "{name}: {changes}");
    }
    // And the chart contains no object that is not in the file.
    let mut manifest = helm();
    manifest.env("KUBECONFIG", by_chart.kubeconfig_path());
    manifest.args(["get", "manifest", OPERATOR, "--namespace", OWN]);
    let made = objects(&succeeded(&run(&mut manifest, "")));
    let more: Vec<_> = made
        .keys()
        .filter(|name| !one.contains_key(*name))
        .collect();
    assert_eq!(more, [""; 0]);
}

/// The chart as an older release could have been: one definition lacks one of its short names.
fn older_chart(directory: &Path) {
    copy(&chart(), directory);
    let file = directory.join("files/crds.yaml");
    let text = fs::read_to_string(&file).unwrap();
    let short = "    - csinst\n";
    assert!(text.contains(short));
    fs::write(file, text.replace(short, "    - older\n")).unwrap();
}

const ACCOUNT_AND_INSTANCE: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: team-a}
---
apiVersion: cloudserver.dev/v1alpha1
kind: Account
metadata: {name: default, namespace: team-a}
spec: {endpoint: "http://127.0.0.1:8090", tokenSecretRef: {name: cloud-token, key: token}}
---
apiVersion: cloudserver.dev/v1alpha1
kind: Instance
metadata:
  name: app-1
  namespace: team-a
  finalizers: [cloudserver.dev/release]
spec: {region: ru-moscow-1, zone: ru-moscow-1-a, package: {code: ru-moscow-1-a-c1m2-s40-t1000},
       image: {id: img-debian12aaaa}, firewall: {id: fw-examplegroup2}, login: {sshKey: {id: key-examplepair2}}}
"#;

/// The UIDs of the objects that must outlive the release: a new UID would mean a new object.
fn uids(cluster: &Cluster) -> BTreeMap<&'static str, String> {
    let kept = [
        ["customresourcedefinition", "instances.cloudserver.dev"],
        ["customresourcedefinition", "accounts.cloudserver.dev"],
        ["accounts", "default"],
        ["instances", "app-1"],
        ["namespace", OWN],
    ];
    kept.into_iter()
        .map(|[kind, name]| {
            let get = ["get", kind, name, "-n", "team-a", "-o", "json"];
            let object = succeeded(&kubectl(cluster, &get, ""));
            let object: Value = serde_json::from_str(&object).unwrap();
            let metadata = &object["metadata"];
            assert_eq!(metadata["deletionTimestamp"], Value::Null, "{kind} {name}");
            (name, metadata["uid"].as_str().unwrap().to_owned())
        })
        .collect()
}

/// A field of a stored object, as text.
fn field(cluster: &Cluster, object: &[&str], path: &str) -> String {
    let mut get = vec!["get"];
    get.extend(object);
    let path = format!("jsonpath={path}");
    get.extend(["-n", OWN, "-o", &path]);
    succeeded(&kubectl(cluster, &get, ""))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_upgrades_the_definitions_and_an_uninstallation_leaves_them_with_all_instances()
{
    let cluster = start().await;
    let older = tempfile::tempdir().unwrap();
    older_chart(older.path());
    make_namespace(&cluster);
    let older = older.path().to_str().unwrap();
    succeeded(&release(&cluster, "install", OPERATOR, &[older]));
    let deadline = Instant::now() + PATIENCE;
    loop {
        let output = kubectl(&cluster, &["apply", "-f", "-"], ACCOUNT_AND_INSTANCE);
        if output.status.success() {
            break;
        }
        // The apiserver serves a definition a moment after it was stored.
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(Instant::now() < deadline, "not accepted: {why}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let before = uids(&cluster);
    let definition = ["customresourcedefinition", "instances.cloudserver.dev"];
    let short = || field(&cluster, &definition, "{.spec.names.shortNames[*]}");
    assert_eq!(short(), "older");

    let current = chart();
    let current = current.to_str().unwrap();
    let deployment = ["deployment", OPERATOR];
    let replicas = || field(&cluster, &deployment, "{.spec.replicas}");
    assert_eq!(replicas(), "2");
    let upgrade = [current, "--set", "replicas=3,secretWriter.enabled=true"];
    succeeded(&release(&cluster, "upgrade", OPERATOR, &upgrade));
    assert_eq!((short().as_str(), replicas().as_str()), ("csinst", "3"));
    let writer = ["clusterrole", "cloud-server-operator-secret-writer"];
    assert_eq!(
        field(&cluster, &writer, "{.rules[0].verbs[*]}"),
        "create patch"
    );
    // A user who removes the definitions from the release keeps them in the cluster.
    let upgrade = [current, "--set", "crds.install=false"];
    succeeded(&release(&cluster, "upgrade", OPERATOR, &upgrade));
    let get = ["get", "clusterrole", "cloud-server-operator-secret-writer"];
    let gone = refused(&kubectl(&cluster, &get, ""));
    assert!(gone.contains("NotFound"), "{gone}");
    assert_eq!(uids(&cluster), before);
    // Without the flag, helm would reuse the values of the previous release.
    let upgrade = [current, "--reset-values"];
    succeeded(&release(&cluster, "upgrade", OPERATOR, &upgrade));

    let mut manifest = helm();
    manifest.env("KUBECONFIG", cluster.kubeconfig_path());
    manifest.args(["get", "manifest", OPERATOR, "--namespace", OWN]);
    let manifest = succeeded(&run(&mut manifest, ""));
    let output = succeeded(&release(&cluster, "uninstall", OPERATOR, &[]));
    assert!(output.contains("instances.cloudserver.dev"), "{output}");
    assert_eq!(uids(&cluster), before);
    let get = ["get", "--ignore-not-found", "-o", "name", "-f", "-"];
    let left = succeeded(&kubectl(&cluster, &get, &manifest));
    let left: Vec<&str> = left.lines().collect();
    let kept = [
        "customresourcedefinition.apiextensions.k8s.io/accounts.cloudserver.dev",
        "customresourcedefinition.apiextensions.k8s.io/instances.cloudserver.dev",
    ];
    assert_eq!(left, kept);

    // The same release adopts them again; another release does so only if configured.
    succeeded(&release(&cluster, "install", OPERATOR, &[current]));
    assert_eq!(uids(&cluster), before);
    succeeded(&release(&cluster, "uninstall", OPERATOR, &[]));
    let why = refused(&release(&cluster, "install", "other", &[current]));
    assert!(why.contains("invalid ownership metadata"), "{why}");
    let taking = [current, "--take-ownership"];
    succeeded(&release(&cluster, "install", "other", &taking));
    assert_eq!(uids(&cluster), before);
}
