use super::*;
use crate::runtime::{Heartbeats, Shard};
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

mod shards;

/// An apiserver that supports only Leases.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    leases: BTreeMap<String, Value>,
    version: u64,
    writes: usize,
    mood: Mood,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Mood {
    #[default]
    Well,
    /// No request gets an answer.
    Silent,
    /// Writes take effect, but get no answer.
    Mute,
    /// Answers are delayed.
    Slow(Duration),
    /// Every request is refused.
    Refuses(u16),
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap_or_default();
                let (status, answer) = server.answer(&parts.method, parts.uri.path(), &body).await;
                let answer = Body::from(answer.to_string().into_bytes());
                Ok::<_, kube::Error>(Response::builder().status(status).body(answer).unwrap())
            }
        });
        Client::new(service, "default")
    }

    async fn answer(&self, method: &Method, path: &str, body: &[u8]) -> (u16, Value) {
        let mood = self.0.lock().unwrap().mood;
        match mood {
            Mood::Silent => std::future::pending().await,
            Mood::Refuses(code) => return refusal(code),
            Mood::Slow(wait) => sleep(wait).await,
            Mood::Well | Mood::Mute => {}
        }
        let answer = self.act(method, path, body);
        if mood == Mood::Mute && *method != Method::GET {
            std::future::pending::<()>().await;
        }
        answer
    }

    fn act(&self, method: &Method, path: &str, body: &[u8]) -> (u16, Value) {
        let mut inner = self.0.lock().unwrap();
        if *method == Method::GET {
            let (_, name) = path.rsplit_once('/').unwrap();
            if name == "leases" {
                let items: Vec<&Value> = inner.leases.values().collect();
                return (200, json!({"metadata": {}, "items": items}));
            }
            let found = inner.leases.get(name).cloned();
            return found.map_or(refusal(404), |lease| (200, lease));
        }
        let mut new: Value = serde_json::from_slice(body).unwrap();
        let version = &new["metadata"]["resourceVersion"];
        let name = new["metadata"]["name"].as_str().unwrap().to_owned();
        match (inner.leases.get(&name), method) {
            (Some(_), &Method::POST) => return refusal(409),
            (None, &Method::PUT) => return refusal(404),
            (Some(old), _) if old["metadata"]["resourceVersion"] != *version => {
                return refusal(409);
            }
            _ => {}
        }
        inner.version += 1;
        inner.writes += 1;
        new["metadata"]["resourceVersion"] = inner.version.to_string().into();
        inner.leases.insert(name, new.clone());
        (200, new)
    }

    fn set(&self, mood: Mood) {
        self.0.lock().unwrap().mood = mood;
    }

    /// Another program writes the Lease, with or without being its holder.
    fn write(&self, change: impl FnOnce(&mut Value)) {
        let mut inner = self.0.lock().unwrap();
        inner.version += 1;
        let version = inner.version.to_string();
        let fresh = || json!({"metadata": {"name": "l"}});
        let lease = inner.leases.entry("l".into()).or_insert_with(fresh);
        change(lease);
        lease["metadata"]["resourceVersion"] = version.into();
    }

    fn lease(&self) -> Value {
        self.0.lock().unwrap().leases["l"].clone()
    }

    fn spec(&self) -> Value {
        self.lease()["spec"].clone()
    }
}

fn refusal(code: u16) -> (u16, Value) {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        _ => "Unknown",
    };
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": "refused"});
    (code, status)
}

const SECOND: Duration = Duration::from_secs(1);

/// A process that waits for the Lease of a shard.
fn candidate(server: &Server, identity: &str, shard: Shard) -> Candidate {
    let settings = LeaseSettings {
        name: "l".into(),
        shard,
        namespace: "ours".into(),
        identity: identity.into(),
        lease_duration: 15 * SECOND,
        renew_deadline: 10 * SECOND,
        retry_period: 2 * SECOND,
    };
    let heartbeat = Heartbeats::default().expect("Lease", settings.silence());
    Candidate::new(server.client(), settings, heartbeat)
}

fn standby(server: &Server, identity: &str) -> Candidate {
    candidate(server, identity, Shard::WHOLE)
}

/// Wins the Lease and keeps it.
async fn hold(mut candidate: Candidate) -> (Term, CancellationToken, tokio::task::JoinHandle<()>) {
    let term = Term::awaited();
    let lease = timeout(60 * SECOND, candidate.win()).await.unwrap();
    assert!(term.extend_until(lease.until()));
    let done = CancellationToken::new();
    let keeper = tokio::spawn(lease.keep(term.clone(), done.clone()));
    (term, done, keeper)
}

#[tokio::test(start_paused = true)]
async fn a_missing_lease_is_created_with_the_usual_fields() {
    let server = Server::default();
    let mut first = standby(&server, "a");
    let won = timeout(SECOND, first.win()).await.unwrap();
    assert_eq!(won.until().duration_since(Instant::now()).as_secs(), 10);
    let spec = server.spec();
    assert_eq!(spec["holderIdentity"], "a");
    assert_eq!(spec["leaseDurationSeconds"], 15);
    assert_eq!(spec["leaseTransitions"], 0);
    let time = spec["renewTime"].as_str().unwrap();
    assert_eq!(time.len(), "2026-11-21T21:00:00.000000Z".len(), "{time}");
    assert_eq!(spec["acquireTime"], time);
}

