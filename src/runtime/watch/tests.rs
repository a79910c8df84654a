use super::*;
use crate::runtime::Heartbeats;
use crate::runtime::kubernetes::watching;
use axum::body::Body as Answer;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::ObjectMeta;
use kube::client::Body;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, timeout};

fn object(name: &str, uid: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.into()),
            uid: Some(uid.into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

fn told(known: &mut Known, events: &[Event<ConfigMap>]) -> Vec<(String, String, Change)> {
    events
        .iter()
        .flat_map(|e| {
            let identity = known.identify(e);
            known.take(e, identity)
        })
        .map(|n| (n.key.name.clone(), n.uid.to_string(), n.change))
        .collect()
}

#[test]
fn a_listing_is_told_when_it_is_complete_and_tells_what_it_lacks() {
    let mut known = Known::default();
    let first = vec![
        Event::Init,
        Event::InitApply(object("a", "1")),
        Event::InitApply(object("b", "2")),
    ];
    assert!(
        told(&mut known, &first).is_empty(),
        "half a listing is not told"
    );
    assert_eq!(told(&mut known, &[Event::InitDone]).len(), 2);
    let again = vec![
        Event::Init,
        Event::InitApply(object("b", "2")),
        Event::InitDone,
    ];
    let notices = told(&mut known, &again);
    assert!(
        notices.contains(&("a".into(), "1".into(), Change::Gone)),
        "{notices:?}"
    );
    assert!(
        notices.contains(&("b".into(), "2".into(), Change::Listed)),
        "{notices:?}"
    );
}

#[test]
fn a_namesake_with_another_uid_means_that_the_former_is_gone() {
    let mut known = Known::default();
    told(&mut known, &[Event::Apply(object("a", "1"))]);
    let notices = told(&mut known, &[Event::Apply(object("a", "2"))]);
    assert_eq!(
        notices,
        [
            ("a".into(), "1".into(), Change::Gone),
            ("a".into(), "2".into(), Change::Applied)
        ]
    );
}

/// An apiserver of one ConfigMap, which can be ill.
#[derive(Clone)]
struct Server {
    mood: Arc<Mutex<Mood>>,
    requests: Arc<Mutex<Vec<(Instant, bool)>>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Well,
    /// Listings, watches, or both are not answered.
    Silent {
        listings: bool,
        watches: bool,
    },
    /// No connection.
    Down,
    /// A listing's answer begins and does not end.
    Endless,
    /// A watch is refused, as by a proxy that answers for the server.
    Gone,
}

impl Server {
    fn new(mood: Mood) -> Self {
        Self {
            mood: Arc::new(Mutex::new(mood)),
            requests: Arc::default(),
        }
    }

    fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    /// The times of listings or of watches so far.
    fn times(&self, watches: bool) -> Vec<Instant> {
        let requests = self.requests.lock().unwrap();
        let of_kind = requests.iter().filter(|(_, is_watch)| *is_watch == watches);
        of_kind.map(|(at, _)| *at).collect()
    }

    fn watch(&self, heartbeats: &Heartbeats) -> Watch {
        let server = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let server = server.clone();
            let uri = request.uri().to_string();
            async move { server.answer(&uri).await }
        });
        let heartbeat = heartbeats.expect("watch", times::WATCH_SILENCE_MAX);
        let client = watching(Client::new(service, "default"), heartbeat.clone());
        let subject = Subject::<ConfigMap> {
            api: Api::default_namespaced(client),
            config: watcher::Config::default(),
            shard: Shard::WHOLE,
            prune: |_| {},
        };
        let cancel = CancellationToken::new();
        spawn(
            subject,
            |_, _, _| {},
            Metrics::default(),
            heartbeat,
            |_| {},
            cancel,
        )
    }

    async fn answer(&self, uri: &str) -> kube::Result<http::Response<Answer>> {
        let is_watch = uri.contains("watch=true");
        self.requests
            .lock()
            .unwrap()
            .push((Instant::now(), is_watch));
        let mood = *self.mood.lock().unwrap();
        let silent = match mood {
            Mood::Silent { listings, watches } => [listings, watches][usize::from(is_watch)],
            Mood::Down => {
                let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
                return Err(kube::Error::Service(Box::new(refused)));
            }
            Mood::Well | Mood::Endless | Mood::Gone => false,
        };
        if silent {
            std::future::pending::<()>().await;
        }
        let endless = Answer::from_stream(futures::stream::pending::<std::io::Result<Vec<u8>>>());
        let (code, body) = match (mood, is_watch) {
            (Mood::Gone, true) => (
                410,
                json(&serde_json::json!({"kind": "Status", "apiVersion": "v1",
                "metadata": {}, "status": "Failure", "code": 410, "reason": "Expired", "message": "gone"})),
            ),
            (_, true) => (200, endless),
            (Mood::Endless, false) => (200, endless),
            (_, false) => (
                200,
                json(
                    &serde_json::json!({"kind": "ConfigMapList", "apiVersion": "v1",
                "metadata": {"resourceVersion": "7"}, "items": []}),
                ),
            ),
        };
        Ok(http::Response::builder().status(code).body(body).unwrap())
    }
}

