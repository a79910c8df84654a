//! An edit and a deletion are acknowledged at once, independently of the service, and before any call.

use crate::support::{
    Follower, Mark, Setup, Weather, World, assert_idle, done, effects, eventually, insist,
    instance, is_ready, mark, names, other_image, path_of, stopped, three, token, within,
};
use cloud_server_operator::api::Verb;
use cloud_simulator::Readings;
use cloud_simulator::catalogue;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Maximum time from the user's write to the operator's, by the apiserver's timestamps.
const BOUND: SignedDuration = SignedDuration::from_millis(500);
/// A single acknowledgement may wait for a processor that other tests use.
const SLACK: SignedDuration = SignedDuration::from_millis(1500);
/// Maximum time from the first failed call to its report by the Account.
const OUTAGE: Duration = Duration::from_secs(30);

/// When the service got the call for this verb.
fn called(world: &World, verb: Verb, since: &Mark) -> Timestamp {
    let ledger = world.sim.ledger();
    let calls = ledger.since(since.seq);
    let mut calls = calls.iter().filter(|call| call.path == path_of(verb));
    let at = calls.next().map(|call| call.at).unwrap();
    Timestamp::from_millisecond(i64::try_from(at.as_millis()).unwrap()).unwrap()
}

/// The generation that the next edit or the deletion of an Instance will have.
async fn next_generation(world: &World, name: &str) -> i64 {
    world.get(name).await.metadata.generation.unwrap() + 1
}

/// Edits and deletions of Instances at a healthy service: each is acknowledged, and only then is the service called.
pub async fn at_a_fair_service(world: &World) {
    let leaving = names("leaving", 3);
    for name in leaving.iter().map(String::as_str).chain(["edited"]) {
        world.apply(&instance(name)).await;
    }
    for name in leaving.iter().map(String::as_str).chain(["edited"]) {
        world.ready(name).await;
    }
    let example = catalogue::example();
    let edits = [
        (Verb::Reinstall, "image", json!({"id": example.other_image})),
        (Verb::Restart, "restart", json!({"token": "one"})),
        (Verb::Stop, "powerState", json!("Stopped")),
        (Verb::Start, "powerState", json!("Running")),
        (Verb::Restart, "restart", json!({"token": "two"})),
        (Verb::Reinstall, "image", json!({"id": example.image})),
    ];
    let (follower, mut manifest) = (Follower::of(world, "edited").await, instance("edited"));
    let mut figures = Vec::new();
    for (verb, field, value) in edits {
        manifest["spec"][field] = value;
        let since = mark(world, "edited").await;
        let edited = world.apply(&manifest).await;
        done(world, "edited", &since, &[verb]).await;
        let generation = edited.metadata.generation.unwrap();
        figures.push(answered_first(world, &follower, &since, (verb, generation)).await);
    }
    for name in &leaving {
        let (follower, since) = (Follower::of(world, name).await, mark(world, name).await);
        let generation = next_generation(world, name).await;
        world.delete(name).await;
        world.gone(name).await;
        figures.push(answered_first(world, &follower, &since, (Verb::Release, generation)).await);
    }
    within("fair service", &figures, BOUND, SLACK);
}

/// Asserts that an edit is acknowledged before its call, and returns the delay.
async fn answered_first(
    world: &World,
    follower: &Follower,
    since: &Mark,
    (verb, generation): (Verb, i64),
) -> SignedDuration {
    let answer = follower.answered(world, since, generation).await;
    let called = called(world, verb, since);
    println!("{verb}: {:#} late, called at {called}", answer.late());
    // The ledger has millisecond resolution.
    let reported = answer.at - SignedDuration::from_millis(1);
    assert!(
        reported <= called,
        "{verb}: reported at {reported}, called at {called}"
    );
    answer.late()
}

/// How the service is unavailable.
#[derive(Clone, Copy, Debug)]
pub enum Away {
    /// It accepts connections, and does not answer.
    Silent,
    /// It refuses connections.
    Refusing,
}

impl Away {
    fn begin(self, world: &World) {
        match self {
            Self::Silent => world.links().service.set(Weather::Silent),
            Self::Refusing => world.links().service.set(Weather::Cut),
        }
    }

    fn end(world: &World) {
        world.links().service.set(Weather::Fair);
        world.sim.faults().clear();
    }
}

/// The name of an edit, its manifest, and its effect.
type Edit = (&'static str, fn(&str) -> Value, &'static str);
const EDITS: [Edit; 3] = [
    ("stopped", stopped, "Stopped"),
    ("reinstalled", other_image, "Reinstalled"),
    ("restarted", |name| token(name, "one"), "Restarted"),
];
/// Number of Instances that are edited in each way, and that are deleted.
const EACH: usize = 2;

