//! An edit and a deletion are answered at once, whatever the service does, and no call stands before that.

use crate::support::{
    Mark, Setup, Weather, World, condition, counts, done, eventually, instance, is_ready, mark,
    once, other_image, path_of, stopped, token,
};
use cloud_server_operator::api::{Instance, Verb};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use serde_json::Value;

/// Far less than a call that gets no answer takes, and more than a machine that many tests share needs for a write.
const SOON: SignedDuration = SignedDuration::from_secs(8);

/// Waits until status speaks of this generation, and gives how long after the edit it was written that Ready is false.
async fn acknowledged(world: &World, edited: &Instance, since: &Mark) -> SignedDuration {
    let (name, generation) = (edited.name_any(), edited.metadata.generation.unwrap());
    let told = world
        .until(&name, "the edit is acknowledged", |now| {
            let status = now.status.as_ref();
            status.is_some_and(|status| status.observed_generation >= generation)
        })
        .await;
    assert!(
        is_ready(&told) || condition(&told, "Reconciling").is_some(),
        "{told:?}"
    );
    first_status(world, &name, since)
        .await
        .duration_since(since.at)
}

/// When the operator first wrote the status of this Instance since then.
async fn first_status(world: &World, name: &str, since: &Mark) -> Timestamp {
    eventually("the write is in the audit log", async || {
        let writes = once(world.writes().await);
        let mut of_status = writes
            .iter()
            .filter(|e| e.name == name && e.subresource == "status" && e.received_at >= since.at);
        of_status
            .next()
            .map(|e| e.received_at)
            .ok_or_else(|| "not yet".to_owned())
    })
    .await
}

/// When the service was called to do this.
fn called(world: &World, verb: Verb, since: &Mark) -> Timestamp {
    let ledger = world.sim.ledger();
    let calls = ledger.since(since.seq);
    let mut calls = calls.iter().filter(|call| call.path == path_of(verb));
    let at = calls.next().map(|call| call.at).unwrap();
    Timestamp::from_millisecond(i64::try_from(at.as_millis()).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ready_is_false_before_the_service_is_called() {
    let world = Setup::default().begin("edited").await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    let edits: [(Verb, Value); 3] = [
        (Verb::Reinstall, other_image("web")),
        (Verb::Restart, {
            let mut restarted = other_image("web");
            restarted["spec"]["restart"] = token("web", "one")["spec"]["restart"].clone();
            restarted
        }),
        (Verb::Stop, {
            let mut off = other_image("web");
            off["spec"]["restart"] = token("web", "one")["spec"]["restart"].clone();
            off["spec"]["powerState"] = stopped("web")["spec"]["powerState"].clone();
            off
        }),
    ];
    for (verb, edit) in edits {
        let since = mark(&world, "web").await;
        world.apply(&edit).await;
        done(&world, "web", &since, &[verb]).await;
        let told = first_status(&world, "web", &since).await;
        let called = called(&world, verb, &since);
        println!(
            "{verb}: told {:#}, called {:#} after the edit",
            told.duration_since(since.at),
            called.duration_since(since.at)
        );
        assert!(told <= called, "{verb}: told at {told}, called at {called}");
    }
    let since = mark(&world, "web").await;
    world.delete("web").await;
    world.gone("web").await;
    let told = first_status(&world, "web", &since).await;
    assert!(told <= called(&world, Verb::Release, &since));
    world.finish().await;
}

async fn answered_while(weather: Weather, world: &str) {
    let world = Setup::default().links().begin(world).await;
    for name in ["stopped", "reinstalled", "deleted"] {
        world.apply(&instance(name)).await;
    }
    for name in ["stopped", "reinstalled", "deleted"] {
        world.ready(name).await;
    }
    world.links().service.set(weather);
    for edit in [stopped("stopped"), other_image("reinstalled")] {
        let name = edit["metadata"]["name"].as_str().unwrap();
        let since = mark(&world, name).await;
        let edited = world.apply(&edit).await;
        let late = acknowledged(&world, &edited, &since).await;
        println!("{weather:?}, {name}: answered after {late:#}");
        assert!(late < SOON, "{name}: {late:#}");
        assert!(!is_ready(&world.get(name).await));
    }
    let since = mark(&world, "deleted").await;
    world.delete("deleted").await;
    let leaving = world.until_reason("deleted", "Releasing").await;
    assert!(leaving.metadata.deletion_timestamp.is_some());
    let late = first_status(&world, "deleted", &since)
        .await
        .duration_since(since.at);
    println!("{weather:?}, deleted: answered after {late:#}");
    assert!(late < SOON, "{late:#}");

    world.links().service.set(Weather::Fair);
    world.gone("deleted").await;
    for name in ["stopped", "reinstalled"] {
        world.ready(name).await;
    }
    for verb in [Verb::Stop, Verb::Reinstall, Verb::Release] {
        assert_eq!(
            counts(&world, verb, None).1,
            1,
            "{verb}: {}",
            world.ledger_text()
        );
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_for_is_answered_while_the_service_refuses_connections() {
    answered_while(Weather::Cut, "answered-cut").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_for_is_answered_while_the_service_is_silent() {
    answered_while(Weather::Silent, "answered-silent").await;
}