fn json(value: &serde_json::Value) -> Answer {
    Answer::from(value.to_string())
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn it_goes_on_within_ten_seconds_after_an_outage_of_any_length_and_shows_life_all_the_time() {
    for mood in [
        Mood::Down,
        Mood::Silent {
            listings: true,
            watches: true,
        },
    ] {
        let (server, heartbeats) = (Server::new(mood), Heartbeats::default());
        let mut watch = server.watch(&heartbeats);
        for _ in 0..15 {
            sleep(MINUTE).await;
            assert_eq!(
                heartbeats.missing(),
                Vec::<String>::new(),
                "what others do to it is no reason"
            );
        }
        server.set(Mood::Well);
        let back = Instant::now();
        watch.synced.wait_for(|done| *done).await.unwrap();
        assert!(
            back.elapsed() <= Duration::from_secs(25),
            "{:?}",
            back.elapsed()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_watch_begins_again_within_half_a_minute_and_shows_life() {
    let (server, heartbeats) = (Server::new(Mood::Well), Heartbeats::default());
    let _watch = server.watch(&heartbeats);
    for _ in 0..10 {
        sleep(MINUTE).await;
        assert!(heartbeats.missing().is_empty());
    }
    let times = server.times(true);
    let longest = times
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .max()
        .unwrap();
    assert!(longest <= Duration::from_secs(30), "{longest:?}");
    assert_eq!(server.times(false).len(), 1, "no listing was needed");
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_gets_stuck_begins_anew() {
    for mood in [
        Mood::Silent {
            listings: true,
            watches: false,
        },
        Mood::Endless,
    ] {
        let (server, heartbeats) = (Server::new(mood), Heartbeats::default());
        let mut watch = server.watch(&heartbeats);
        sleep(10 * MINUTE).await;
        assert!(heartbeats.missing().is_empty());
        let tries = server.times(false).len();
        assert!((10..60).contains(&tries), "{tries} in ten minutes");
        server.set(Mood::Well);
        timeout(MINUTE, watch.synced.wait_for(|done| *done))
            .await
            .unwrap()
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_gone_means_a_new_listing_and_no_storm() {
    let (server, heartbeats) = (Server::new(Mood::Gone), Heartbeats::default());
    let _watch = server.watch(&heartbeats);
    sleep(10 * MINUTE).await;
    let listings = server.times(false).len();
    assert!((60..200).contains(&listings), "{listings} in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_does_nothing_any_more_shows_no_life() {
    let (server, heartbeats) = (Server::new(Mood::Well), Heartbeats::default());
    let watch = server.watch(&heartbeats);
    sleep(MINUTE).await;
    watch.task.abort();
    sleep(2 * MINUTE).await;
    assert_eq!(heartbeats.missing(), ["watch"]);
}

/// Ten thousand keys and UIDs stand in many maps: each is one allocation.
#[test]
fn what_is_known_of_an_object_is_not_made_again() {
    let mut known = Known::default();
    told(&mut known, &[Event::Apply(object("a", "1"))]);
    let again = known.identify(&Event::InitApply(object("a", "1")));
    let (key, uid) = known.current.get_key_value(&again.key).unwrap();
    assert!(Arc::ptr_eq(&key.0, &again.key.0) && Arc::ptr_eq(uid, &again.uid));
    let namesake = known.identify(&Event::Apply(object("a", "2")));
    assert_eq!(&*namesake.uid, "2");
}
