use super::*;
use crate::runtime::Heartbeats;
use crate::runtime::store::Store;
use crate::runtime::strings::shared;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Resource;
use kube::api::ObjectMeta;
use kube::runtime::watcher::Event;
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

impl Kept for ConfigMap {
    type Brief = Flow;

    fn brief(object: &DeserializeGuard<Self>) -> Flow {
        Flow {
            namespace: shared(object.meta().namespace.as_deref().unwrap_or_default()),
            account: shared(""),
        }
    }
}

fn rules(places: usize) -> Rules<Flow> {
    Rules {
        places,
        bound: Box::new(|_| usize::MAX),
        describe: |flow| (flow.clone(), Priority::Resync),
    }
}

/// A reconcile that panics and one that never ends are defects of the operator. Each costs its own object about one reconcile
/// per minute and does not affect other objects, although one Account gets two of six places.
#[tokio::test(start_paused = true)]
async fn a_turn_that_panics_or_never_ends_stays_the_matter_of_its_object() {
    let store = Store::<ConfigMap>::default();
    let mut writer = store.writer(None);
    let names = ["endless", "healthy", "poisoned"];
    writer.hear(Event::Init);
    for name in names {
        writer.hear(Event::InitApply(object(name)));
    }
    writer.hear(Event::InitDone);
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
    let (trigger, requests) = channel();
    let cancel = CancellationToken::new();
    let heartbeat = Heartbeats::default().expect("queue", Duration::from_secs(60));
    let queue = run(
        store,
        requests,
        rules(6),
        Metrics::default(),
        heartbeat,
        cancel.clone(),
        reconcile,
    );
    let queue = tokio::spawn(queue);
    for name in names {
        trigger.wake_as(&ObjectKey::new("ns", name), None);
    }
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
async fn it_shows_life_while_it_runs_whatever_its_turns_do_and_not_when_nobody_polls_it() {
    let store = Store::<ConfigMap>::default();
    let mut writer = store.writer(None);
    for event in [Event::Init, Event::InitApply(object("a")), Event::InitDone] {
        writer.hear(event);
    }
    let heartbeats = Heartbeats::default();
    let (trigger, requests) = channel();
    let mut queue = Box::pin(run(
        store,
        requests,
        rules(1),
        Metrics::default(),
        heartbeats.expect("queue", times::QUEUE_SILENCE_MAX),
        CancellationToken::new(),
        // The only place stays taken by a reconcile that never ends.
        |_| Box::pin(std::future::pending()),
    ));
    trigger.wake_as(&ObjectKey::of(&object("a")), None);
    for _ in 0..30 {
        let _ = timeout(Duration::from_secs(20), &mut queue).await;
        assert!(heartbeats.missing().is_empty());
    }
    advance(times::QUEUE_SILENCE_MAX + Duration::from_secs(1)).await;
    assert_eq!(heartbeats.missing(), ["queue"]);
}
