//! Connections that cannot be used: silent or half open ones, a wrong host name, a foreign certificate, a redirect.

use crate::support::{
    Setup, Weather, World, condition, counts, eventually, insist, instance, names, posts,
    quiet_all, server_id, stays, stopped,
};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use cloud_server_operator::api::Verb;
use cloud_simulator::faults::{Act, Rule, When};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

/// The service accepts some calls without ever answering, and answers others byte by byte: the remaining calls are not delayed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_without_an_answer_delay_no_other_call() {
    let world = Setup::default().begin("unanswered").await;
    // With the default limits, calls that hang occupy five of eight places.
    world.limit("default", 100, 100, 8).await;
    let old = names("old", 4);
    world.apply_all(&old, instance).await;
    let ready = world.all_ready(&old).await;
    let hang = |when| Act::Hang { when };
    let stuck = names("stuck", 3);
    let mut rules = Vec::new();
    for (name, when) in stuck
        .iter()
        .zip([When::BeforeEffect, When::AfterEffect, When::AfterEffect])
    {
        let rule = Rule::on("/instance/create", hang(when)).containing(&format!("\"{name}-"));
        rules.push(world.sim.fault(rule.times(1)));
    }
    for instance in &ready[..2] {
        let rule =
            Rule::on("/instance/detail", hang(When::BeforeEffect)).containing(&server_id(instance));
        rules.push(world.sim.fault(rule.times(1)));
    }
    let slow = Rule::on("/instance/detail", Act::SlowBytes { millis: 5 })
        .containing(&server_id(&ready[2]));
    world.sim.fault(slow.times(1));
    let hung = Instant::now();
    world.apply_all(&stuck, instance).await;
    world.apply_all(&old[..3], stopped).await;
    eventually("five calls hang", async || {
        let hits: u64 = rules
            .iter()
            .map(|rule| world.sim.faults().hits(*rule))
            .sum();
        match hits {
            5 => Ok(()),
            n => Err(format!("{n}")),
        }
    })
    .await;
    let others = names("web", 20);
    let begun = Instant::now();
    world.apply_all(&others, instance).await;
    world.all_ready(&others).await;
    println!(
        "UNANSWERED: {} others ready in {:?}",
        others.len(),
        begun.elapsed()
    );
    for name in &stuck {
        let held = world.get(name).await;
        // The operator gives up after a minute; a machine that stood still may have passed that already.
        let is_over = hung.elapsed() > Duration::from_secs(55);
        assert!(
            is_over || held.status.as_ref().is_none_or(|s| s.id.is_none()),
            "it hung, or the test tests nothing"
        );
    }
    world.all_ready(&stuck).await;
    world.all_ready(&old).await;
    quiet_all(&world).await;
    assert_eq!(
        counts(&world, Verb::Stop, None),
        (3, 3),
        "{}",
        world.ledger_text()
    );
    assert_eq!(
        world.sim.servers().len(),
        4 + 3 + 20,
        "{}",
        world.ledger_text()
    );
    world.finish().await;
}

/// The far end of the connections is lost without notice (a firewall was restarted), then a wire is silent for half a minute:
/// pending calls are given up in time, and nothing is done twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_open_connections_and_a_silent_wire_are_got_over() {
    let world = Setup::default().links().begin("half-open").await;
    let fleet = names("web", 6);
    world.apply_all(&fleet, instance).await;
    world.all_ready(&fleet).await;
    let wire = &world.links().service;
    // This happens while reads are under way on connections that are kept open.
    world.apply_all(&fleet[..3], stopped).await;
    let new = names("new", 3);
    world.apply_all(&new, instance).await;
    eventually("they are at the service", async || {
        match posts(&world, 0).len() {
            9.. => Ok(()),
            n => Err(format!("{n}")),
        }
    })
    .await;
    let opened = wire.opened();
    wire.half_open();
    let begun = Instant::now();
    world.all_ready(&[&fleet[..], &new[..]].concat()).await;
    println!(
        "HALF OPEN: all well {:?} later, {} connections more",
        begun.elapsed(),
        wire.opened() - opened
    );
    assert!(wire.opened() > opened);

    wire.set(Weather::Silent);
    world.apply_all(&fleet[3..], stopped).await;
    let late = names("late", 3);
    world.apply_all(&late, instance).await;
    let before = posts(&world, 0).len();
    // The window is longer than the timeout of a read.
    stays(
        "nothing gets through",
        Duration::from_secs(35),
        async || match posts(&world, 0).len() == before {
            true => Ok(()),
            false => Err(world.ledger_text()),
        },
    )
    .await;
    wire.set(Weather::Fair);
    let back = Instant::now();
    world
        .all_ready(&[&fleet[..], &new[..], &late[..]].concat())
        .await;
    println!("SILENT: all well {:?} after it", back.elapsed());
    quiet_all(&world).await;
    assert_eq!(
        counts(&world, Verb::Stop, None),
        (6, 6),
        "{}",
        world.ledger_text()
    );
    assert_eq!(world.sim.servers().len(), 12, "{}", world.ledger_text());
    world.finish().await;
}

