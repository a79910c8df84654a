//! Names that are paths: in objects from before the schema had rules for names, in flags, in files. Neither the operator nor a
//! command requests anything outside of its scope, and each reports the name that must be fixed.

use super::exits;
use crate::support::{Setup, Shared, World, eventually, instance, own};
use cloud_server_operator::api::valid::{KEY_MESSAGE, NAME_MESSAGE};
use cloud_server_operator::api::{Account, Instance};
use devcluster::audit;
use kube::CustomResourceExt;
use serde_json::{Value, json};

/// As observed before the check existed: another namespace's Secret, and a list of all Secrets with their contents.
const PATHS: [&str; 2] = ["../../victim/secrets/x", "?limit=1"];

/// Removes the rules for names from a definition.
fn loose(schema: &mut Value) {
    if let Some(rules) = schema["x-kubernetes-validations"].as_array_mut() {
        rules.retain(|rule| rule["message"] != NAME_MESSAGE && rule["message"] != KEY_MESSAGE);
        if rules.is_empty() {
            schema
                .as_object_mut()
                .unwrap()
                .remove("x-kubernetes-validations");
        }
    }
    for (_, field) in schema["properties"].as_object_mut().into_iter().flatten() {
        loose(field);
    }
}

async fn loosen(world: &World) {
    for definition in [Instance::crd(), Account::crd()] {
        let mut definition = serde_json::to_value(definition).unwrap();
        loose(&mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
        world.run(&apply, &definition.to_string()).await;
    }
}

/// The requests of the operator and its commands that are out of scope.
fn strays(world: &World) -> Vec<String> {
    let entries = audit::read(world.shared.cluster.audit_log_path()).unwrap();
    let ours = entries.iter().filter(|entry| {
        entry.user == Shared::USER || entry.user_agent.starts_with("cloud-server-operator/")
    });
    let strays = ours.filter(|entry| {
        let path = entry.uri.split('?').next().unwrap_or_default();
        let strange = ["..", "//", "%", "victim"];
        path.ends_with('/') || strange.iter().any(|part| path.contains(part))
    });
    strays
        .map(|entry| format!("{} {}", entry.verb, entry.uri))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_a_path_reaches_no_other_object_and_is_reported() {
    // A definition affects the whole control plane.
    let world = Setup::default().cluster(own().await).begin("paths").await;
    loosen(&world).await;
    let victim = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "victim"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x", "namespace": "victim"}, "stringData": {"password": "Victims7pass!word"}},
    ]});
    let apply = ["apply", "--validate=false", "-f", "-"];
    let done = crate::support::kubectl_of(&world.shared.cluster, &apply, &victim.to_string()).await;
    assert!(done.status.success());
    for (number, path) in PATHS.iter().enumerate() {
        let mut web = instance(&format!("web-{number}"));
        web["spec"]["login"]["passwordSecretRef"]["name"] = json!(path);
        let account = json!({
            "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Account", "metadata": {"name": format!("acc-{number}")},
            "spec": {"endpoint": world.endpoint(), "tokenSecretRef": {"name": path, "key": "token"}},
        });
        for object in [web, account] {
            eventually("the older schema is in force", async || {
                world.kubectl_apply(&object).await
            })
            .await;
        }
    }
    for (number, path) in PATHS.iter().enumerate() {
        let refused = world
            .until_reason(&format!("web-{number}"), "LoginSecretNotFound")
            .await;
        let words = &crate::support::condition(&refused, "Ready")
            .unwrap()
            .message;
        let quoted = format!("{path:?} is no name that Kubernetes takes");
        assert!(
            words.contains(&quoted) && words.contains("spec.login"),
            "{words}"
        );
        let name = format!("acc-{number}");
        eventually("the Account reports the name", async || {
            let account = world
                .accounts()
                .get(&name)
                .await
                .map_err(|e| e.to_string())?;
            let status = account.status.unwrap_or_default();
            let ready = status.conditions.iter().find(|c| c.type_ == "Ready");
            match ready.filter(|ready| ready.message.contains(&quoted)) {
                Some(ready) if ready.message.contains("spec.tokenSecretRef.name") => Ok(()),
                _ => Err(format!("{:?}", status.conditions)),
            }
        })
        .await;
        let output = exits(&world, 1, &["instances", "--account", &name], "").await;
        assert!(output.err.contains(&quoted), "{}", output.err);
    }
    // Flags, and files that no apiserver has validated.
    let manifest = |metadata: Value| {
        let mut web = instance("web");
        web["metadata"] = metadata;
        web.to_string()
    };
    for path in PATHS {
        let quoted = format!("{path:?} is no name that Kubernetes takes");
        let named = manifest(json!({"name": path}));
        let placed = manifest(json!({"name": "web", "namespace": path}));
        let plain = manifest(json!({"name": "web"}));
        let ask = async |arguments: &[&str], input: &str| {
            let mut command = tokio::process::Command::new(super::PLUGIN);
            command.args(arguments).arg("--kubeconfig");
            command.arg(world.shared.cluster.kubeconfig_path());
            super::run(&mut command, input).await
        };
        for (arguments, input, place) in [
            (&["instances", "--account", path][..], "", "--account"),
            (&["instances", "-n", path], "", "--namespace"),
            (&["catalog", "regions", "-n", path], "", "--namespace"),
            (&["plan", "-f", "-", "-n", path], &plain, "--namespace"),
            (&["plan", "-f", "-"], &named, "metadata.name"),
            (&["plan", "-f", "-"], &placed, "metadata.namespace"),
        ] {
            let output = ask(arguments, input).await;
            assert_ne!(output.status, 0, "{arguments:?}: {}", output.out);
            let all = output.out + &output.err;
            assert!(
                all.contains(&quoted) && all.contains(place),
                "{arguments:?}: {all}"
            );
        }
    }
    assert_eq!(strays(&world), Vec::<String>::new());
    assert!(world.sim.live_servers().is_empty());
    world.finish().await;
}
