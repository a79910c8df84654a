//! Tools for people who run the service: the metrics of a running operator, the commands of the runbooks, the objects for the
//! Prometheus Operator.

mod prometheus;
#[path = "../observability/promtool.rs"]
mod promtool;

use crate::support::{Setup, eventually, instance, kubectl};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn path(inside: &str) -> PathBuf {
    Path::new(ROOT).join(inside)
}

/// Metrics that a healthy control plane does not produce.
const UNSEEN: [&str; 1] = ["cloud_server_operator_watch_errors_total"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scrape_of_a_running_operator_is_whole_and_prometheus_takes_it() {
    let mut world = Setup::default().begin("observed").await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    // An edit, whose metric does not depend on when the process's term began.
    let mut stopped = instance("web");
    stopped["spec"]["powerState"] = json!("Stopped");
    world.apply(&stopped).await;
    let lines = [
        "cloud_server_operator_instances{shard=\"0-of-1\",state=\"ready\",reason=\"Available\"} 1",
        "cloud_server_operator_accounts{shard=\"0-of-1\",state=\"ready\",reason=\"Available\"} 1",
        "cloud_server_operator_operations_in_progress{shard=\"0-of-1\",verb=\"create\"} 0",
        "cloud_server_operator_servers_unowned{shard=\"0-of-1\"} 0",
        "cloud_server_operator_operation_duration_seconds_count{verb=\"stop\",outcome=\"succeeded\"} 1",
        "cloud_server_operator_rate_limiter_wait_seconds_count{priority=\"urgent\"}",
        "controller_runtime_reconcile_total{controller=\"instance\",result=\"error\"} 0",
    ];
    let operator = world.operator();
    let text = eventually("the scrape shows all of it", async || {
        let (_, text) = operator.metrics().await;
        let missing = lines.iter().find(|line| !text.contains(**line));
        missing.map_or(Ok(text.clone()), |line| Err(format!("{line} in {text}")))
    })
    .await;
    let page = fs::read_to_string(path("docs/operations/metrics.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let metrics: Vec<(&str, &str)> = rows
        .map(|row| {
            let (name, rest) = row.split_once("` | ").unwrap();
            (name, rest.split(' ').next().unwrap())
        })
        .collect();
    assert!(metrics.len() > 20, "{metrics:?}");
    let unseen = metrics.into_iter().filter(|(name, kind)| {
        let family = name.strip_suffix("_total").unwrap_or(name);
        !text.contains(&format!("# TYPE {family} {kind}\n"))
    });
    let unseen: Vec<&str> = unseen.map(|(name, _)| name).collect();
    assert!(
        unseen.iter().all(|name| UNSEEN.contains(name)),
        "no code sets {unseen:?}: {text}"
    );
    let output = promtool::run(&["check", "metrics"], &older_form(&text));
    assert_eq!(output, "", "{text}");
    world.finish().await;
}

/// Converts OpenMetrics to the format that `promtool check metrics` reads, in which the description of a counter uses its whole
/// name.
fn older_form(text: &str) -> String {
    let counters: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let whole = |line: &str| {
        let mut words = line.splitn(4, ' ');
        let (Some("#"), Some(what @ ("TYPE" | "HELP")), Some(name), rest) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return format!("{line}\n");
        };
        let end = if counters.contains(&name) {
            "_total"
        } else {
            ""
        };
        format!("# {what} {name}{end} {}\n", rest.unwrap_or_default())
    };
    let lines = text.lines().filter(|line| *line != "# EOF");
    lines.map(whole).collect()
}

/// The commands of all runbooks, except those that need Pods or the Lease of an installation.
fn commands() -> Vec<String> {
    let mut commands = Vec::new();
    for page in fs::read_dir(path("docs/runbooks")).unwrap() {
        let text = fs::read_to_string(page.unwrap().path()).unwrap();
        let of_page = text
            .lines()
            .filter_map(|line| line.strip_prefix("$ kubectl "));
        let needs_pods = [
            " pods",
            " logs ",
            " lease ",
            " deployment ",
            "/proxy/",
            "cloudserver ",
        ];
        let of_page = of_page.filter(|line| {
            let line = format!(" {line}");
            !needs_pods.iter().any(|what| line.contains(what))
        });
        commands.extend(of_page.map(ToOwned::to_owned));
    }
    commands.sort();
    commands.dedup();
    commands
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_the_runbooks_work() {
    let world = Setup::default().begin("runbooks").await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    let commands = commands();
    assert!(commands.len() >= 15, "{commands:#?}");
    for command in commands {
        let typed = command
            .replace("NAMESPACE", &world.namespace)
            .replace("instance NAME", "instance web")
            .replace("account ACCOUNT", "account default")
            // The columns of a table have names in capitals, too.
            .replace(
                &format!("{}:.metadata.namespace", world.namespace),
                "NAMESPACE:.metadata.namespace",
            );
        let words: Vec<&str> = typed.split(' ').collect();
        let output = kubectl(&words, "").await;
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        // For a question about permissions, both answers are valid.
        let is_no = command.starts_with("auth can-i") && text.trim() == "no";
        assert!(output.status.success() || is_no, "{command}: {text}");
        for field in columns(&command) {
            let output = kubectl(&["explain", &field], "").await;
            assert!(output.status.success(), "{command}: no field {field}");
        }
    }
    world.finish().await;
}

/// The fields that a command shows as columns: kubectl shows a missing field as empty, without an error.
fn columns(command: &str) -> Vec<String> {
    let Some((before, columns)) = command.split_once("custom-columns=") else {
        return Vec::new();
    };
    let kind = if before.contains("instances") {
        "instance"
    } else {
        "account"
    };
    let fields = columns
        .split(',')
        .map(|column| column.split(':').nth(1).unwrap());
    fields.map(|field| format!("{kind}{field}")).collect()
}

#[tokio::test]
async fn the_pieces_for_the_prometheus_operator_are_rendered_from_one_source() {
    let folder = path("deploy/observability");
    let output = kubectl(&["kustomize", folder.to_str().unwrap()], "").await;
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{why}");
    let text = String::from_utf8(output.stdout).unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let read = |inside: &str| -> Vec<Value> {
        serde_saphyr::from_multiple(&fs::read_to_string(path(inside)).unwrap()).unwrap()
    };
    let of = |kind: &str| {
        objects
            .iter()
            .find(|object| object["kind"] == kind)
            .unwrap()
    };
    assert_eq!(objects.len(), 3, "{text}");
    for object in &objects {
        assert_eq!(object["metadata"]["namespace"], "cloud-server-system");
    }
    let rules = &read("deploy/observability/rules.yaml")[0]["groups"];
    assert_eq!(of("PrometheusRule")["spec"]["groups"], *rules);
    let dashboard = of("ConfigMap")["data"]["dashboard.json"].as_str();
    let file = fs::read_to_string(path("deploy/observability/dashboard.json")).unwrap();
    assert_eq!(dashboard, Some(file.as_str()));
    // The PodMonitor scrapes the port that deploy/ defines.
    let deployment = &read("deploy/operator/deployment.yaml")[0]["spec"]["template"];
    let monitor = &of("PodMonitor")["spec"];
    assert_eq!(
        monitor["selector"]["matchLabels"],
        deployment["metadata"]["labels"]
    );
    let ports = deployment["spec"]["containers"][0]["ports"]
        .as_array()
        .unwrap();
    let scraped = &monitor["podMetricsEndpoints"][0]["port"];
    assert!(
        ports.iter().any(|port| port["name"] == *scraped),
        "{ports:?}"
    );
}
