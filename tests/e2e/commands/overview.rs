//! `status` and `describe`: an overview for users.

use super::{exits, output_of};
use crate::support::{Setup, World, busy, eventually, instance, with};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_and_describe_show_ready_running_and_waiting_instances() {
    let world = Setup::default().begin("overview").await;
    world.apply(&instance("web")).await;
    let ready = world.ready("web").await;
    let web = world.only_server(&ready);
    let running = busy(&world).await;
    world.until_reason("busy", "Creating").await;
    let waiting = with("waiting", |spec| {
        spec["login"]["passwordSecretRef"]["name"] = json!("missing");
    });
    world.apply(&waiting).await;
    world.until_reason("waiting", "LoginSecretNotFound").await;

    let output = exits(&world, 0, &["status"], "").await;
    let lines: Vec<&str> = output.out.lines().collect();
    assert_eq!(lines[0], world.namespace);
    assert!(
        lines[1].starts_with("└─ Account default: Ready · "),
        "{lines:#?}"
    );
    for (line, words) in [
        (
            2,
            [
                "├─ busy",
                "Reconciling (Creating) · create ",
                running.as_str(),
            ],
        ),
        (3, ["├─ waiting", "(LoginSecretNotFound) · ", "missing"]),
        (4, ["└─ web", "Ready · ", web.id.as_str()]),
    ] {
        for words in words {
            assert!(lines[line].contains(words), "{words:?}: {lines:#?}");
        }
    }
    assert_eq!(lines.len(), 5, "{lines:#?}");

    let output = exits(&world, 0, &["describe", "web", "busy"], "").await;
    let address = &ready.status.as_ref().unwrap().detail["publicIpAddress"];
    let address = address.as_str().unwrap();
    for words in [
        &format!("Instance {}/web, ", world.namespace),
        &format!("Its server is {}, ", web.id),
        &format!(", at {address}, "),
        "State: Ready\n",
        "create 1: done in ",
        "The operator follows the create (attempt 1, as the spec asks) until it ends; the service accepted its newest call as task ",
    ] {
        assert!(
            output.out.contains(words),
            "{words:?} is not in\n{}",
            output.out
        );
    }
    let output = output_of(&world, &["describe", "no-such"], "").await;
    assert_eq!(output.status, 1);
    assert!(
        output
            .err
            .contains("Instance no-such does not exist in namespace"),
        "{}",
        output.err
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_support_archive_has_objects_and_events_and_no_secret_and_is_never_overwritten() {
    let world = Setup::default().begin("support").await;
    world.apply(&instance("web")).await;
    let id = world.only_server(&world.ready("web").await).id;
    let note = "example.dev/note=canary-of-a-note";
    world.run(&["annotate", "instance", "web", note], "").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bundle.tar.gz");
    let command = ["support", "--output", file.to_str().unwrap()];
    let output = exits(&world, 0, &command, "").await;
    // No operator runs as a Pod here, which the command reports.
    assert!(
        output.out.contains("left out: operator/pods.yaml: no Pod"),
        "{}",
        output.out
    );
    let files = unpacked(&file);
    for (name, words) in [
        ("versions.yaml", env!("CARGO_PKG_VERSION")),
        ("accounts.yaml", "name: default"),
        ("instances.yaml", id.as_str()),
        ("instances.yaml", "cloudserver.dev/binding"),
        ("events.yaml", "regarding:"),
        ("operator/leases.yaml", "[]"),
        ("missing.txt", "no Pod"),
    ] {
        let text = &files[name];
        assert!(text.contains(words), "{words:?} is not in {name}:\n{text}");
    }
    assert_no_secret_in(&files);
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = output_of(&world, &command, "").await;
    assert_eq!(again.status, 1);
    assert!(
        again.err.contains("name another file with --output"),
        "{}",
        again.err
    );
}

/// The contents of an archive, by the name of the file.
fn unpacked(archive: &Path) -> BTreeMap<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let done = Command::new("tar")
        .arg("-xzf")
        .arg(archive)
        .arg("-C")
        .arg(folder.path())
        .status()
        .unwrap();
    assert!(done.success());
    let root = folder.path().join("cloud-server-support");
    let mut files = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
            files.insert(name.to_owned(), fs::read_to_string(&path).unwrap());
        }
    }
    files
}

