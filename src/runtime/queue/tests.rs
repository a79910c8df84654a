use super::*;
use crate::runtime::Heartbeats;
use crate::runtime::store::Brief;
use crate::runtime::store::tests::brief;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Resource;
use kube::api::ObjectMeta;
use std::collections::BTreeMap;
use std::sync::Mutex;
use tokio::time::{advance, timeout};

fn object(name: &str) -> ConfigMap {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some("ns".to_owned()),
        ..ObjectMeta::default()
    };
    ConfigMap {
        metadata,
        ..ConfigMap::default()
    }
}

impl Stored for ConfigMap {
    fn brief(object: &DeserializeGuard<Self>) -> Brief {
        brief(object.meta())
    }
}

/// A queue of these objects without bounds for flows, and its trigger.
fn queue(names: &[&str], places: usize, heartbeat: Heartbeat) -> (ObjectQueue<ConfigMap>, Trigger) {
    let store = Store::default();
    let (trigger, requests) = mpsc::unbounded();
    for name in names {
        let object = object(name);
        let key = ObjectKey::of(&object);
        store.put(&key, &DeserializeGuard(Ok(object)));
        trigger.unbounded_send((key, None)).unwrap();
    }
    let queue = ObjectQueue {
        store,
        requests,
        workers: places,
        bound: Box::new(|_| usize::MAX),
        metrics: Metrics::default(),
        heartbeat,
    };
    (queue, trigger)
}

/// A reconcile that panics and one that never ends are defects of the operator. Each costs its own object about one reconcile
/// per minute and does not affect other objects, although one Account gets two of six slots.
#[tokio::test(start_paused = true)]
async fn a_reconcile_that_panics_or_never_ends_delays_only_its_own_object() {
    let reconciles = Arc::new(Mutex::new(BTreeMap::<String, u32>::new()));
    let counted = reconciles.clone();
    let reconcile =
        move |object: Arc<DeserializeGuard<ConfigMap>>| -> BoxFuture<'static, Duration> {
            let name = object.meta().name.clone().unwrap_or_default();
            *counted.lock().unwrap().entry(name.clone()).or_default() += 1;
            Box::pin(async move {
                match name.as_str() {
                    "poisoned" => panic!("a defect"),
                    "endless" => std::future::pending().await,
                    _ => Duration::from_secs(10),
                }
            })
        };
    let cancel = CancellationToken::new();
    let heartbeat = Heartbeats::default().expect("queue", Duration::from_secs(60));
    let names = ["endless", "healthy", "poisoned"];
    let (queue, _trigger) = queue(&names, 6, heartbeat);
    let queue = tokio::spawn(queue.run(cancel.clone(), reconcile));
    tokio::time::sleep(Duration::from_secs(600)).await;
    let seen = reconciles.lock().unwrap().clone();
    // The test lasts ten minutes. The intervals are ten seconds for the healthy object, sixty for the poisoned one, and a
    // hundred and twenty plus sixty for the endless one.
    assert!((55..=61).contains(&seen["healthy"]), "{seen:?}");
    assert!((8..=11).contains(&seen["poisoned"]), "{seen:?}");
    assert!((3..=4).contains(&seen["endless"]), "{seen:?}");
    cancel.cancel();
    tokio::time::timeout(RECONCILE_LIMIT * 2, queue)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_queue_beats_while_a_reconcile_hangs_and_not_while_it_is_not_polled() {
    let heartbeats = Heartbeats::default();
    let heartbeat = heartbeats.expect("queue", times::QUEUE_SILENCE_MAX);
    let (queue, _trigger) = queue(&["a"], 1, heartbeat);
    // A reconcile that never ends occupies the only slot.
    let endless = |_| -> BoxFuture<'static, Duration> { Box::pin(std::future::pending()) };
    let mut queue = Box::pin(queue.run(CancellationToken::new(), endless));
    for _ in 0..30 {
        let _ = timeout(Duration::from_secs(20), &mut queue).await;
        assert!(heartbeats.missing().is_empty());
    }
    advance(times::QUEUE_SILENCE_MAX + Duration::from_secs(1)).await;
    assert_eq!(heartbeats.missing(), ["queue"]);
}

#[test]
fn a_reconcile_that_fails_is_an_error_and_the_errors_begin_at_zero() {
    let metrics = Metrics::default();
    count(&metrics, "account", Ok(Duration::ZERO), Duration::ZERO);
    let counted = |result, number: u8| {
        let line = format!(
            "controller_runtime_reconcile_total{{controller=\"account\",result=\"{result}\"}} {number}\n"
        );
        let text = metrics.encode();
        assert!(text.contains(&line), "{line} in {text}");
    };
    counted("error", 0);
    count(&metrics, "account", Err("it panicked"), Duration::ZERO);
    counted("error", 1);
    counted("success", 1);
}
