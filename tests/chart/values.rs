//! Helm's checks of the chart and of invalid values before an installation, and the notes that it prints for users.

use crate::{OPERATOR, OWN, chart, helm, refused, succeeded};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

#[test]
fn helm_lint_reports_nothing() {
    for values in [
        "replicas=2",
        r#"watchNamespaces=["team-a"]"#,
        "serviceMonitor.enabled=true",
        "prometheusRule.enabled=true",
        "dashboard.enabled=true",
    ] {
        let mut lint = helm();
        lint.args(["lint", "--strict", "--namespace", OWN, "--set-json", values]);
        let output = succeeded(&lint.arg(chart()).output().unwrap());
        assert!(output.contains("0 chart(s) failed"), "{output}");
        assert!(!output.contains("[WARNING]"), "{output}");
    }
}

/// The reason why helm refuses to render with this value.
fn why(value: &str) -> String {
    let mut template = helm();
    template.args(["template", OPERATOR]).arg(chart());
    template.args(["--namespace", OWN, "--set-json", value]);
    refused(&template.output().unwrap())
}

#[test]
fn a_value_that_cannot_be_right_is_refused_with_its_name() {
    for (value, words) in [
        ("replica=3", "'replica'"),
        ("secretWriter.enable=true", "'enable'"),
        (r#"proxy={"url":"http://proxy.example"}"#, "'proxy'"),
        (r#"replicas="two""#, "/replicas"),
        ("shards=0", "/shards"),
        ("shards=65", "/shards"),
        ("shards=4", "replicas=2 is less than shards=4"),
        (
            r#"extraEnv=[{"name":"CSO_SHARDS","value":"2"}]"#,
            "/extraEnv/0/name",
        ),
        (r#"extraArgs=["--shards=2"]"#, "/extraArgs/0"),
        (r#"watchNamespaces="team-a""#, "/watchNamespaces"),
        (r#"watchNamespaces=["Team A"]"#, "/watchNamespaces/0"),
        (r#"watchNamespaces=["a","a"]"#, "/watchNamespaces"),
        (r#"image.repository="""#, "/image/repository"),
        (r#"image.digest="1.2.3""#, "/image/digest"),
        (r#"image.pullPolicy="always""#, "/image/pullPolicy"),
        (
            r#"podLabels={"app.kubernetes.io/name":"mine"}"#,
            "invalid propertyName 'app.kubernetes.io/name'",
        ),
        (r#"extraArgs=["run"]"#, "/extraArgs/0"),
        (r#"extraArgs=["--namespace=team-a"]"#, "/extraArgs/0"),
        (r#"extraArgs=["--leader-elect=false"]"#, "/extraArgs/0"),
        (r#"extraArgs=["--listen=[::]:9090"]"#, "/extraArgs/0"),
        (
            r#"extraEnv=[{"name":"CSO_LEADER_ELECT","value":"false"}]"#,
            "/extraEnv/0/name",
        ),
        (
            r#"extraEnv=[{"name":"CSO_NAMESPACES","value":"a"}]"#,
            "/extraEnv/0/name",
        ),
        (
            r#"caBundle.systemDirectories="certs""#,
            "/caBundle/systemDirectories",
        ),
        ("networkPolicy.egressTo=[]", "/networkPolicy/egressTo"),
        (
            "networkPolicy.apiserverPorts=[0]",
            "/networkPolicy/apiserverPorts/0",
        ),
        (
            "networkPolicy.extraEgress=[{}]",
            "/networkPolicy/extraEgress/0",
        ),
        (
            r#"networkPolicy.extraEgress=[{"to":[]}]"#,
            "/networkPolicy/extraEgress/0/to",
        ),
        (
            r#"networkPolicy.extraEgress=[{"ports":[]}]"#,
            "/networkPolicy/extraEgress/0/ports",
        ),
        (
            r#"metrics.auth.tlsSecretName="""#,
            "/metrics/auth/tlsSecretName",
        ),
        (
            r#"serviceMonitor.endpoint={"port":"web"}"#,
            "/serviceMonitor/endpoint",
        ),
        (
            r#"prometheusRule.labels={"release":1}"#,
            "/prometheusRule/labels/release",
        ),
        (
            r#"prometheusRule.runbooks="docs/runbooks""#,
            "/prometheusRule/runbooks",
        ),
        (r#"dashboard.enabled="yes""#, "/dashboard/enabled"),
        (
            r#"watchNamespaces=["cloud-server-system"]"#,
            "the release's own namespace: install into another one",
        ),
    ] {
        let why = why(value);
        assert!(why.contains(words), "{value}: {why}");
    }
}

/// Every value with a default has a rule in the schema, and every rule has a default: both files contain the same values.
#[test]
fn the_schema_knows_each_value_and_no_other() {
    let read = |file: &str| fs::read_to_string(chart().join(file)).unwrap();
    let values: Value = serde_saphyr::from_str(&read("values.yaml")).unwrap();
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    assert_eq!(schema["additionalProperties"], false);
    let mut known = BTreeSet::new();
    paths_of_the_schema(&schema, &schema, "", &mut known);
    // Helm's own value, for which no chart has a default.
    assert!(known.remove("/global"));
    let mut given = BTreeSet::new();
    paths_of_the_values(&values, "", &known, &mut given);
    // No default has claims.
    assert!(known.remove("/resources/claims"));
    known.retain(|path| !path.starts_with("/serviceMonitor/endpoint/"));
    assert_eq!(given, known);
    let page = fs::read_to_string(crate::root().join("docs/operations/install.md")).unwrap();
    for path in &known {
        let name = path.trim_start_matches('/').replace('/', ".");
        let inner = known
            .iter()
            .any(|other| other.starts_with(&format!("{path}/")));
        assert!(
            inner || name.starts_with("resources.") || page.contains(&format!("`{name}`")),
            "docs/operations/install.md does not describe {name}"
        );
    }
}

fn paths_of_the_schema(root: &Value, schema: &Value, at: &str, found: &mut BTreeSet<String>) {
    let schema = match schema["$ref"].as_str() {
        Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{at}/{name}");
        paths_of_the_schema(root, inner, &path, found);
        found.insert(path);
    }
}

/// Descends as deep as the schema names fields.
fn paths_of_the_values(
    values: &Value,
    at: &str,
    known: &BTreeSet<String>,
    found: &mut BTreeSet<String>,
) {
    for (name, inner) in values.as_object().into_iter().flatten() {
        let path = format!("{at}/{name}");
        if at.is_empty() || known.iter().any(|one| one.starts_with(&format!("{at}/"))) {
            paths_of_the_values(inner, &path, known, found);
            found.insert(path);
        }
    }
}

/// The notes that helm prints for an installation with these values.
fn notes(values: &[&str]) -> String {
    let mut install = helm();
    install.args(["install", OPERATOR]).arg(chart());
    install.args(["--namespace", OWN, "--dry-run=client"]);
    for value in values {
        install.args(["--set-json", value]);
    }
    let output = succeeded(&install.output().unwrap());
    output.split_once("NOTES:\n").unwrap().1.to_owned()
}

#[test]
fn the_install_notes_name_the_next_steps_and_the_effects_of_uninstalling() {
    let text = notes(&[]);
    for words in [
        "It serves the Instances of all namespaces.",
        "rollout status deployment/cloud-server-operator",
        "No image is published",
        "pod-security.kubernetes.io/enforce=restricted",
        "need secretWriter.enabled=true",
        "Definitions, Accounts and Instances stay, and so do the servers",
        "delete the Instances first",
        "set spec.deletionPolicy of the Instances to Retain",
        "Do not delete namespace cloud-server-system while there are Instances",
        "uninstall it as the last one",
    ] {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
    let text = notes(&[
        r#"image.repository="registry.example/cso""#,
        r#"watchNamespaces=["team-a","team-b"]"#,
        "secretWriter.enabled=true",
        "shared.install=false",
    ]);
    assert!(text.contains("the Instances of team-a, team-b."), "{text}");
    assert!(
        text.contains("Another release has to hold the policies"),
        "{text}"
    );
    for words in ["No image is published", "secretWriter", "as the last one"] {
        assert!(!text.contains(words), "{words:?} is in\n{text}");
    }
}
