//! Each value changes only the fields that it documents: its effect on the default objects is a JSON patch, and the test lists
//! each operation of that patch.

use crate::rendered::{LABELS_OF_HELM, Objects, helm_with, kustomize};
use crate::{OWN, root};
use serde_json::{Value, json};
use std::sync::LazyLock;

const DEPLOYMENT: &str = "Deployment cloud-server-system/cloud-server-operator";

/// The difference that the values make, as operations of a JSON patch on all objects by their names. Both sides are rendered
/// without the definitions, which take nine tenths of the time to read.
fn changes(values: &[&str]) -> Vec<Value> {
    const SHORT: &str = "crds.install=false";
    static DEFAULTS: LazyLock<Objects> = LazyLock::new(|| helm_with(&[SHORT]));
    let values = [&[SHORT], values].concat();
    difference(&DEFAULTS, &helm_with(&values))
}

fn difference(from: &Objects, to: &Objects) -> Vec<Value> {
    let all = |objects: &Objects| serde_json::to_value(objects).unwrap();
    let patch = json_patch::diff(&all(from), &all(to));
    let Value::Array(operations) = serde_json::to_value(patch).unwrap() else {
        panic!("a patch is a list");
    };
    operations
}

/// The path of an object's field in such a patch.
fn at(object: &str, field: &str) -> String {
    format!("/{}{field}", object.replace('/', "~1"))
}

fn pod(field: &str) -> String {
    at(DEPLOYMENT, &format!("/spec/template{field}"))
}

fn added(path: String, value: Value) -> Value {
    operation("add", path, value)
}

fn replaced(path: String, value: Value) -> Value {
    operation("replace", path, value)
}

fn operation(name: &str, path: String, value: Value) -> Value {
    let fields = [("op", name.into()), ("path", path.into()), ("value", value)];
    Value::from_iter(fields)
}

fn removed(object: &str) -> Value {
    json!({"op": "remove", "path": at(object, "")})
}

