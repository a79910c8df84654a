//! A real Prometheus scrapes a working operator, evaluates the rules, and answers the queries of the dashboard.

use super::path;
use crate::judges;
use crate::support::{Program, Setup, World, eventually, folder, instance, is_ready, port, with};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Panels that have series only if something is wrong or not ready yet.
const WITHOUT_SERIES: [&str; 3] = [
    "Instances by reason",
    "Failed calls",
    "Writes to the apiserver: watches that failed",
];

/// A running Prometheus.
struct Prometheus {
    url: String,
    _program: Program,
    _port: tokio::net::TcpSocket,
}

impl Prometheus {
    /// Starts it; it scrapes an operator every second.
    async fn start(world: &mut World, folder: &Path) -> Self {
        let target = world.operator().address().await;
        let rules = path("deploy/observability/rules.yaml");
        let settings = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [rules],
            "scrape_configs": [{
                "job_name": "cloud-server-operator",
                "static_configs": [{"targets": [target], "labels": {"namespace": "cloud-server-system"}}],
            }],
        });
        fs::write(folder.join("prometheus.yml"), settings.to_string()).unwrap();
        let (port, bound) = port();
        let program = judges::program("prometheus");
        let program = Program::start(folder, "prometheus", Path::new(&program), |command| {
            command
                .arg(format!(
                    "--config.file={}",
                    folder.join("prometheus.yml").display()
                ))
                .arg(format!(
                    "--storage.tsdb.path={}",
                    folder.join("data").display()
                ))
                .arg(format!("--web.listen-address=127.0.0.1:{port}"));
        });
        let url = format!("http://127.0.0.1:{port}/api/v1");
        Self {
            url,
            _program: program,
            _port: bound,
        }
    }

    /// Its answer to a request.
    async fn ask(&self, page: &str, parameters: &[(&str, &str)]) -> Result<Value, String> {
        let url = format!("{}/{page}", self.url);
        let url =
            reqwest::Url::parse_with_params(&url, parameters).map_err(|error| error.to_string())?;
        let client = reqwest::Client::builder()
            .no_proxy()
            .build()
            .map_err(|error| error.to_string())?;
        let answer = client
            .get(url)
            .send()
            .await
            .map_err(|error| error.to_string())?;
        let text = answer.text().await.map_err(|error| error.to_string())?;
        let answer: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        match answer["status"].as_str() {
            Some("success") => Ok(answer["data"].clone()),
            _ => Err(text),
        }
    }

    /// The result of a query.
    async fn query(&self, query: &str) -> Result<Vec<Value>, String> {
        let data = self.ask("query", &[("query", query)]).await?;
        Ok(data["result"].as_array().cloned().unwrap_or_default())
    }
}

/// The queries of the dashboard, each with the title of its panel, as Grafana sends them if all values are selected.
fn queries() -> Vec<(String, String)> {
    fn of(panels: &Value, found: &mut Vec<(String, String)>) {
        for panel in panels.as_array().into_iter().flatten() {
            let title = panel["title"].as_str().unwrap_or_default();
            for target in panel["targets"].as_array().into_iter().flatten() {
                let query = target["expr"].as_str().unwrap();
                let query = query.replace("$namespace", ".*").replace("$job", ".*");
                let query = query.replace("$__rate_interval", "1m");
                let title = match query.contains("watch_errors") {
                    true => format!("{title}: watches that failed"),
                    false => title.to_owned(),
                };
                found.push((title, query));
            }
            of(&panel["panels"], found);
        }
    }
    let text = fs::read_to_string(path("deploy/observability/dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut found = Vec::new();
    of(&dashboard["panels"], &mut found);
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prometheus_that_scrapes_an_operator_answers_rules_and_dashboard_without_an_alert() {
    let mut world = Setup::default().begin("scraped").await;
    for name in ["web-1", "web-2"] {
        world.apply(&instance(name)).await;
        world.ready(name).await;
    }
    let folder = folder(&world, "prometheus-");
    let prometheus = Prometheus::start(&mut world, folder.path()).await;
    let recorded = r#"sum(namespace_job_state_reason:cloud_server_operator_instances:sum{namespace="cloud-server-system", state="ready"})"#;
    eventually("the rules record two Instances", async || {
        let found = prometheus.query(recorded).await?;
        let value = found.first().map(|series| series["value"][1].clone());
        (value == Some(json!("2")))
            .then_some(())
            .ok_or(format!("{found:?}"))
    })
    .await;
    // Create data for the panels.
    world
        .apply(&with("web-1", |spec| spec["powerState"] = json!("Stopped")))
        .await;
    world.until("web-1", "is stopped", is_ready).await;
    let queries = queries();
    assert!(queries.len() >= 30, "{}", queries.len());
    eventually("the dashboard shows all but what fails", async || {
        let mut empty = BTreeSet::new();
        for (title, query) in &queries {
            let found = prometheus.query(query).await;
            // An invalid query stays invalid.
            let found = found.unwrap_or_else(|why| panic!("{title}: {why}"));
            if found.is_empty() {
                empty.insert(title.as_str());
            }
        }
        let is_so = empty.iter().all(|title| WITHOUT_SERIES.contains(title));
        is_so.then_some(()).ok_or(format!("{empty:?}"))
    })
    .await;
    let rules = prometheus.ask("rules", &[]).await.unwrap();
    let rules = rules["groups"].as_array().unwrap().iter();
    let rules: Vec<&Value> = rules
        .flat_map(|group| group["rules"].as_array().unwrap())
        .collect();
    let file = fs::read_to_string(path("deploy/observability/rules.yaml")).unwrap();
    let of = |kind: &str| file.matches(&format!("- {kind}: ")).count();
    assert_eq!(rules.len(), of("alert") + of("record"));
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule:#}");
        // One process runs, without a standby.
        if rule["type"] == "alerting" && rule["name"] != "CloudServerOperatorNoStandby" {
            assert_eq!(rule["state"], "inactive", "{rule:#}");
        }
    }
    world.finish().await;
}
