//! Dashboard, rules and runbooks refer to existing metrics, and to each other correctly. Prometheus' promtool checks the files;
//! `make test` builds it once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a panic is how a test fails"
)]

#[path = "observability/promql.rs"]
mod promql;
#[path = "observability/promtool.rs"]
mod promtool;

use promql::Expression;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn root() -> &'static Path {
    Path::new(ROOT)
}

fn read(path: &str) -> String {
    let text = fs::read_to_string(root().join(path));
    text.unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&read(path)).unwrap()
}

const RULES: &str = "deploy/observability/rules.yaml";
const RULE_TESTS: &str = "tests/observability/rules_test.yaml";
const RUNBOOKS: &str = "docs/runbooks";

fn rules() -> Vec<Value> {
    let groups = yaml(RULES)["groups"].as_array().unwrap().clone();
    let rules = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap());
    rules.cloned().collect()
}

fn alerts() -> BTreeMap<String, Value> {
    let alerts = rules().into_iter().filter_map(|rule| {
        let name = rule["alert"].as_str()?.to_owned();
        Some((name, rule))
    });
    alerts.collect()
}

/// Every query of the dashboard, with the title of its panel.
fn queries() -> Vec<(String, String)> {
    let dashboard: Value =
        serde_json::from_str(&read("deploy/observability/dashboard.json")).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        for target in panel["targets"].as_array().into_iter().flatten() {
            queries.push((
                title.to_owned(),
                target["expr"].as_str().unwrap().to_owned(),
            ));
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if let Some(query) = variable["query"]["query"].as_str() {
            // label_values(METRIC, LABEL)
            let metric = query.split(['(', ',']).nth(1).unwrap();
            queries.push((query.to_owned(), metric.to_owned()));
        }
    }
    queries
}

