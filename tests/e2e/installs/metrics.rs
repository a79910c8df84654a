//! Metrics that only authorized users can read (`deploy/metrics-auth`), with each form of installation.

use super::may;
use crate::support::{Manifests, Setup, World, eventually, kubectl_of, own};
use serde_json::Value;

const OPERATOR: &str = "cloud-server-operator";

/// A form of installation: the folder of its kustomization, and the names of its namespace and ServiceAccount.
struct Form {
    folder: &'static str,
    own: &'static str,
    account: &'static str,
}

const FORMS: [Form; 5] = [
    Form {
        folder: "everywhere",
        own: "cloud-server-system",
        account: OPERATOR,
    },
    Form {
        folder: "deploy/namespaced",
        own: "metrics-a",
        account: OPERATOR,
    },
    Form {
        folder: "one-namespace",
        own: "metrics-b",
        account: OPERATOR,
    },
    Form {
        folder: "over-namespaced",
        own: "metrics-c",
        account: OPERATOR,
    },
    Form {
        folder: "renamed",
        own: "metrics-d",
        account: "mine-cloud-server-operator",
    },
];

/// The manifests of all forms. Those for one namespace use the world's.
fn manifests(watched: &str) -> Manifests {
    let manifests = Manifests::for_one_namespace(watched, "metrics-a");
    let names = "deploy/namespaced/names.yaml";
    for (folder, own) in [("one-namespace", "metrics-b"), ("c", "metrics-c")] {
        manifests.kustomization(folder, "");
        std::fs::copy(
            manifests.path(names),
            manifests.path(folder).join("names.yaml"),
        )
        .unwrap();
        manifests.edit(&format!("{folder}/names.yaml"), &[("metrics-a", own)]);
    }
    let for_one = "resources: [names.yaml]\ncomponents: [../deploy/one-namespace";
    let with = "components: [../deploy/metrics-auth]\n";
    for (folder, text) in [
        ("everywhere", format!("resources: [../deploy]\n{with}")),
        (
            "one-namespace",
            format!("{for_one}, ../deploy/metrics-auth]\n"),
        ),
        ("c", format!("{for_one}]\n")),
        ("over-namespaced", format!("resources: [../c]\n{with}")),
        (
            "renamed",
            format!(
                "namePrefix: mine-\nnamespace: metrics-d\nresources: [../deploy, ../deploy/secret-writer]\n{with}"
            ),
        ),
    ] {
        manifests.kustomization(folder, &text);
    }
    let line = "#- ../metrics-auth";
    manifests.edit(
        "deploy/namespaced/kustomization.yaml",
        &[(line, "- ../metrics-auth")],
    );
    manifests
}

async fn rendered(world: &World, manifests: &Manifests, folder: &str) -> Vec<Value> {
    let folder = manifests.path(folder);
    let render = ["kustomize", folder.to_str().unwrap()];
    let output = kubectl_of(&world.shared.cluster, &render, "").await;
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{why}");
    serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap()
}

/// The identity of an object: kind, namespace (empty for cluster-scoped objects), name.
fn identity(object: &Value) -> [&str; 3] {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str);
    [
        text("/kind").unwrap(),
        text("/metadata/namespace").unwrap_or_default(),
        text("/metadata/name").unwrap(),
    ]
}

