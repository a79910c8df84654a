//! Tests of the driver against a service on a real socket, with intervals of milliseconds.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, routing::get};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;
use crate::cloud::{AllowedEndpoints, Http, Limits, Paths, RateLimiter};

/// A service with a list endpoint: server numbers by zone.
#[derive(Clone, Default)]
struct Service {
    zones: Arc<Mutex<HashMap<String, Vec<u32>>>>,
    calls: Arc<AtomicU32>,
}

impl Service {
    fn set(&self, zone: &str, ids: impl IntoIterator<Item = u32>) {
        let ids = ids.into_iter().collect();
        self.zones.lock().unwrap().insert(zone.to_owned(), ids);
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }
}

/// The zone `down` fails, and the zone `stuck` never answers.
async fn list(
    State(service): State<Service>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    service.calls.fetch_add(1, Ordering::SeqCst);
    let zone = query["zoneCode"].as_str();
    match zone {
        "down" => return StatusCode::SERVICE_UNAVAILABLE.into_response(),
        "stuck" => std::future::pending().await,
        _ => {}
    }
    let (page, size): (usize, usize) = (
        query["page"].parse().unwrap(),
        query["pageSize"].parse().unwrap(),
    );
    let ids = service.zones.lock().unwrap().get(zone).cloned();
    let ids = ids.unwrap_or_default();
    let row = |id: &u32| {
        let name = format!("web-{}", Marker::of_uid(&id.to_string()));
        json!({"ecsResourceUUID": format!("ecs-{id}"), "instanceName": name})
    };
    let rows = ids.chunks(size).nth(page - 1).unwrap_or(&[]);
    let rows: Vec<Value> = rows.iter().map(row).collect();
    Json(json!({"instances": rows, "rowCount": ids.len()})).into_response()
}

struct Bench {
    service: Service,
    inventory: Inventory,
    woken: UnboundedReceiver<InstanceUid>,
    _cancel: tokio_util::sync::DropGuard,
}

async fn bench() -> Bench {
    bench_with(|_| ()).await
}