#[tokio::test(start_paused = true)]
async fn a_lease_expires_by_our_own_clock_alone() {
    for written in ["1999-01-01T00:00:00.000000Z", "2199-01-01T00:00:00.000000Z"] {
        let server = Server::default();
        server.write(|lease| {
            lease["spec"] = json!({"holderIdentity": "gone", "leaseDurationSeconds": 15,
                "leaseTransitions": 4, "acquireTime": written, "renewTime": written});
        });
        let begun = Instant::now();
        standby(&server, "b").win().await;
        assert_eq!(begun.elapsed().as_secs(), 15, "{written}");
        let spec = server.spec();
        assert_eq!(
            (&spec["holderIdentity"], &spec["leaseTransitions"]),
            (&json!("b"), &json!(5))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_longer_duration_in_the_lease_counts_and_a_shorter_one_does_not() {
    for (stated, waited) in [(40, 40), (1, 15)] {
        let server = Server::default();
        server.write(|lease| {
            lease["spec"] = json!({"holderIdentity": "gone", "leaseDurationSeconds": stated});
        });
        let begun = Instant::now();
        standby(&server, "b").win().await;
        assert_eq!(begun.elapsed().as_secs(), waited);
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_renews_is_never_overtaken() {
    let server = Server::default();
    let (term, _done, _keeper) = hold(standby(&server, "a")).await;
    let mut other = standby(&server, "b");
    let waited = timeout(300 * SECOND, other.win()).await;
    assert!(waited.is_err(), "the Lease was taken from its holder");
    assert!(term.holds());
    assert_eq!(server.spec()["leaseTransitions"], 0);
}

#[tokio::test(start_paused = true)]
async fn without_a_renewal_the_term_ends_before_another_process_may_take_the_lease() {
    for mood in [
        Mood::Silent,
        Mood::Refuses(429),
        Mood::Refuses(503),
        Mood::Refuses(403),
        Mood::Slow(30 * SECOND),
    ] {
        let server = Server::default();
        let (term, _done, _keeper) = hold(standby(&server, "a")).await;
        sleep(7 * SECOND).await;
        server.set(mood);
        let begun = Instant::now();
        assert_eq!(term.ended().await, "the Lease could not be renewed in time");
        assert!(!term.holds());
        // The last successful renewal began a second earlier.
        assert_eq!(begun.elapsed().as_secs(), 9);
    }
}

#[tokio::test(start_paused = true)]
async fn a_term_counts_from_the_start_of_its_renewal_and_not_from_the_answer() {
    let server = Server::default();
    let (term, _done, _keeper) = hold(standby(&server, "a")).await;
    server.set(Mood::Slow(4 * SECOND));
    sleep(Duration::from_millis(6200)).await;
    // The last renewal with an answer lasted from 2 s to 6 s; later ones get no answer.
    server.set(Mood::Silent);
    let begun = Instant::now();
    term.ended().await;
    assert_eq!(begun.elapsed().as_secs(), 5, "12 s after the start");
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_was_lost_is_recognized_as_our_own() {
    let server = Server::default();
    server.set(Mood::Mute);
    let first = standby(&server, "a");
    let recovering = server.clone();
    tokio::spawn(async move {
        sleep(6 * SECOND).await;
        recovering.set(Mood::Well);
    });
    let (term, _done, _keeper) = hold(first).await;
    assert_eq!(server.spec()["leaseTransitions"], 0, "still the first term");
    server.set(Mood::Mute);
    sleep(3 * SECOND).await;
    server.set(Mood::Well);
    sleep(30 * SECOND).await;
    assert!(term.holds());
}

#[tokio::test(start_paused = true)]
async fn a_term_ends_at_once_when_another_process_holds_the_lease() {
    let server = Server::default();
    let (term, _done, _keeper) = hold(standby(&server, "a")).await;
    sleep(SECOND).await;
    server.write(|lease| lease["spec"]["holderIdentity"] = "b".into());
    assert_eq!(term.ended().await, "the Lease was taken");
    assert!(!term.holds());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_ends_the_term_and_is_not_created_again() {
    let server = Server::default();
    let (term, _done, _keeper) = hold(standby(&server, "a")).await;
    server.0.lock().unwrap().leases.clear();
    assert_eq!(term.ended().await, "the Lease was deleted");
    assert!(!term.holds());
}

#[tokio::test(start_paused = true)]
async fn a_label_added_to_the_lease_does_not_end_the_term() {
    let server = Server::default();
    let (term, _done, _keeper) = hold(standby(&server, "a")).await;
    server.write(|lease| lease["metadata"]["labels"] = json!({"a": "b"}));
    sleep(30 * SECOND).await;
    assert!(term.holds());
    assert_eq!(server.lease()["metadata"]["labels"]["a"], "b");
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_the_next_attempt() {
    let server = Server::default();
    let (term, done, keeper) = hold(standby(&server, "a")).await;
    let mut other = standby(&server, "b");
    let standing_by = tokio::spawn(async move {
        other.win().await;
        Instant::now()
    });
    sleep(20 * SECOND).await;
    let begun = Instant::now();
    done.cancel();
    term.end("for the test");
    keeper.await.unwrap();
    let taken = standing_by.await.unwrap();
    assert!(taken - begun <= SECOND, "{:?}", taken - begun);
    assert_eq!(server.spec()["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn one_of_several_candidates_gets_the_lease() {
    let server = Server::default();
    let mut all = tokio::task::JoinSet::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        let mut each = standby(&server, name);
        all.spawn(async move { timeout(10 * SECOND, each.win()).await.is_ok() });
    }
    let won = all.join_all().await;
    assert_eq!(won.into_iter().filter(|won| *won).count(), 1);
    assert_eq!(server.0.lock().unwrap().writes, 1);
}
