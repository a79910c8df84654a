//! Checks `deploy/` and the chart with standard tools: kubeconform with the schemas of a real apiserver, kube-score with its
//! rules, and that apiserver's Pod Security.

use crate::rendered::{identity, objects};
use crate::{OPERATOR, OWN, built, chart, helm, kubectl, refused, root, succeeded};
use devcluster::Cluster;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The manifests without any option chosen by a user.
fn manifests() -> [(&'static str, String); 2] {
    let mut folder = kubectl();
    folder.arg("kustomize").arg(root().join("deploy"));
    let mut template = helm();
    template.args(["template", OPERATOR]).arg(chart());
    template.args(["--namespace", OWN]);
    [("deploy/", folder), ("the chart", template)]
        .map(|(name, mut made)| (name, succeeded(&made.output().unwrap())))
}

fn run(command: &mut Command, input: &str) -> Output {
    let mut process = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = process.stdin.take().unwrap();
    let input = input.to_owned();
    // The tool may write output while it still reads input.
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = process.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    output
}

async fn start() -> Cluster {
    Cluster::builder().audit(false).start().await.unwrap()
}

/// The prefix of `$ref` in an OpenAPI document of version 2.
const DEFINITIONS: &str = "#/definitions/";

/// Collects the definitions that a schema references, directly or indirectly.
fn needed(schema: &Value, all: &Map<String, Value>, found: &mut Map<String, Value>) {
    match schema {
        Value::Object(fields) => {
            let name = fields.get("$ref").and_then(Value::as_str);
            if let Some(name) = name.and_then(|name| name.strip_prefix(DEFINITIONS))
                && !found.contains_key(name)
            {
                found.insert(name.to_owned(), all[name].clone());
                needed(&all[name], all, found);
            }
            fields.values().for_each(|field| needed(field, all, found));
        }
        Value::Array(values) => values.iter().for_each(|value| needed(value, all, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Expresses in JSON Schema how strict the apiserver is: an unknown field is an error, and a value that may be a number is not
/// restricted to text.
fn made_strict(definition: &mut Value) {
    if definition["properties"].is_object() && definition["additionalProperties"].is_null() {
        definition["additionalProperties"] = json!(false);
    }
    if definition["format"] == "int-or-string" {
        definition["type"] = json!(["string", "integer"]);
    }
}

/// Schemas of an apiserver, each in a file with the name that kubeconform expects.
struct Schemas(TempDir);

impl Schemas {
    /// The schemas of the kinds of these objects, as the apiserver itself publishes them.
    fn of(cluster: &Cluster, manifests: &[(&str, String)]) -> Self {
        let get = ["get", "--raw", "/openapi/v2"];
        let published = succeeded(&cluster.kubectl().args(get).output().unwrap());
        let mut published: Value = serde_json::from_str(&published).unwrap();
        let definitions = published["definitions"].as_object_mut().unwrap();
        definitions.values_mut().for_each(made_strict);
        let mut kinds = BTreeMap::new();
        for (name, definition) in definitions.iter() {
            let of = definition["x-kubernetes-group-version-kind"].as_array();
            for kind in of.into_iter().flatten() {
                let [group, version, kind] =
                    ["group", "version", "kind"].map(|part| kind[part].as_str().unwrap());
                let version = match group {
                    "" => version.to_owned(),
                    group => format!("{group}/{version}"),
                };
                kinds.insert((version, kind), name);
            }
        }
        let folder = tempfile::tempdir().unwrap();
        for object in manifests
            .iter()
            .flat_map(|(_, yaml)| objects(yaml).into_values())
        {
            let [version, kind] = ["apiVersion", "kind"].map(|of| object[of].as_str().unwrap());
            let file = format!("{version}/{}.json", kind.to_lowercase());
            let file = folder.path().join(file);
            let name = kinds[&(version.to_owned(), kind)];
            let schema = json!({"$ref": format!("{DEFINITIONS}{name}")});
            let mut found = Map::new();
            needed(&schema, definitions, &mut found);
            let schema = json!({"$ref": schema["$ref"], "definitions": found});
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, schema.to_string()).unwrap();
        }
        Self(folder)
    }

    /// The verdict of kubeconform on a text: whether it is valid, and the result for each object.
    fn judge(&self, yaml: &str) -> (bool, Value) {
        // kubeconform uses the version as group name for the core group.
        let version =
            "{{if ne .Group .ResourceAPIVersion}}{{.Group}}/{{end}}{{.ResourceAPIVersion}}";
        let files = format!(
            "{}/{version}/{{{{.ResourceKind}}}}.json",
            self.0.path().display()
        );
        let mut judge = Command::new(built("kubeconform"));
        judge.args(["-strict", "-verbose", "-output", "json", "-summary"]);
        judge.args(["-schema-location", &files, "-"]);
        let output = run(&mut judge, yaml);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let verdict = serde_json::from_slice(&output.stdout);
        let verdict = verdict.unwrap_or_else(|error| panic!("{error}: {stderr}"));
        (output.status.success(), verdict)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_objects_match_the_schemas_of_the_apiserver_and_kubeconform_refuses_others() {
    let cluster = start().await;
    let manifests = manifests();
    let schemas = Schemas::of(&cluster, &manifests);
    for (name, yaml) in &manifests {
        let (is_well, verdict) = schemas.judge(yaml);
        assert!(is_well, "{name}: {verdict}");
        let count = objects(yaml).len();
        assert_eq!(verdict["summary"]["valid"], count, "{name}: {verdict}");
        for (right, wrong, why) in [
            ("  replicas: 2\n", "  replica: 2\n", "replica"),
            ("  replicas: 2\n", "  replicas: two\n", "/spec/replicas"),
            (
                "  replicas: 2\n",
                "  replicas: 2\n  replicas: 3\n",
                "replicas",
            ),
        ] {
            assert!(yaml.contains(right), "{name} has no line {right:?}");
            let (is_well, verdict) = schemas.judge(&yaml.replace(right, wrong));
            assert!(!is_well, "{name} with {wrong:?} passes");
            let invalid = verdict["resources"].as_array().unwrap().iter();
            let invalid = invalid.filter(|one| one["status"] != "statusValid");
            let messages: Vec<String> = invalid.map(|one| one["msg"].to_string()).collect();
            assert!(
                messages.iter().any(|message| message.contains(why)),
                "{wrong:?}: {messages:?}"
            );
        }
    }
}

/// Deviations from kube-score's rules, each with its reason.
const ON_PURPOSE: [(&str, &str); 6] = [
    (
        "container-cpu-requests-equal-limits",
        "who acts must not be held up while a create is under way: it asks for little, and takes what is free",
    ),
    (
        "container-memory-requests-equal-limits",
        "it asks for what it needs for few Instances, and is bounded by what it needs for many",
    ),
    (
        "container-resource-requests-equal-limits",
        "both of the above",
    ),
    (
        "container-ephemeral-storage-request-and-limit",
        "it writes no file: its file system is read-only, and it mounts nothing to write to",
    ),
    (
        "container-image-pull-policy",
        "an image is one version, by its tag or digest: a node that has it needs no registry to start it",
    ),
    (
        "container-security-context-user-group-id",
        "it runs as the image's own user, 65532, or as a user that the cluster chooses (OpenShift)",
    ),
];

/// A warning of kube-score. 1 is critical, 10 is fine.
const WARNING: u64 = 5;

#[test]
fn kube_score_finds_nothing_that_is_not_on_purpose() {
    for (name, yaml) in manifests() {
        let mut judge = Command::new(built("kube-score"));
        judge.args(["score", "--output-format", "json", "--all-default-optional"]);
        // Without a CPU limit it is not throttled, see the first of the reasons. A memory limit is required.
        judge.arg("--ignore-container-cpu-limit");
        judge.args(["--kubernetes-version", "v1.33", "-"]);
        let output = run(&mut judge, &yaml);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let scored: Vec<Value> = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {stderr}"));
        let checks = scored
            .iter()
            .flat_map(|object| object["checks"].as_array().unwrap());
        let checks: Vec<&Value> = checks.filter(|check| check["skipped"] == false).collect();
        assert!(checks.len() > 20, "{name}: {}", checks.len());
        let found = checks
            .iter()
            .filter(|check| check["grade"].as_u64().unwrap() <= WARNING);
        let found: BTreeMap<&str, &Value> = found
            .map(|check| (check["check"]["id"].as_str().unwrap(), &check["comments"]))
            .collect();
        let excused = BTreeSet::from(ON_PURPOSE.map(|(check, _)| check));
        for (check, comments) in &found {
            assert!(excused.contains(check), "{name}: {check}: {comments}");
        }
        for (check, why) in ON_PURPOSE {
            assert!(
                found.contains_key(check),
                "{name}: {check} is well, and excused: {why}"
            );
        }
    }
}

/// The Pod of the Deployment in a manifest, in another namespace.
fn pod(yaml: &str, namespace: &str) -> Value {
    let deployments = objects(yaml)
        .into_values()
        .filter(|object| object["kind"] == "Deployment");
    let deployments: Vec<Value> = deployments.collect();
    let [deployment] = deployments.as_slice() else {
        panic!("{} Deployments", deployments.len());
    };
    let template = &deployment["spec"]["template"];
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"]});
    pod["metadata"]["name"] = json!("operator-1");
    pod["metadata"]["namespace"] = json!(namespace);
    pod
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_security_restricted_admits_the_operators_pod_and_none_that_is_weaker_by_one_setting() {
    const NAMESPACE: &str = "restricted";
    let cluster = start().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
    }});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": OPERATOR, "namespace": NAMESPACE}});
    let create = |object: &Value, more: &[&str]| {
        let mut create = cluster.kubectl();
        create.args(["create", "-f", "-"]).args(more);
        run(&mut create, &object.to_string())
    };
    for object in [&namespace, &account] {
        succeeded(&create(object, &[]));
    }
    let dry = ["--dry-run=server"];
    for (name, yaml) in manifests() {
        let pod = pod(&yaml, NAMESPACE);
        let admitted = create(&pod, &dry);
        let stderr = String::from_utf8_lossy(&admitted.stderr);
        assert!(
            admitted.status.success() && stderr.is_empty(),
            "{name}: {stderr}"
        );

        let (of_pod, of_container) = (
            "/spec/securityContext",
            "/spec/containers/0/securityContext",
        );
        for (place, change, why) in [
            // Both changes, since the Pod would be invalid with only one of them.
            (
                of_container,
                json!({"privileged": true, "allowPrivilegeEscalation": null}),
                "privileged",
            ),
            (
                of_container,
                json!({"allowPrivilegeEscalation": true}),
                "allowPrivilegeEscalation",
            ),
            (
                of_container,
                json!({"capabilities": null}),
                "unrestricted capabilities",
            ),
            (of_container, json!({"runAsUser": 0}), "runAsUser=0"),
            (of_pod, json!({"runAsUser": 0}), "runAsUser=0"),
            (of_pod, json!({"runAsNonRoot": null}), "runAsNonRoot"),
            (of_pod, json!({"seccompProfile": null}), "seccompProfile"),
            ("/spec", json!({"hostNetwork": true}), "host namespaces"),
        ] {
            let mut weaker = pod.clone();
            json_patch::merge(weaker.pointer_mut(place).unwrap(), &change);
            let refusal = refused(&create(&weaker, &dry));
            let is_for_it =
                refusal.contains("violates PodSecurity \"restricted:") && refusal.contains(why);
            assert!(
                is_for_it,
                "{name}, {}, {place} {change}: {refusal}",
                identity(&weaker)
            );
        }
    }
}