#[test]
fn values_of_the_pod_change_only_the_pod() {
    let container = |field: &str| pod(&format!("/spec/containers/0{field}"));
    let spread = json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}]);
    let toleration = json!([{"key": "spot", "operator": "Exists"}]);
    for (values, expected) in [
        (
            vec![r#"image={"repository":"registry.example/cso","tag":"1.2.3"}"#.to_owned()],
            replaced(container("/image"), json!("registry.example/cso:1.2.3")),
        ),
        (
            vec![format!(r#"image.digest="sha256:{}""#, "a".repeat(64))],
            replaced(
                container("/image"),
                json!(format!("cloud-server-operator@sha256:{}", "a".repeat(64))),
            ),
        ),
        (
            vec![r#"image.pullPolicy="Always""#.to_owned()],
            added(container("/imagePullPolicy"), json!("Always")),
        ),
        (
            vec![r#"imagePullSecrets=[{"name":"pull"}]"#.to_owned()],
            added(pod("/spec/imagePullSecrets"), json!([{"name": "pull"}])),
        ),
        (
            vec![r#"podLabels={"team":"a"}"#.to_owned()],
            added(pod("/metadata/labels/team"), json!("a")),
        ),
        (
            vec![r#"podAnnotations={"note":"1"}"#.to_owned()],
            added(pod("/metadata/annotations"), json!({"note": "1"})),
        ),
        (
            vec![r#"priorityClassName="system-cluster-critical""#.to_owned()],
            added(
                pod("/spec/priorityClassName"),
                json!("system-cluster-critical"),
            ),
        ),
        (
            vec![r#"nodeSelector={"disk":"ssd"}"#.to_owned()],
            added(pod("/spec/nodeSelector"), json!({"disk": "ssd"})),
        ),
        (
            vec![format!("tolerations={toleration}")],
            added(pod("/spec/tolerations"), toleration),
        ),
        (
            vec![format!("topologySpreadConstraints={spread}")],
            added(pod("/spec/topologySpreadConstraints"), spread),
        ),
        (
            vec![r#"resources.limits.memory="256Mi""#.to_owned()],
            replaced(container("/resources/limits/memory"), json!("256Mi")),
        ),
        (
            vec![r#"extraArgs=["--concurrency=8"]"#.to_owned()],
            added(container("/args/1"), json!("--concurrency=8")),
        ),
        (
            vec![r#"extraEnv=[{"name":"RUST_LOG","value":"debug"}]"#.to_owned()],
            added(
                container("/env/3"),
                json!({"name": "RUST_LOG", "value": "debug"}),
            ),
        ),
        (
            vec!["affinity=null".to_owned()],
            json!({"op": "remove", "path": pod("/spec/affinity")}),
        ),
        (
            vec!["replicas=3".to_owned()],
            replaced(at(DEPLOYMENT, "/spec/replicas"), json!(3)),
        ),
    ] {
        let given: Vec<&str> = values.iter().map(String::as_str).collect();
        assert_eq!(changes(&given), [expected], "{values:?}");
    }
}

#[test]
fn a_ca_bundle_is_mounted_and_named_next_to_the_authorities_of_the_image() {
    let container = |field: &str| pod(&format!("/spec/containers/0{field}"));
    let mount = json!({"name": "ca-bundle", "mountPath": "/etc/cloud-server-operator/ca", "readOnly": true});
    let volume = json!({"name": "ca-bundle", "configMap": {"name": "our-authorities"}});
    let directories = "/etc/ssl/certs:/etc/cloud-server-operator/ca";
    let mut found = changes(&[r#"caBundle.configMapName="our-authorities""#]);
    found.sort_by_key(|operation| operation["path"].to_string());
    let expected = [
        added(
            container("/env/3"),
            json!({"name": "SSL_CERT_DIR", "value": directories}),
        ),
        added(container("/volumeMounts/1"), mount.clone()),
        added(pod("/spec/volumes/1"), volume.clone()),
    ];
    assert_eq!(found, expected);
    // Together with the certificate for metrics, which is a volume, too.
    let both = helm_with(&[
        r#"caBundle.configMapName="our-authorities""#,
        "metrics.auth.enabled=true",
    ]);
    let spec = &both[DEPLOYMENT]["spec"]["template"]["spec"];
    assert_eq!(spec["volumes"][2], volume);
    assert_eq!(spec["containers"][0]["volumeMounts"][2], mount);
    assert_eq!(spec["volumes"][0]["name"], "metrics-tls");
}

#[test]
fn a_switch_removes_its_own_objects_only() {
    let without = helm_with(&["crds.install=false"]);
    let definitions = [
        "CustomResourceDefinition accounts.cloudserver.dev",
        "CustomResourceDefinition instances.cloudserver.dev",
    ];
    assert_eq!(
        difference(&helm_with(&[]), &without),
        definitions.map(removed)
    );
    for (value, gone) in [
        (
            "networkPolicy.enabled=false",
            vec!["NetworkPolicy cloud-server-system/cloud-server-operator"],
        ),
        (
            "podDisruptionBudget.enabled=false",
            vec!["PodDisruptionBudget cloud-server-system/cloud-server-operator"],
        ),
        (
            "shared.install=false",
            vec![
                "ClusterRole cloud-server-operator-identity",
                "ClusterRole cloudserver-admin",
                "ClusterRole cloudserver-edit",
                "ClusterRole cloudserver-view",
                "ValidatingAdmissionPolicy cloud-server-operator-secrets",
                "ValidatingAdmissionPolicy cloudserver-deletion-protection",
                "ValidatingAdmissionPolicyBinding cloud-server-operator-secrets",
                "ValidatingAdmissionPolicyBinding cloudserver-deletion-protection",
            ],
        ),
    ] {
        let expected: Vec<Value> = gone.iter().map(|name| removed(name)).collect();
        assert_eq!(changes(&[value]), expected, "{value}");
    }
    let reader = "ClusterRole cloud-server-operator-metrics-reader";
    let first = helm_with(&["crds.install=false", "metrics.auth.enabled=true"]);
    let mut second = helm_with(&[
        "crds.install=false",
        "metrics.auth.enabled=true",
        "metrics.auth.createReaderRole=false",
    ]);
    second.insert(reader.to_owned(), first[reader].clone());
    assert_eq!(first, second);
}

#[test]
fn two_releases_have_no_object_in_common_if_one_of_them_shares() {
    let first = crate::rendered::helm_in(
        "ours-a",
        &[
            r#"watchNamespaces=["team-a"]"#,
            "metrics.auth.enabled=true",
            "secretWriter.enabled=true",
        ],
    );
    let second = crate::rendered::helm_in(
        "ours-b",
        &[
            r#"watchNamespaces=["team-b"]"#,
            "metrics.auth.enabled=true",
            "metrics.auth.createReaderRole=false",
            "secretWriter.enabled=true",
            "crds.install=false",
            "shared.install=false",
        ],
    );
    let common: Vec<_> = first
        .keys()
        .filter(|name| second.contains_key(*name))
        .collect();
    assert_eq!(common, [""; 0]);
}

#[test]
fn a_service_monitor_asks_each_replica_at_the_port_that_metrics_have() {
    let service = format!("Service {OWN}/cloud-server-operator-metrics");
    let monitor = format!("ServiceMonitor {OWN}/cloud-server-operator");
    let plain = ["serviceMonitor.enabled=true"];
    let found = changes(&plain);
    let paths: Vec<_> = found.iter().map(|one| (&one["op"], &one["path"])).collect();
    let (one, other) = (json!(at(&service, "")), json!(at(&monitor, "")));
    let add = json!("add");
    assert_eq!(paths, [(&add, &one), (&add, &other)]);

    let tls = [
        "serviceMonitor.enabled=true",
        "metrics.auth.enabled=true",
        r#"serviceMonitor.interval="30s""#,
        r#"serviceMonitor.labels={"release":"prometheus"}"#,
        r#"serviceMonitor.endpoint={"tlsConfig":{"insecureSkipVerify":true}}"#,
    ];
    for (values, name, number, endpoint) in [
        (&plain[..], "metrics", 8080, json!({"port": "metrics"})),
        (
            &tls,
            "metrics-tls",
            8443,
            json!({"port": "metrics-tls", "scheme": "https", "interval": "30s", "tlsConfig": {"insecureSkipVerify": true}}),
        ),
    ] {
        let objects = helm_with(values);
        let port = json!({"name": name, "port": number, "targetPort": name});
        assert_eq!(objects[&service]["spec"]["ports"], json!([port]));
        let ports = &objects[DEPLOYMENT]["spec"]["template"]["spec"]["containers"][0]["ports"];
        let listens = ports.as_array().unwrap().iter();
        let listens = listens.filter(|one| one["name"] == name && one["containerPort"] == number);
        assert_eq!(listens.count(), 1, "{ports}");
        let spec = &objects[&monitor]["spec"];
        assert_eq!(spec["endpoints"], json!([endpoint]));
        // The ServiceMonitor selects the Service, and the Service selects the Pods.
        let (labels, pods) = (
            &objects[&service]["metadata"]["labels"],
            &objects[DEPLOYMENT]["spec"]["template"]["metadata"]["labels"],
        );
        for (selector, labels) in [
            (&spec["selector"]["matchLabels"], labels),
            (&objects[&service]["spec"]["selector"], pods),
        ] {
            let selector = selector.as_object().unwrap();
            assert!(!selector.is_empty());
            for (key, value) in selector {
                assert_eq!(&labels[key], value);
            }
        }
    }
    let labelled = &helm_with(&tls)[&monitor]["metadata"]["labels"];
    assert_eq!(labelled["release"], "prometheus");
}

#[test]
fn each_alert_links_its_page_of_the_runbooks() {
    let rule = format!("PrometheusRule {OWN}/cloud-server-operator");
    let values = [
        "crds.install=false",
        "prometheusRule.enabled=true",
        r#"prometheusRule.runbooks="https://docs.example/runbooks""#,
    ];
    let made = &helm_with(&values)[&rule];
    let groups = made["spec"]["groups"].as_array().unwrap();
    let rules = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap());
    let alerts: Vec<&Value> = rules.filter(|rule| rule["alert"].is_string()).collect();
    assert!(alerts.len() > 10, "{}", alerts.len());
    for alert in alerts {
        let name = alert["alert"].as_str().unwrap();
        let expected = format!("https://docs.example/runbooks/{name}.html");
        assert_eq!(alert["annotations"]["runbook_url"], expected, "{name}");
        assert_eq!(alert["annotations"]["runbook"], Value::Null, "{name}");
    }
}

#[test]
fn alerts_and_dashboard_are_those_of_deploy_with_the_configured_labels() {
    let deployed = kustomize(&root().join("deploy/observability"));
    let rule = format!("PrometheusRule {OWN}/cloud-server-operator");
    let dashboard = format!("ConfigMap {OWN}/cloud-server-operator-dashboard");
    for (name, content, value, own) in [
        (
            &rule,
            "spec",
            "prometheusRule",
            r#"{"release":"prometheus"}"#,
        ),
        // The label of the default can be removed.
        (
            &dashboard,
            "data",
            "dashboard",
            r#"{"release":"prometheus","grafana_dashboard":null}"#,
        ),
    ] {
        let switch = format!("{value}.enabled=true");
        // Nothing else is added; by default, not even this object.
        let found = changes(&[&switch]);
        let [addition] = found.as_slice() else {
            panic!("{value}: {found:?}");
        };
        assert_eq!(addition["op"], "add", "{value}");
        assert_eq!(addition["path"], at(name, ""), "{value}");
        let made = &addition["value"];
        let shipped = &deployed[name];
        assert_eq!(made["apiVersion"], shipped["apiVersion"], "{value}");
        assert!(shipped[content].is_object(), "{value}: {shipped}");
        assert_eq!(made[content], shipped[content], "{value}");

        let mut labels = made["metadata"]["labels"].clone();
        let all = labels.as_object_mut().unwrap();
        for label in LABELS_OF_HELM {
            assert!(all.remove(label).is_some(), "{value} lacks {label}");
        }
        // The ConfigMap of kustomize has only the sidecar's label.
        let mut expected = shipped["metadata"]["labels"].clone();
        expected["app.kubernetes.io/name"] = json!("cloud-server-operator");
        assert_eq!(labels, expected, "{value}");

        let own = format!("{value}.labels={own}");
        let labelled = &helm_with(&["crds.install=false", &switch, &own])[name];
        let labelled = labelled["metadata"]["labels"].as_object().unwrap();
        assert_eq!(labelled["release"], "prometheus");
        assert!(
            !labelled.contains_key("grafana_dashboard"),
            "{value}: {labelled:?}"
        );
    }
}

/// The Role names the Lease of each shard, and that of an operator without shards: its Pods renew it until they end.
#[test]
fn shards_are_served_by_a_stateful_set_and_the_role_names_their_leases() {
    let role = "Role cloud-server-system/cloud-server-operator-leader-election";
    let rendered = |values: &[&str]| {
        let objects = helm_with(&[&["crds.install=false"], values].concat());
        serde_json::to_value(objects).unwrap()
    };
    let named = |values: &[&str]| rendered(values)[role]["rules"][1]["resourceNames"].clone();
    let [own, zero, one] =
        ["", "-0-of-2", "-1-of-2"].map(|end| format!("cloud-server-operator{end}"));
    for values in [
        &["shards=2"][..],
        &["formerShards=2"],
        &["formerShards=2", "shards=2"],
    ] {
        assert_eq!(named(values), json!([own, zero, one]), "{values:?}");
    }
    let (whole, sharded) = (rendered(&[]), rendered(&["shards=2", "replicas=4"]));
    let stateful = "StatefulSet cloud-server-system/cloud-server-operator";
    assert!(sharded.get(DEPLOYMENT).is_none() && whole.get(stateful).is_none());
    let (deployment, set) = (&whole[DEPLOYMENT]["spec"], &sharded[stateful]["spec"]);
    assert_eq!(set["replicas"], json!(4));
    // A new process may wait for the old ones: its Pod must not keep the others from starting.
    assert_eq!(set["podManagementPolicy"], json!("Parallel"));
    let mut pod = set["template"].clone();
    let env = &mut pod["spec"]["containers"][0]["env"];
    let shards = env.as_array_mut().unwrap().remove(0);
    assert_eq!(shards, json!({"name": "CSO_SHARDS", "value": "2"}));
    assert_eq!(pod, deployment["template"]);
    assert_eq!(set["selector"], deployment["selector"]);
}