/// A server that keeps every request, and answers with a redirect if it has a target for it.
struct Listener {
    address: String,
    heard: Arc<Mutex<Vec<String>>>,
    task: AbortHandle,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct Ear {
    heard: Arc<Mutex<Vec<String>>>,
    to: Option<(StatusCode, String)>,
}

impl Listener {
    async fn begin(to: Option<(StatusCode, String)>) -> Self {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ear = Ear {
            heard: heard.clone(),
            to,
        };
        let app = Router::new().fallback(hear).with_state(ear);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            address,
            heard,
            task: task.abort_handle(),
        }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

async fn hear(State(ear): State<Ear>, request: Request) -> Response {
    let heard = format!(
        "{} {} {:?}",
        request.method(),
        request.uri(),
        request.headers()
    );
    ear.heard.lock().unwrap().push(heard);
    match ear.to {
        Some((status, to)) => (
            status,
            [(header::LOCATION, format!("{to}{}", request.uri()))],
        )
            .into_response(),
        None => StatusCode::OK.into_response(),
    }
}

/// Waits until the Account reports that the service is unreachable there; returns the message.
async fn unreachable(world: &World, endpoint: &str) -> String {
    eventually("the Account reports it", async || {
        let account = insist("read it", async || world.accounts().get("default").await)
            .await
            .unwrap();
        let ready = account.status.and_then(|s| s.conditions.into_iter().next());
        let ready = ready.ok_or("no condition")?;
        match ready.reason.as_str() {
            "ServiceUnreachable" if ready.message.contains(endpoint) => Ok(ready.message),
            _ => Err(format!("{} {}", ready.reason, ready.message)),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_or_a_strange_certificate_gets_no_token() {
    let world = Setup::default().begin("elsewhere").await;
    let fleet = names("web", 2);
    world.apply_all(&fleet, instance).await;
    let ready = world.all_ready(&fleet).await;
    let before = posts(&world, 0).len();
    let elsewhere = Listener::begin(None).await;
    for status in [
        StatusCode::MOVED_PERMANENTLY,
        StatusCode::FOUND,
        StatusCode::TEMPORARY_REDIRECT,
        StatusCode::PERMANENT_REDIRECT,
    ] {
        let front = Listener::begin(Some((status, elsewhere.address.clone()))).await;
        world.account("default", &front.address).await;
        eventually("the redirect is met", async || match front.heard().len() {
            0 => Err("no connection arrived".to_owned()),
            _ => Ok(()),
        })
        .await;
        unreachable(&world, &front.address).await;
    }
    // An authority that the operator trusts only for Kubernetes signed the apiserver's certificate.
    let tls = world.cluster_url().to_owned();
    world.account("default", &tls).await;
    let message = unreachable(&world, &tls).await;
    assert!(message.contains("certificate"), "{message}");
    world.apply(&instance("new")).await;
    world.until_reason("new", "ServiceUnreachable").await;
    // The window lasts for two checks of an Account that cannot be used.
    stays(
        "no server receives the token",
        Duration::from_secs(10),
        async || match elsewhere.heard() {
            heard if heard.is_empty() => Ok(()),
            heard => Err(format!("{heard:?}")),
        },
    )
    .await;
    assert_eq!(posts(&world, 0).len(), before, "{}", world.ledger_text());
    world.account("default", world.sim.url()).await;
    world.ready("new").await;
    for (web, before) in fleet.iter().zip(&ready) {
        let now = world.ready(web).await;
        assert_eq!(server_id(&now), server_id(before));
        assert!(condition(&now, "Stalled").is_none());
    }
    assert_eq!(world.sim.servers().len(), 3, "{}", world.ledger_text());
    world.finish().await;
}
