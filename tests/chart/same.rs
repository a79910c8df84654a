//! The chart creates the same objects as `deploy/`, with only three differences:
//!
//! * the labels by which helm distinguishes its releases;
//! * the annotation that makes helm keep the definitions;
//! * the Namespace: helm stores the release in it, so it exists before the chart is installed.

use crate::rendered::{KEPT, LABELS_OF_HELM, Manifests, Objects, helm_in, helm_with, kustomize};
use crate::{OPERATOR, OWN, root};
use serde_json::Value;

/// The objects of a release without the allowed differences, each of which must be present.
fn without_helms(mut objects: Objects) -> Objects {
    for (name, object) in &mut objects {
        let metadata = object["metadata"].as_object_mut().unwrap();
        let labels = metadata["labels"].as_object_mut().unwrap();
        for label in LABELS_OF_HELM {
            assert!(labels.remove(label).is_some(), "{name} lacks {label}");
        }
        let is_definition = name.starts_with("CustomResourceDefinition ");
        if is_definition {
            // It has no labels in `deploy/`.
            assert!(labels.is_empty(), "{name}: {labels:?}");
            metadata.remove("labels");
            let annotations = metadata["annotations"].as_object_mut().unwrap();
            assert_eq!(annotations.remove(KEPT), Some("keep".into()), "{name}");
        }
    }
    objects
}

fn without_namespace(mut objects: Objects, namespace: &str) -> Objects {
    let removed = objects.remove(&format!("Namespace {namespace}"));
    assert!(removed.is_some(), "no Namespace {namespace}");
    objects
}

fn differ(release: Objects, deployed: Objects, namespace: &str, case: &str) {
    let release = without_helms(release);
    let deployed = without_namespace(deployed, namespace);
    assert!(deployed.len() >= 20, "{case}: {} objects", deployed.len());
    let names = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&release), names(&deployed), "{case}");
    for (name, object) in &release {
        let changes = json_patch::diff(&deployed[name], object);
        assert!(changes.is_empty(), "{case}: {name}: {changes}");
    }
}

#[test]
fn the_defaults_equal_deploy() {
    let deployed = kustomize(&root().join("deploy"));
    differ(helm_with(&[]), deployed, OWN, "defaults");
}

#[test]
fn each_piece_is_the_one_that_kustomize_adds_for_all_namespaces() {
    let manifests = Manifests::copy();
    for (values, kustomization) in [
        (
            &["secretWriter.enabled=true"][..],
            "resources: [../deploy, ../deploy/secret-writer]\n",
        ),
        (
            &["recordsPolicy.enabled=true"],
            "resources: [../deploy, ../deploy/records]\n",
        ),
        (
            &["metrics.auth.enabled=true"],
            "resources: [../deploy]\ncomponents: [../deploy/metrics-auth]\n",
        ),
        (
            &[
                "secretWriter.enabled=true",
                "recordsPolicy.enabled=true",
                "metrics.auth.enabled=true",
            ],
            "resources: [../deploy, ../deploy/secret-writer, ../deploy/records]\ncomponents: [../deploy/metrics-auth]\n",
        ),
    ] {
        let deployed = manifests.own(kustomization);
        differ(helm_with(values), deployed, OWN, &values.join(" "));
    }
}

#[test]
fn for_one_namespace_the_chart_equals_deploy_namespaced_with_and_without_its_pieces() {
    // The names from names.yaml.
    let (own, watched) = ("cloud-server-team-a", r#"watchNamespaces=["team-a"]"#);
    let manifests = Manifests::copy();
    let folder = "deploy/namespaced";
    differ(
        helm_in(own, &[watched]),
        manifests.kustomize(folder),
        own,
        "for one namespace",
    );
    let mut values = vec![watched];
    for (value, component) in [
        (
            "secretWriter.enabled=true",
            "- ../one-namespace/secret-writer",
        ),
        ("metrics.auth.enabled=true", "- ../metrics-auth"),
    ] {
        values.push(value);
        manifests.switch_on("deploy/namespaced/kustomization.yaml", component);
        let deployed = manifests.kustomize(folder);
        differ(helm_in(own, &values), deployed, own, &values.join(" "));
    }
}

#[test]
fn no_right_reaches_beyond_the_namespaces_that_are_watched() {
    let watched = ["team-a", "team-b"];
    let values = format!("watchNamespaces={}", serde_json::json!(watched));
    let release = helm_in(
        "ours",
        &[&values, "secretWriter.enabled=true", "crds.install=false"],
    );
    let mut roles = Vec::new();
    for (name, object) in &release {
        let namespace = object["metadata"]["namespace"].as_str();
        match object["kind"].as_str().unwrap() {
            // The identity of the cluster is the only cluster-wide permission.
            "ClusterRoleBinding" => assert_eq!(
                object["roleRef"]["name"], "cloud-server-operator-identity",
                "{name}"
            ),
            "RoleBinding" => {
                let subject = &object["subjects"][0];
                assert_eq!(subject["namespace"], "ours", "{name}");
                assert_eq!(subject["name"], OPERATOR, "{name}");
                let role = object["roleRef"]["name"].as_str().unwrap();
                let namespace = namespace.unwrap();
                assert!(release.contains_key(&format!("Role {namespace}/{role}")));
                roles.push(format!("{namespace}/{role}"));
            }
            _ => {}
        }
    }
    roles.sort();
    let own = [
        "ours/cloud-server-operator-leader-election",
        "ours/cloud-server-operator-token-copies",
    ];
    let theirs = watched.iter().flat_map(|namespace| {
        ["", "-secret-writer"].map(|piece| format!("{namespace}/{OPERATOR}{piece}"))
    });
    let expected: Vec<String> = own
        .map(ToOwned::to_owned)
        .into_iter()
        .chain(theirs)
        .collect();
    assert_eq!(roles, expected);
    let rules = |name: &str| release[name]["rules"].clone();
    assert_eq!(
        rules("Role team-a/cloud-server-operator"),
        rules("Role team-b/cloud-server-operator")
    );
    let container = "/spec/template/spec/containers/0/env/0";
    let variable = release["Deployment ours/cloud-server-operator"].pointer(container);
    let expected = serde_json::json!({"name": "CSO_NAMESPACES", "value": "team-a,team-b"});
    assert_eq!(variable, Some(&expected));
}

#[test]
fn the_chart_has_the_version_of_the_program_and_of_the_image_in_deploy() {
    let version = env!("CARGO_PKG_VERSION");
    let read = |file: &str| -> Value {
        let text = std::fs::read_to_string(root().join(file)).unwrap();
        serde_saphyr::from_str(&text).unwrap()
    };
    let chart = read("deploy/chart/Chart.yaml");
    assert_eq!(
        (&chart["version"], &chart["appVersion"]),
        (&version.into(), &version.into())
    );
    let images = &read("deploy/operator/kustomization.yaml")["images"];
    assert_eq!(images[0]["newTag"], version);
}
