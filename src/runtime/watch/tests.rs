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

fn notices_of(known: &mut Known, events: &[Event<ConfigMap>]) -> Vec<(String, String, Change)> {
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
fn a_listing_is_reported_when_it_is_complete_with_the_objects_that_it_lacks() {
    let mut known = Known::default();
    let first = vec![
        Event::Init,
        Event::InitApply(object("a", "1")),
        Event::InitApply(object("b", "2")),
    ];
    assert!(
        notices_of(&mut known, &first).is_empty(),
        "half a listing gives no notice"
    );
    assert_eq!(notices_of(&mut known, &[Event::InitDone]).len(), 2);
    let again = vec![
        Event::Init,
        Event::InitApply(object("b", "2")),
        Event::InitDone,
    ];
    let notices = notices_of(&mut known, &again);
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
fn an_object_with_the_same_name_and_another_uid_means_that_the_former_is_gone() {
    let mut known = Known::default();
    notices_of(&mut known, &[Event::Apply(object("a", "1"))]);
    let notices = notices_of(&mut known, &[Event::Apply(object("a", "2"))]);
    assert_eq!(
        notices,
        [
            ("a".into(), "1".into(), Change::Gone),
            ("a".into(), "2".into(), Change::Applied)
        ]
    );
}

/// A consumer may know an object from a listing that was interrupted.
#[test]
fn an_object_of_an_interrupted_listing_is_gone_if_the_next_listing_lacks_it() {
    let mut known = Known::default();
    notices_of(&mut known, &[Event::Apply(object("known", "1"))]);
    let interrupted = ["known", "went", "came"]
        .map(|name| Event::InitApply(object(name, if name == "known" { "1" } else { name })));
    notices_of(&mut known, &[Event::Init]);
    assert!(notices_of(&mut known, &interrupted).is_empty());
    let whole = [
        Event::Init,
        Event::InitApply(object("came", "came")),
        Event::InitDone,
    ];
    let mut notices = notices_of(&mut known, &whole);
    notices.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(
        notices,
        [
            ("came".into(), "came".into(), Change::Listed),
            ("known".into(), "1".into(), Change::Gone),
            ("went".into(), "went".into(), Change::Gone),
        ]
    );
    assert!(known.held.is_empty());
}

/// Consumers identify an object by its name.
#[test]
fn an_object_of_an_interrupted_listing_is_gone_before_its_successor_is_listed() {
    let mut known = Known::default();
    notices_of(
        &mut known,
        &[Event::Init, Event::InitApply(object("a", "1"))],
    );
    let whole = [
        Event::Init,
        Event::InitApply(object("a", "2")),
        Event::InitDone,
    ];
    let former = ("a".into(), "1".into(), Change::Gone);
    let now = ("a".into(), "2".into(), Change::Listed);
    assert_eq!(notices_of(&mut known, &whole), [former, now]);
}

/// An apiserver without objects that can fail in several ways.
#[derive(Clone)]
struct Server {
    mood: Arc<Mutex<Mood>>,
    requests: Arc<Mutex<Vec<(Instant, RequestKind)>>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum RequestKind {
    /// A watch that streams the initial list first.
    Stream,
    Page,
    /// A watch for the changes since a list.
    Watch,
}

impl RequestKind {
    fn of(uri: &str) -> Self {
        assert!(!uri.contains("resourceVersion=0"), "it may be old: {uri}");
        match (
            uri.contains("sendInitialEvents=true"),
            uri.contains("watch=true"),
        ) {
            (true, _) => {
                // A shorter timeout would restart the initial list of a large fleet again and again.
                let seconds = uri.split("timeoutSeconds=").nth(1).unwrap();
                let seconds = seconds.split('&').next().unwrap();
                assert!(seconds.parse::<u32>().unwrap() >= 120, "{uri}");
                Self::Stream
            }
            (false, true) => Self::Watch,
            (false, false) => Self::Page,
        }
    }
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
    /// A watch is refused with 410.
    Gone,
    /// The apiserver gives no stream of the existing objects, so they are read in pages.
    Paged(NoStream),
    /// The same, and a page does not come to its end.
    EndlessPages,
}

/// The reason why the initial list is not streamed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum NoStream {
    Refused(u16),
    /// The stream begins, and then shows an error.
    ErrorEvent,
    /// The stream ends before the list is complete.
    Cut,
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

    fn times(&self, of: RequestKind) -> Vec<Instant> {
        let requests = self.requests.lock().unwrap();
        let of_kind = requests.iter().filter(|(_, kind)| *kind == of);
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
        let api: Api<ConfigMap> = Api::default_namespaced(client);
        spawn(
            api,
            watcher::Config::default(),
            Shard::WHOLE,
            |_, _, _| {},
            Metrics::default(),
            heartbeat,
            |_| {},
        )
    }

    async fn answer(&self, uri: &str) -> kube::Result<http::Response<Answer>> {
        let kind = RequestKind::of(uri);
        let request = (Instant::now(), kind);
        self.requests.lock().unwrap().push(request);
        let is_watch = kind == RequestKind::Watch;
        let mood = *self.mood.lock().unwrap();
        let silent = match mood {
            Mood::Silent { listings, watches } => [listings, watches][usize::from(is_watch)],
            Mood::Down => {
                let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
                return Err(kube::Error::Service(Box::new(refused)));
            }
            _ => false,
        };
        if silent {
            std::future::pending::<()>().await;
        }
        let endless = Answer::from_stream(futures::stream::pending::<std::io::Result<Vec<u8>>>());
        let status = |code: u16| {
            serde_json::json!({"kind": "Status", "apiVersion": "v1",
                "metadata": {}, "status": "Failure", "code": code, "reason": "", "message": "no"})
        };
        let (code, body) = match (mood, kind) {
            (Mood::Gone, RequestKind::Watch) => (410, json(&status(410))),
            (Mood::Paged(NoStream::Refused(code)), RequestKind::Stream) => {
                (code, json(&status(code)))
            }
            (Mood::Paged(NoStream::ErrorEvent), RequestKind::Stream) => {
                let event = serde_json::json!({"type": "ERROR", "object": status(500)});
                (200, json(&event))
            }
            (Mood::Paged(NoStream::Cut), RequestKind::Stream) => (200, Answer::empty()),
            (Mood::EndlessPages, RequestKind::Stream) => (422, json(&status(422))),
            (Mood::EndlessPages, RequestKind::Page) => (200, endless),
            (Mood::Endless, _) | (_, RequestKind::Watch) => (200, endless),
            (_, RequestKind::Stream) => (
                200,
                json(&serde_json::json!({"type": "BOOKMARK", "object": {
                    "kind": "ConfigMap", "apiVersion": "v1", "metadata": {
                        "resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"},
                }}})),
            ),
            (_, RequestKind::Page) => (
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
async fn a_watch_recovers_within_25_seconds_of_any_outage_and_beats_throughout() {
    let silent = Mood::Silent {
        listings: true,
        watches: true,
    };
    let without_streams = Mood::Paged(NoStream::Refused(429));
    for (mood, after) in [
        (Mood::Down, Mood::Well),
        (Mood::Down, without_streams),
        (silent, Mood::Well),
        (silent, without_streams),
    ] {
        let (server, heartbeats) = (Server::new(mood), Heartbeats::default());
        let mut watch = server.watch(&heartbeats);
        for _ in 0..15 {
            sleep(MINUTE).await;
            assert_eq!(
                heartbeats.missing(),
                Vec::<String>::new(),
                "an outage of the apiserver does not stop the heartbeat"
            );
        }
        server.set(after);
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
async fn an_idle_watch_is_restarted_within_half_a_minute_and_beats() {
    let (server, heartbeats) = (Server::new(Mood::Well), Heartbeats::default());
    let _watch = server.watch(&heartbeats);
    for _ in 0..10 {
        sleep(MINUTE).await;
        assert!(heartbeats.missing().is_empty());
    }
    let times = server.times(RequestKind::Watch);
    let longest = times
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .max()
        .unwrap();
    assert!(longest <= Duration::from_secs(30), "{longest:?}");
    let [streams, pages] =
        [RequestKind::Stream, RequestKind::Page].map(|kind| server.times(kind).len());
    assert_eq!((streams, pages), (1, 0), "no further listing was needed");
}

#[tokio::test(start_paused = true)]
async fn the_initial_list_is_read_in_pages_if_it_cannot_be_streamed() {
    let refused = [400, 403, 422, 429, 500, 504].map(NoStream::Refused);
    for why in refused
        .into_iter()
        .chain([NoStream::ErrorEvent, NoStream::Cut])
    {
        let (server, heartbeats) = (Server::new(Mood::Paged(why)), Heartbeats::default());
        let mut watch = server.watch(&heartbeats);
        let soon = timeout(Duration::from_secs(5), watch.synced.wait_for(|done| *done));
        soon.await.unwrap().unwrap();
        let [streams, pages] =
            [RequestKind::Stream, RequestKind::Page].map(|kind| server.times(kind).len());
        // The library has requested a second stream if the first one was cut.
        assert!(streams <= 2 && pages == 1, "{why:?}: {streams} {pages}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_initial_list_that_hangs_is_restarted() {
    for mood in [
        Mood::Silent {
            listings: true,
            watches: false,
        },
        Mood::Endless,
        Mood::EndlessPages,
    ] {
        let (server, heartbeats) = (Server::new(mood), Heartbeats::default());
        let mut watch = server.watch(&heartbeats);
        sleep(10 * MINUTE).await;
        assert!(heartbeats.missing().is_empty());
        let [streams, pages] =
            [RequestKind::Stream, RequestKind::Page].map(|kind| server.times(kind).len());
        assert!((10..60).contains(&(streams + pages)), "{streams} {pages}");
        // An apiserver that does not answer is no reason to fall back to pages.
        let is_silent = matches!(mood, Mood::Silent { .. });
        assert_eq!(pages >= 5, !is_silent, "{streams} {pages}");
        server.set(Mood::Well);
        timeout(MINUTE, watch.synced.wait_for(|done| *done))
            .await
            .unwrap()
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_means_new_listings_at_a_bounded_rate() {
    let (server, heartbeats) = (Server::new(Mood::Gone), Heartbeats::default());
    let _watch = server.watch(&heartbeats);
    sleep(10 * MINUTE).await;
    let listings = server.times(RequestKind::Stream).len();
    assert!((60..200).contains(&listings), "{listings} in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn waits_after_failures_grow_to_a_maximum_and_are_reset_after_a_while() {
    let mut waits = waits();
    let mut wait = async || {
        let wait = waits.next().unwrap();
        sleep(wait).await;
        wait
    };
    assert!(wait().await <= Duration::from_secs(1));
    for _ in 0..100 {
        assert!(wait().await < Duration::from_secs(10));
    }
    assert!(wait().await >= times::WATCH_RETRY_MAX);
    sleep(times::WATCH_FAILURE_FORGOTTEN).await;
    assert!(wait().await <= Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_task_has_ended_does_not_beat() {
    let (server, heartbeats) = (Server::new(Mood::Well), Heartbeats::default());
    let watch = server.watch(&heartbeats);
    sleep(MINUTE).await;
    watch.task.abort();
    sleep(2 * MINUTE).await;
    assert_eq!(heartbeats.missing(), ["watch"]);
}

/// Many maps contain the keys and UIDs of ten thousand objects: each key and each UID is one allocation.
#[test]
fn the_key_and_uid_of_a_known_object_are_not_allocated_again() {
    let mut known = Known::default();
    notices_of(&mut known, &[Event::Apply(object("a", "1"))]);
    let again = known.identify(&Event::InitApply(object("a", "1")));
    let (key, (uid, _)) = known.objects.get_key_value(&again.key).unwrap();
    assert!(Arc::ptr_eq(&key.0, &again.key.0) && Arc::ptr_eq(uid, &again.uid));
    let namesake = known.identify(&Event::Apply(object("a", "2")));
    assert_eq!(&*namesake.uid, "2");
}