/// Asserts that every name in it belongs to one of its objects, or to an object that every cluster has.
fn refer_to_one_another(form: &Form, watched: &str, objects: &[Value]) {
    let Form {
        folder,
        own,
        account,
    } = form;
    let all: Vec<[&str; 3]> = objects.iter().map(identity).collect();
    let is_there = |expected: [&str; 3]| assert!(all.contains(&expected), "{folder}: {expected:?}");
    is_there(["ServiceAccount", own, account]);
    is_there(["Namespace", "", own]);
    is_there(["Deployment", own, account]);
    for object in objects {
        let [kind, namespace, name] = identity(object);
        assert!(
            ["", own, watched].contains(&namespace),
            "{folder}: {namespace}/{name}"
        );
        let text = object.to_string();
        assert!(
            !text.contains("the-namespace-that-is-watched"),
            "{folder}: {name}"
        );
        if !kind.ends_with("RoleBinding") {
            continue;
        }
        let subject = &object["subjects"][0];
        assert_eq!(
            (&subject["namespace"], &subject["name"]),
            (&Value::from(*own), &Value::from(*account)),
            "{folder}: {name}"
        );
        let role = object["roleRef"]["name"].as_str().unwrap();
        match object["roleRef"]["kind"].as_str().unwrap() {
            "ClusterRole" if role == "system:auth-delegator" => {}
            "ClusterRole" => is_there(["ClusterRole", "", role]),
            _ => is_there(["Role", namespace, role]),
        }
    }
    let kinds = |kind: &'static str| objects.iter().filter(move |one| one["kind"] == kind);
    let flows = kinds("FlowSchema").map(|one| &one["spec"]["rules"][0]["subjects"][0]);
    for flow in flows {
        assert_eq!(flow["serviceAccount"]["namespace"], **own, "{folder}");
    }
    let records = kinds("ClusterRoleBinding");
    let delegates = records.filter(|one| one["roleRef"]["name"] == "system:auth-delegator");
    assert_eq!(delegates.count(), 1, "{folder}");
    let deployments: Vec<_> = kinds("Deployment").collect();
    let [deployment] = deployments[..] else {
        panic!("{folder}: {} Deployments", deployments.len());
    };
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], **account, "{folder}");
    let container = &pod["containers"][0];
    let listed = |field: &Value| -> Vec<String> {
        let named = field.as_array().unwrap().iter();
        named
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let environment = listed(&container["env"]);
    for name in ["CSO_METRICS_AUTH", "CSO_METRICS_LISTEN", "POD_NAMESPACE"] {
        assert!(
            environment.iter().any(|one| one == name),
            "{folder}: {name}"
        );
    }
    assert_eq!(listed(&container["ports"]), ["metrics-tls", "metrics"]);
    assert_eq!(listed(&container["volumeMounts"]), listed(&pod["volumes"]));
}

/// Asserts that cluster-scoped objects are either the same in both or have different names.
fn stand_side_by_side(one: &[Value], other: &[Value]) {
    for object in one {
        let theirs = other
            .iter()
            .find(|theirs| identity(theirs) == identity(object));
        let is_same = theirs.is_none_or(|theirs| theirs == object);
        assert!(is_same, "{:?} is overwritten", identity(object));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn protected_metrics_work_with_every_form_of_installation() {
    let setup = Setup::default().cluster(own().await).bare();
    let world = setup.without_operator().begin("metrics-forms").await;
    let manifests = manifests(&world.namespace);
    let mut all = Vec::new();
    for form in &FORMS {
        let objects = rendered(&world, &manifests, form.folder).await;
        refer_to_one_another(form, &world.namespace, &objects);
        all.push((form, objects));
    }
    let for_one: Vec<_> = all
        .iter()
        .filter(|(form, _)| form.account == OPERATOR)
        .collect();
    for (form, objects) in &for_one {
        for (other, theirs) in &for_one {
            // All of them watch the same namespace here, unlike real teams, so their Roles in it are excluded.
            let apart = |objects: &[Value]| -> Vec<Value> {
                let outside = |one: &&Value| identity(one)[1] != world.namespace;
                objects.iter().filter(outside).cloned().collect()
            };
            if form.own != other.own {
                stand_side_by_side(&apart(objects), &apart(theirs));
            }
        }
    }
    // One after the other, and then all of them together.
    let cluster = &world.shared.cluster;
    for form in &FORMS {
        manifests.apply(cluster, form.folder).await;
    }
    for form in &FORMS {
        let user = format!("system:serviceaccount:{}:{}", form.own, form.account);
        for review in [
            "tokenreviews.authentication.k8s.io",
            "subjectaccessreviews.authorization.k8s.io",
        ] {
            let what = format!("{} may create {review}", form.folder);
            eventually(&what, async || {
                match may(&world, &user, &["create", review]).await {
                    true => Ok(()),
                    false => Err("no".to_owned()),
                }
            })
            .await;
        }
    }
    // As described in docs/operations/monitoring.md.
    let bind = [
        "create",
        "clusterrolebinding",
        "cloud-server-operator-metrics",
        "--clusterrole=cloud-server-operator-metrics-reader",
        "--serviceaccount=monitoring:prometheus",
    ];
    world.run(&bind, "").await;
    eventually("Prometheus may read metrics", async || {
        let user = "system:serviceaccount:monitoring:prometheus";
        match may(&world, user, &["get", "/metrics"]).await {
            true => Ok(()),
            false => Err("no".to_owned()),
        }
    })
    .await;
    world.finish().await;
}