/// Asserts that no file contains a secret or its replacement.
fn assert_no_secret_in(files: &BTreeMap<String, String>) {
    for (name, text) in files {
        for secret in [World::TOKEN, World::PASSWORD, "canary-of-"] {
            assert!(!text.contains(secret), "{name} contains {secret}:\n{text}");
        }
    }
}

/// The spec of a Pod of the operator, with something to hide in every text field.
fn pod_spec(port: &Value) -> Value {
    let header = json!([{"name": "Authorization", "value": "canary-of-a-probe"}]);
    json!({
        "containers": [
            {
                "name": "operator",
                "image": "cloud-server-operator",
                "args": ["run", "--concurrency=7"],
                "env": [
                    {"name": "CSO_NAMESPACES", "value": "team-a"},
                    {"name": "CSO_TOKEN", "value": "canary-of-a-token"},
                    {"name": "HTTPS_PROXY", "value": "http://user:canary-of-a-proxy@proxy"},
                ],
                "ports": [port],
                "livenessProbe": {"httpGet": {"path": "/livez", "port": 8080, "httpHeaders": header}},
            },
            {
                "name": "sidecar",
                "image": "sidecar",
                "command": ["sidecar", "--password=canary-of-a-command"],
                "args": ["--password=canary-of-an-argument"],
                "env": [{"name": "CSO_NAMESPACES", "value": "canary-of-a-sidecar"}],
            },
        ],
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_support_archive_has_no_secret_of_pods_and_annotations() {
    let world = Setup::default().without_operator().begin("canaries").await;
    let named = |name: &str| {
        json!({"name": name, "labels": {"app.kubernetes.io/name": "cloud-server-operator"},
            "annotations": {"example.dev/note": "canary-of-an-annotation"}})
    };
    let plain = json!({"name": "metrics", "containerPort": 9090});
    let with_tls = json!({"name": "metrics-tls", "containerPort": 8443});
    let labels = json!({"app.kubernetes.io/name": "cloud-server-operator"});
    let template = json!({"metadata": {"labels": labels, "annotations": {"example.dev/note": "canary-of-a-template"}},
        "spec": pod_spec(&plain)});
    let pod = |name: &str, port: &Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": named(name), "spec": pod_spec(port)});
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        pod("plain", &plain),
        pod("secured", &with_tls),
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": named("deployed"),
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}},
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": named("held"),
            "spec": {"holderIdentity": "operator-a1"}},
    ]});
    // In the way in which users apply them: kubectl also writes all of it into an annotation. A Pod is accepted once its
    // namespace has its ServiceAccount.
    eventually("the objects are there", async || {
        match world
            .kubectl(&["apply", "-f", "-"], &objects.to_string())
            .await
        {
            (true, _) => Ok(()),
            (false, why) => Err(why),
        }
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bundle.tar.gz");
    let (to, own) = (file.to_str().unwrap(), world.namespace.as_str());
    let command = ["support", "--output", to, "--operator-namespace", own];
    exits(&world, 0, &command, "").await;
    let files = unpacked(&file);
    for (name, words) in [
        (
            "operator/pods.yaml",
            &["name: plain", "name: secured", "team-a", "--concurrency=7"][..],
        ),
        (
            "operator/deployments.yaml",
            &["name: deployed", "team-a", "--concurrency=7"],
        ),
        ("operator/leases.yaml", &["name: held", "operator-a1"]),
        (
            "missing.txt",
            &[
                "metrics-secured.txt: this Pod serves metrics with TLS",
                "metrics-plain.txt: ",
            ],
        ),
    ] {
        for words in words {
            let text = &files[name];
            assert!(text.contains(words), "{words:?} is not in {name}:\n{text}");
        }
    }
    // The Pod has no kubelet that could answer, but the request was sent to its own port.
    let missing = &files["missing.txt"];
    assert!(!missing.contains("no request of this program"), "{missing}");
    assert_no_secret_in(&files);
}
