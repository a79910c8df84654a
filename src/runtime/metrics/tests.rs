use super::*;
use std::time::Duration;

/// All metrics, each with a sample.
pub(crate) fn exercised() -> Metrics {
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
    metrics.active.set(["0-of-1"], true);
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