/// The same; `on_wake` is called first for each woken subject.
async fn bench_with(on_wake: impl Fn(&InstanceUid) + Send + Sync + 'static) -> Bench {
    let service = Service::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/instance/list", get(list));
    let router = router.with_state(service.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let limiter = RateLimiter::new(Limits {
        per_second: 10_000.0,
        burst: 1000,
        concurrent: 100,
    });
    let client = Client::new(
        Http::new(AllowedEndpoints::default()).unwrap(),
        &endpoint,
        "token".into(),
        Paths::default(),
        limiter,
    );
    let settings = Settings {
        quiet: Duration::from_secs(600),
        in_flight: Duration::from_millis(20),
        min_gap: Duration::from_millis(5),
        failure_pause: Duration::from_millis(5),
        jitter: 0.0,
        ..Settings::default()
    };
    let (sender, woken) = unbounded_channel();
    let cancel = CancellationToken::new();
    let wake = move |subject| {
        on_wake(&subject);
        sender.send(subject).unwrap_or_default();
    };
    let inventory = Inventory::spawn(client.unwrap(), settings, wake, cancel.clone());
    let _cancel = cancel.drop_guard();
    Bench {
        service,
        inventory,
        woken,
        _cancel,
    }
}

fn zone(zone: &str) -> Place {
    Place::new("r", zone)
}

fn quiet(uid: u32, place: Place) -> (InstanceUid, Subscription) {
    let subject = InstanceUid::from(uid.to_string());
    let subscription = Subscription {
        places: vec![place],
        id: None,
        marker: Marker::of_uid(&subject),
        wants: Wants {
            passes: 1,
            ..Wants::default()
        },
        releasing: false,
        credential: Some("secret/1".into()),
    };
    (subject, subscription)
}

#[tokio::test]
async fn without_a_subscription_nothing_is_called() {
    let bench = bench().await;
    bench.inventory.view(&zone("a"));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(bench.service.calls(), 0);
}

/// A defect of the operator panics during a pass.
#[tokio::test]
async fn a_pass_that_panics_is_restarted() {
    let panics = AtomicU32::new(0);
    let mut bench = bench_with(move |_| {
        assert!(panics.fetch_add(1, Ordering::SeqCst) > 0, "a defect");
    })
    .await;
    bench.service.set("a", [1]);
    let (subject, mut subscription) = quiet(1, zone("a"));
    subscription.wants.attention = Attention::InFlight;
    bench.inventory.subscribe(&subject, subscription);
    assert_eq!(bench.woken.recv().await, Some(subject));
}

#[tokio::test]
async fn a_listing_of_several_pages_takes_one_call_more_than_it_has_pages() {
    let mut bench = bench().await;
    bench.service.set("a", 0..120);
    let (subject, subscription) = quiet(119, zone("a"));
    bench.inventory.subscribe(&subject, subscription);
    assert_eq!(bench.woken.recv().await, Some(subject.clone()));
    assert_eq!(bench.service.calls(), 4);
    let view = bench.inventory.view(&zone("a"));
    assert_eq!(view.newest.as_ref().unwrap().rows.len(), 120);
    assert!(view.newest.as_ref().unwrap().steady);
    assert_eq!(view.bearing(&Marker::of_uid("119")), ["ecs-119".into()]);
    assert!(bench.inventory.has_shown("secret/1", &zone("a").region));
    assert!(!bench.inventory.has_shown("secret/1", "elsewhere"));
    let owns = |id: &ServerId, _: Option<&Marker>| id.as_str() == "ecs-119";
    assert_eq!(bench.inventory.counts(owns).unowned, 119);
}

#[tokio::test]
async fn a_proof_of_absence_is_made_at_once_and_then_the_zone_is_not_listed() {
    let mut bench = bench().await;
    bench.service.set("a", 0..3);
    let since = Instant::now();
    let (subject, subscription) = quiet(77, zone("a"));
    let subscription = Subscription {
        wants: Wants {
            pass_after: Some(since),
            passes: 2,
            ..Wants::default()
        },
        ..subscription
    };
    bench.inventory.subscribe(&subject, subscription);
    let marker = Marker::of_uid("77");
    while bench
        .inventory
        .view(&zone("a"))
        .proven_absent(&marker, None, since)
        != Ok(())
    {
        assert_eq!(bench.woken.recv().await, Some(subject.clone()));
    }
    let calls = bench.service.calls();
    assert_eq!(calls, 4, "two passes of two calls");
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(bench.service.calls(), calls);
}

#[tokio::test]
async fn a_zone_that_fails_or_hangs_does_not_delay_another() {
    let mut bench = bench().await;
    bench.service.set("a", [1]);
    for (uid, place) in [(8, "down"), (9, "stuck"), (1, "a")] {
        let (subject, subscription) = quiet(uid, zone(place));
        bench.inventory.subscribe(&subject, subscription);
    }
    assert_eq!(bench.woken.recv().await.as_deref(), Some("1"));
    let mut passes = bench.inventory.passes();
    let (subject, subscription) = quiet(2, zone("b"));
    bench.inventory.subscribe(&subject, subscription);
    passes.changed().await.unwrap();
    while bench.inventory.view(&zone("down")).failing.is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let view = bench.inventory.view(&zone("down"));
    assert!(view.newest.is_none());
    assert_eq!(
        view.sighting(&"ecs-8".into()),
        Sighting::Unknown(NoEvidence::NoPass)
    );
    // The failing zone does not hide the others: listed servers count.
    let listings = bench.inventory.listings(|_, _| false);
    // `owns` may read listings itself, so it must not be called under their lock.
    let inventory = bench.inventory.clone();
    let (sender, counted) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let owns = |id: &ServerId, _: Option<&Marker>| inventory.shows(id);
        let _ = sender.send(inventory.counts(owns).unowned);
    });
    let unowned = counted.recv_timeout(Duration::from_secs(10));
    assert_eq!(unowned, Ok(0), "an error means a deadlock");
    let known = |at| {
        let mut known = listings.iter();
        known.find(|listing| listing.place == zone(at)).unwrap()
    };
    assert_eq!((known("a").servers, known("a").ended.is_some()), (1, true));
    assert!(known("a").failing.is_none() && known("down").ended.is_none());
    let failing = known("down").failing.as_ref().unwrap();
    assert!(failing.message.contains("503"));
    assert!(known("stuck").failing.is_none() && known("stuck").ended.is_none());
}

#[tokio::test]
async fn an_operation_in_flight_is_woken_until_it_ends() {
    let mut bench = bench().await;
    let (subject, subscription) = quiet(1, zone("a"));
    let in_flight = Subscription {
        wants: Wants {
            attention: Attention::InFlight,
            ..subscription.wants
        },
        ..subscription.clone()
    };
    bench.inventory.subscribe(&subject, in_flight);
    for _ in 0..3 {
        bench.woken.recv().await.unwrap();
    }
    bench.service.set("a", [1]);
    while bench
        .inventory
        .view(&zone("a"))
        .bearing(&subscription.marker)
        .is_empty()
    {
        bench.woken.recv().await.unwrap();
    }
    bench.inventory.leave(&subject);
    // A listing that is in flight at that time still arrives.
    let mut calls = None;
    for _ in 0..100 {
        let now = bench.service.calls();
        if calls.replace(now) == Some(now) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the listing goes on: {calls:?}");
}