/// Deletions and edits while the service is unavailable: each is acknowledged. Once the service is back, it does each of them
/// once.
pub async fn while_it_is_away(world: &World, away: Away) {
    let leaving = names("deleted", EACH);
    let edited = EDITS.map(|(what, manifest_of, _)| (names(what, EACH), manifest_of));
    let edited = edited.iter().flat_map(|(names, manifest_of)| {
        let each = names.iter().map(String::as_str);
        each.map(move |name| (name, Some(*manifest_of)))
    });
    // First the deleted ones: they must show it before the operator knows of the outage.
    let all = leaving.iter().map(|name| (name.as_str(), None));
    let all: Vec<_> = all.chain(edited).collect();
    for (name, _) in &all {
        world.apply(&instance(name)).await;
    }
    let mut followed = Vec::new();
    for (name, _) in &all {
        assert_idle(world, &world.ready(name).await);
        followed.push(Follower::of(world, name).await);
    }
    until_account_reports(world, "Available").await;
    let (before, mut figures) = (world.sim.ledger().last_seq(), Vec::new());
    away.begin(world);
    let begun = Instant::now();
    for ((name, manifest_of), followed) in all.iter().zip(&followed) {
        let since = mark(world, name).await;
        let generation = next_generation(world, name).await;
        match manifest_of {
            Some(manifest_of) => drop(world.apply(&manifest_of(name)).await),
            None => world.delete(name).await,
        }
        let answer = followed.answered(world, &since, generation).await;
        println!(
            "{away:?}, {name}: {} after {:#}",
            answer.reason,
            answer.late()
        );
        figures.push(answer.late());
        if manifest_of.is_none() {
            assert_eq!(answer.reason, "Releasing");
        }
        assert!(!is_ready(&world.get(name).await));
    }
    within(&format!("{away:?} service"), &figures, BOUND, SLACK);
    until_account_reports(world, "ServiceUnreachable").await;
    println!(
        "BOUND {away:?} service: the Account reports it after {:.1?}",
        begun.elapsed()
    );
    assert!(begun.elapsed() < OUTAGE, "{:?}", begun.elapsed());

    Away::end(world);
    for (name, manifest_of) in all {
        match manifest_of {
            Some(_) => drop(world.ready(name).await),
            None => world.gone(name).await,
        }
    }
    let did = effects(world, before);
    for effect in EDITS.map(|(_, _, did)| did).iter().chain(&["Released"]) {
        let times = did.iter().filter(|did| did == effect).count();
        assert_eq!(times, EACH, "{effect}: {}", world.ledger_text());
    }
}

async fn until_account_reports(world: &World, reason: &str) {
    eventually(&format!("the Account reports {reason}"), async || {
        let account = insist("read it", async || world.accounts().get("default").await).await;
        let status = account.unwrap().status.unwrap_or_default();
        let mut ready = status.conditions.iter().filter(|c| c.type_ == "Ready");
        match ready.any(|ready| ready.reason == reason) {
            true => Ok(()),
            false => Err(format!("{status:?}")),
        }
    })
    .await;
}

async fn fair(readings: Readings) {
    let world = Setup::default().readings(readings).begin("edited").await;
    at_a_fair_service(&world).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ready_is_false_before_the_service_is_called() {
    fair(three::specified()).await;
}

async fn answered(away: Away, readings: Readings) {
    let world = Setup::default().links().readings(readings);
    let world = world.begin("answered").await;
    while_it_is_away(&world, away).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_are_acknowledged_while_the_service_refuses_connections() {
    answered(Away::Refusing, three::specified()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_are_acknowledged_while_the_service_is_silent() {
    answered(Away::Silent, three::specified()).await;
}

/// The tasks take two seconds: a client that mistakes the earlier Ready for that of the edit returns long before their end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_wait_right_after_a_patch_returns_when_it_is_done_and_not_before() {
    let world = Setup::default().tasks(2_000).begin("waited").await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    let image = catalogue::example().other_image;
    let patches = [
        (json!({"image": {"id": image}}), "Reinstalled"),
        (json!({"restart": {"token": "one"}}), "Restarted"),
        (json!({"powerState": "Stopped"}), "Stopped"),
    ];
    for (spec, effect) in patches {
        let seq = world.sim.ledger().last_seq();
        let patch = json!({"spec": spec}).to_string();
        let patched = ["patch", "csinst/web", "--type=merge", "-p", &patch];
        world.run(&patched, "").await;
        let waited = [
            "wait",
            "--for=condition=Ready",
            "--timeout=240s",
            "csinst/web",
        ];
        world.run(&waited, "").await;
        let did = effects(&world, seq);
        assert!(did.iter().any(|did| did == effect), "{effect}: {did:?}");
    }
    world.finish().await;
}