/// The rows of the reference of metrics: name, type and labels.
fn metrics() -> Vec<(String, String, BTreeSet<String>)> {
    let page = read("docs/operations/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let metrics: Vec<_> = rows
        .map(|row| {
            let mut cells = row.split(" | ").map(|cell| cell.trim_matches(['`', ' ']));
            let (name, kind) = (cells.next().unwrap(), cells.next().unwrap());
            let labels = cells.next().unwrap().split("`, `");
            let labels = labels.filter(|label| !label.is_empty());
            let labels = labels.map(ToOwned::to_owned).collect();
            (name.to_owned(), kind.to_owned(), labels)
        })
        .collect();
    assert!(metrics.len() > 20, "{metrics:?}");
    metrics
}

/// The series of a scrape with their labels, without the labels that Prometheus adds.
fn series() -> BTreeMap<String, BTreeSet<String>> {
    let mut series = BTreeMap::new();
    for (name, kind, mut labels) in metrics() {
        if kind == "histogram" {
            for end in ["_sum", "_count"] {
                series.insert(format!("{name}{end}"), labels.clone());
            }
            labels.insert("le".to_owned());
            series.insert(format!("{name}_bucket"), labels);
        } else {
            series.insert(name, labels);
        }
    }
    series
}

/// The unknown parts of an expression: metrics, and labels in selectors that the metric does not have.
fn unknown(expression: &str, series: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut unknown = Vec::new();
    for selector in Expression::new(expression).selectors() {
        let Some(labels) = series.get(&selector.metric) else {
            unknown.push(selector.metric);
            continue;
        };
        let of_scrape = |label: &str| ["namespace", "job", "pod", "instance"].contains(&label);
        let missing = selector
            .labels
            .into_iter()
            .filter(|label| !labels.contains(label) && !of_scrape(label));
        unknown.extend(missing.map(|label| format!("{}{{{label}}}", selector.metric)));
    }
    unknown
}

#[test]
fn rules_and_dashboard_ask_for_metrics_that_are_there() {
    let mut series = series();
    for rule in rules() {
        if let Some(record) = rule["record"].as_str() {
            // The name of a recording rule begins with its labels.
            let labels = record
                .split(':')
                .next()
                .unwrap()
                .split('_')
                .map(ToOwned::to_owned);
            series.insert(record.to_owned(), labels.collect());
        }
    }
    let of_rules = rules().into_iter().map(|rule| {
        let name = rule["alert"].as_str().or(rule["record"].as_str()).unwrap();
        (name.to_owned(), rule["expr"].as_str().unwrap().to_owned())
    });
    let all: Vec<(String, String)> = of_rules.chain(queries()).collect();
    assert!(all.len() > 40, "only {} expressions are found", all.len());
    let wrong: Vec<String> = all
        .iter()
        .flat_map(|(name, expression)| {
            let unknown = unknown(expression, &series);
            unknown
                .into_iter()
                .map(move |what| format!("{name}: {what}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_metric_is_shown_or_watched() {
    let used: BTreeSet<String> = rules()
        .iter()
        .map(|rule| rule["expr"].as_str().unwrap().to_owned())
        .chain(queries().into_iter().map(|(_, query)| query))
        .flat_map(|expression| Expression::new(&expression).selectors())
        .map(|selector| selector.metric)
        .collect();
    let is_used = |name: &str| {
        let ends = ["", "_bucket", "_count", "_sum"];
        ends.iter()
            .any(|end| used.contains(&format!("{name}{end}")))
    };
    let names = metrics().into_iter().map(|(name, ..)| name);
    let unused: Vec<String> = names.filter(|name| !is_used(name)).collect();
    assert_eq!(
        unused, [""; 0],
        "neither the dashboard nor a rule asks for them"
    );
}

#[test]
fn the_dashboard_has_a_row_for_each_audience() {
    let dashboard: Value =
        serde_json::from_str(&read("deploy/observability/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let rows = panels.iter().filter(|panel| panel["type"] == "row");
    let rows: Vec<&str> = rows.map(|row| row["title"].as_str().unwrap()).collect();
    assert_eq!(rows, ["Users", "Operator", "Service"]);
    let ids: BTreeSet<u64> = panels
        .iter()
        .map(|panel| panel["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids.len(), panels.len(), "two panels have one number");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let title = panel["title"].as_str().unwrap();
        assert!(
            panel["description"]
                .as_str()
                .is_some_and(|text| text.ends_with('.')),
            "{title}"
        );
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
    }
}

#[test]
fn each_alert_names_its_runbook_and_each_runbook_is_of_an_alert() {
    let alerts = alerts();
    assert!(alerts.len() >= 16, "{:?}", alerts.keys());
    let index = read(&format!("{RUNBOOKS}/README.md"));
    for (name, rule) in &alerts {
        let page = format!("{RUNBOOKS}/{name}.md");
        assert_eq!(rule["annotations"]["runbook"], page.as_str(), "{name}");
        let text = read(&page);
        assert!(text.starts_with(&format!("# {name}\n")), "{page}");
        for section in ["Meaning", "Diagnosis", "Mitigation"] {
            assert!(
                text.contains(&format!("\n## {section}\n")),
                "{page}: no {section}"
            );
        }
        assert!(
            index.contains(&format!("| [{name}]({name}.md) |")),
            "{name} is not in the index"
        );
        let severity = rule["labels"]["severity"].as_str().unwrap();
        assert!(
            ["critical", "warning", "info"].contains(&severity),
            "{name}: {severity}"
        );
    }
    for page in fs::read_dir(root().join(RUNBOOKS)).unwrap() {
        let name = page.unwrap().file_name().into_string().unwrap();
        let is_of_an_alert = name
            .strip_suffix(".md")
            .is_some_and(|name| alerts.contains_key(name));
        assert!(
            is_of_an_alert || name == "README.md",
            "{name} is of no alert: remove it"
        );
    }
}

/// The commands in the runbooks, with their page.
fn commands() -> Vec<(String, String)> {
    let mut commands = Vec::new();
    for page in fs::read_dir(root().join(RUNBOOKS)).unwrap() {
        let page = page.unwrap().path();
        let text = fs::read_to_string(&page).unwrap();
        let of_page = text.lines().filter_map(|line| line.strip_prefix("$ "));
        commands.extend(of_page.map(|line| (page.display().to_string(), line.to_owned())));
    }
    commands
}

/// The commands of a runbook refer to existing things. Only end-to-end tests can run the commands that need a cluster; this
/// test checks the words of all commands.
#[test]
fn commands_of_runbooks_name_verbs_namespaces_and_links_that_are_there() {
    let commands = commands();
    assert!(commands.len() >= 40, "{}", commands.len());
    let verbs = [
        "get",
        "describe",
        "logs",
        "auth",
        "top",
        "explain",
        "cloudserver",
    ];
    for (page, command) in &commands {
        let mut words = command.split(' ');
        assert_eq!(words.next(), Some("kubectl"), "{page}: {command}");
        let mut rest = words.skip_while(|word| {
            *word == "-n" || *word == "cloud-server-system" || *word == "NAMESPACE"
        });
        let verb = rest.next().unwrap();
        assert!(verbs.contains(&verb), "{page}: {command}");
    }
    for page in fs::read_dir(root().join(RUNBOOKS)).unwrap() {
        let page = page.unwrap().path();
        let text = fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1) {
            let link = link.split(')').next().unwrap();
            let file = link.split('#').next().unwrap();
            let target = root().join(RUNBOOKS).join(file);
            assert!(
                target.exists(),
                "{}: the link {link} leads nowhere",
                page.display()
            );
        }
    }
}

/// The object for the Prometheus Operator contains the rule file, indented.
#[test]
fn the_resource_of_the_prometheus_operator_is_made_from_the_rule_file() {
    let path = "deploy/observability/prometheus-rule.yaml";
    let groups = read(RULES);
    let groups = &groups[groups.find("groups:\n").unwrap()..];
    let indented = groups.lines().map(|line| match line {
        "" => "\n".to_owned(),
        line => format!("  {line}\n"),
    });
    let expected = format!(
        "# Made from rules.yaml by `make generate`.\napiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: \
         cloud-server-operator\n  labels:\n    app.kubernetes.io/name: cloud-server-operator\nspec:\n{}",
        indented.collect::<String>()
    );
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        fs::write(root().join(path), &expected).unwrap();
    }
    assert!(
        read(path) == expected,
        "{path} is out of date: run make generate"
    );
    assert_eq!(yaml(path)["spec"]["groups"], yaml(RULES)["groups"]);
}

#[test]
fn promtool_takes_the_rules() {
    let output = promtool::run(&["check", "rules", "--lint=all", "--lint-fatal", RULES], "");
    assert!(
        output.contains(&format!("{} rules found", rules().len())),
        "{output}"
    );
}

#[test]
fn each_alert_fires_and_stays_quiet() {
    let output = promtool::run(&["test", "rules", RULE_TESTS], "");
    assert!(output.contains("SUCCESS"), "{output}");
    let (mut fires, mut quiet) = (BTreeSet::new(), BTreeSet::new());
    for case in yaml(RULE_TESTS)["tests"].as_array().unwrap() {
        for test in case["alert_rule_test"].as_array().into_iter().flatten() {
            let name = test["alertname"].as_str().unwrap().to_owned();
            match test["exp_alerts"]
                .as_array()
                .is_some_and(|alerts| !alerts.is_empty())
            {
                true => fires.insert(name),
                false => quiet.insert(name),
            };
        }
    }
    let all: BTreeSet<String> = alerts().into_keys().collect();
    assert_eq!(fires, all, "which alert is never seen to fire?");
    assert_eq!(quiet, all, "which alert is never seen to stay quiet?");
}
