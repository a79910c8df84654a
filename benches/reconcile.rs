//! The cost of a reconcile of an idle object before any I/O: a relist causes one for each object, ten thousand at a time.
//!
//! `cargo bench --locked` prints time per call; compare it with an earlier run on the same machine, not with a number.

use cloud_server_operator::api::{Instance, Marker, PurchaseRecord};
use cloud_server_operator::instance::facts::Facts;
use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::json;
use std::hint::black_box;

const UID: &str = "0d1c9d4e-0000-4000-8000-000000000001";

/// An Instance as it is stored once its server runs.
fn converged() -> serde_json::Result<Instance> {
    let record = json!({
        "cluster": "c", "namespace": "team-a", "name": "web-1", "uid": UID, "marker": Marker::of_uid(UID),
        "attempt": 1, "nonce": "6ab50fe4192594de", "id": "ecs-259b8zzkk7d2", "task": "zhqn56jxbs4a",
        "operation": {"verb": "Create", "startedAt": "2026-11-21T15:34:43Z", "generation": 1},
        "package": "ru-moscow-1-a-c1m2-s40-t1000", "firewall": "fw-examplegroup2",
        "places": ["ru-moscow-1/ru-moscow-1-a"], "account": "default", "credential": "5f0c3a91",
    });
    let fields = (0..40)
        .map(|n| (format!("field{n}"), json!(n)))
        .collect::<serde_json::Map<_, _>>();
    let instance = json!({
        "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance",
        "metadata": {
            "name": "web-1", "namespace": "team-a", "uid": UID, "resourceVersion": "7", "generation": 1,
            "finalizers": ["cloudserver.dev/release"],
            "annotations": {"cloudserver.dev/binding": record.to_string()},
        },
        "spec": {
            "region": "ru-moscow-1", "zone": "ru-moscow-1-a", "package": {"code": "ru-moscow-1-a-c1m2-s40-t1000"},
            "image": {"id": "img-ubuntu2404aa"}, "firewall": {"id": "fw-examplegroup2"},
            "login": {"passwordSecretRef": {"name": "web-1-login", "key": "password"}},
        },
        "status": {"observedGeneration": 1, "id": "ecs-259b8zzkk7d2", "detail": fields},
    });
    serde_json::from_value(instance)
}

fn reconcile(criterion: &mut Criterion) {
    // A sample that is not an Instance would make the numbers worthless.
    #[expect(clippy::expect_used, reason = "a benchmark may end like a test")]
    let instance = converged().expect("the sample is an Instance");
    criterion.bench_function("take an Instance apart", |bench| {
        bench.iter(|| Facts::of(black_box("c"), black_box(&instance)));
    });
    let text = Facts::of("c", &instance).annotation.unwrap_or_default();
    criterion.bench_function("read a record", |bench| {
        bench.iter(|| PurchaseRecord::parse(black_box(&text)));
    });
    criterion.bench_function("derive a marker", |bench| {
        bench.iter(|| Marker::of_uid(black_box(UID)));
    });
}

criterion_group!(benches, reconcile);
criterion_main!(benches);
