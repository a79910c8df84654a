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
    metrics.survey(fleet);
    metrics
}

fn fleet() -> (Shard, Fleet) {
    let state = ObjectState {
        state: "ready",
        reason: "Available",
    };
    let open = Open {
        count: 2,
        oldest: Duration::from_secs(90),
    };
    let fleet = Fleet {
        instances: [(state, 3)].into(),
        accounts: [(state, 1)].into(),
        drifted: 1,
        operations: [("create", open)].into(),
        listings: Listings {
            unowned: 2,
            oldest: Duration::from_secs(61),
        },
    };
    (Shard::WHOLE, fleet)
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
        let says = format!("# TYPE {family} {}\n", metric.kind);
        assert!(text.contains(&says), "{says} in {text}");
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
    metrics.survey(fleet);
    metrics.active.set(["0-of-1"], true);
    let text = metrics.encode();
    for line in [
        "cloud_server_operator_instances{shard=\"0-of-1\",state=\"ready\",reason=\"Available\"} 3\n",
        "cloud_server_operator_instances_drifted{shard=\"0-of-1\"} 1\n",
        "cloud_server_operator_shard_active{shard=\"0-of-1\"} 1\n",
        "cloud_server_operator_operations_in_progress{shard=\"0-of-1\",verb=\"create\"} 2\n",
        "cloud_server_operator_operations_in_progress_oldest_age_seconds{shard=\"0-of-1\",verb=\"create\"} 90.0\n",
        "cloud_server_operator_servers_unowned{shard=\"0-of-1\"} 2\n",
        "cloud_server_operator_inventory_age_seconds{shard=\"0-of-1\"} 61.0\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

/// A reason that no object has any more must disappear with the next scrape.
#[test]
fn a_scrape_shows_nothing_of_the_one_before() {
    let metrics = Metrics::default();
    let (asked, count) = (Arc::new(Mutex::new(0)), |reason| Fleet {
        instances: [(
            ObjectState {
                state: "ready",
                reason,
            },
            1,
        )]
        .into(),
        ..Fleet::default()
    });
    metrics.survey(move || {
        let mut asked = asked.lock().unwrap();
        *asked += 1;
        let reason = if *asked == 1 { "Available" } else { "Paused" };
        (Shard::WHOLE, count(reason))
    });
    assert!(metrics.encode().contains("Available"));
    let text = metrics.encode();
    assert!(
        text.contains("Paused") && !text.contains("Available"),
        "{text}"
    );
}
