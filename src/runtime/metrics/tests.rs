use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// All metrics, each with a sample.
fn exercised() -> Metrics {
    let (metrics, second) = (Metrics::default(), Duration::from_secs(1));
    metrics.operations.observe(["create", "succeeded"], second);
    metrics.reconciles.count(["instance", "success"]);
    metrics.reconcile_duration.observe(["instance"], second);
    metrics.running.set(["instance"], 1);
    metrics.waiting.set(["instance", "change"], 3);
    metrics.queue_wait.observe(["instance", "change"], second);
    metrics.calls.count(["create", "ok"]);
    metrics.call_duration.observe(["create"], second);
    metrics.limiter_wait.observe(["urgent"], second);
    metrics.kube_writes.count(["intent", "ok"]);
    metrics.watch_errors.count(["Instances of all namespaces"]);
    metrics.excessive_permissions.set(["foreign_secret"], false);
    metrics.instances.set(["0-of-1", "ready", "Available"], 3);
    metrics.accounts.set(["0-of-1", "ready", "Available"], 1);
    metrics.drifted.set(["0-of-1"], 1);
    metrics.in_progress.set(["0-of-1", "create"], 2);
    let oldest = &metrics.oldest_in_progress;
    oldest.with(["0-of-1", "create"]).set(90.0);
    metrics.unowned.set(["0-of-1"], 2);
    metrics.inventory_age.with(["0-of-1"]).set(61.0);
    metrics
}

/// The labels of each series of a text.
fn series(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut series = BTreeMap::<_, BTreeSet<String>>::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series_name, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series_name.split_once('{').unwrap_or((series_name, ""));
        let labels = labels.trim_end_matches('}').split("\",");
        let labels = labels.filter_map(|pair| Some(pair.split_once('=')?.0.to_owned()));
        series.entry(name.to_owned()).or_default().extend(labels);
    }
    series
}

#[test]
fn what_is_described_is_what_a_scrape_reads() {
    let metrics = exercised();
    metrics.active.set(["0-of-1"], true);
    let text = metrics.encode();
    let series = series(&text);
    let mut described = BTreeSet::new();
    for metric in metrics.described() {
        let labels: BTreeSet<String> = metric.labels.iter().map(|&it| it.to_owned()).collect();
        let ends: &[&str] = match metric.kind.as_str() {
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        for end in ends {
            let name = format!("{}{end}", metric.name);
            let mut found = series.get(&name).cloned();
            if let Some(found) = &mut found {
                found.remove("le");
            }
            assert_eq!(found.as_ref(), Some(&labels), "{name} in {text}");
            described.insert(name);
        }
        let family = metric.name.strip_suffix("_total").unwrap_or(&metric.name);
        let line = format!("# TYPE {family} {}\n", metric.kind);
        assert!(text.contains(&line), "{line} in {text}");
    }
    let found: BTreeSet<String> = series.into_keys().collect();
    assert_eq!(found, described);
}

#[test]
fn only_the_process_that_acts_counts_objects() {
    let metrics = Metrics::default();
    metrics.active.set(["0-of-1"], false);
    let counts = "cloud_server_operator_instances{";
    let text = metrics.encode();
    assert!(!text.contains(counts));
    assert!(text.contains("cloud_server_operator_shard_active{shard=\"0-of-1\"} 0\n"));
    metrics.survey(|metrics| {
        metrics.instances.set(["0-of-1", "ready", "Available"], 3);
    });
    metrics.active.set(["0-of-1"], true);
    let text = metrics.encode();
    assert!(text.contains(&format!(
        "{counts}shard=\"0-of-1\",state=\"ready\",reason=\"Available\"}} 3\n"
    )));
    assert!(text.contains("cloud_server_operator_shard_active{shard=\"0-of-1\"} 1\n"));
}
