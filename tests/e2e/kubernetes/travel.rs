//! The operator gets an old state of the cluster after it has seen a newer one (row K7): from a second apiserver that lags
//! behind, or from a cache. It does not act on the old state, and does not overwrite the newer one.

use super::recovers;
use crate::support::wire::{Act, Blow, Fault, Kind, WireRequest};
use crate::support::{
    Mark, Setup, World, assert_idle, condition, counts, create_calls, done, eventually, insist,
    instance, is_ready, mark, other_image, outline, posts, stays, stopped,
};
use cloud_server_operator::api::Verb;
use std::time::Duration;

/// The current answer to a listing of this kind.
async fn listing(world: &World, path: &str) -> String {
    let path = format!("{path}?limit=500");
    let listed = insist("Instances are listed", async || {
        let request = http::Request::get(&path).body(Vec::new()).unwrap();
        world.client.request_text(request).await
    });
    listed.await.unwrap()
}

/// From now on the operator's listings of Instances return this, and its watches nothing.
fn travel(world: &World, old: String) -> [Fault; 3] {
    let of = |kind| move |request: &WireRequest| request.is(kind, "instances");
    let faults = [
        // So that it falls back to pages.
        world.wire().on(of(Kind::Stream), Act::Answer(422)),
        world.wire().on(of(Kind::List), Act::Replay(old)),
        world.wire().on(of(Kind::Watch), Act::SilentWatch),
    ];
    world.wire().blow("instances", Blow::Gone);
    faults
}

async fn observed(world: &World, name: &str) -> (i64, Vec<i64>) {
    let status = world.get(name).await.status.unwrap();
    let history = status.history.iter().map(|entry| entry.attempt).collect();
    (status.observed_generation, history)
}

/// Longer than the operator assumes its own cache to be behind (30 s).
const JOURNEY: Duration = Duration::from_secs(40);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_listing_after_a_newer_one_does_and_overwrites_nothing() {
    let world = Setup::default().wire().begin("k7-travel").await;
    let names = ["rebuilt", "stopped", "replaced", "gone", "steady"];
    for name in names {
        world.apply(&instance(name)).await;
    }
    for name in names {
        world.ready(name).await;
    }
    let path = format!(
        "/apis/cloudserver.dev/v1alpha1/namespaces/{}/instances",
        world.namespace
    );
    let old = listing(&world, &path).await;
    let marks: [Mark; 2] = [mark(&world, "rebuilt").await, mark(&world, "stopped").await];
    world.apply(&other_image("rebuilt")).await;
    world.apply(&stopped("stopped")).await;
    world.delete("gone").await;
    world.delete("replaced").await;
    world.gone("gone").await;
    world.gone("replaced").await;
    world.apply(&instance("replaced")).await;
    world.apply(&instance("young")).await;
    done(&world, "rebuilt", &marks[0], &[Verb::Reinstall]).await;
    done(&world, "stopped", &marks[1], &[Verb::Stop]).await;
    world.ready("replaced").await;
    world.ready("young").await;

    let (before, calls) = (observed(&world, "rebuilt").await, posts(&world, 0));
    let faults = travel(&world, old);
    eventually("the old listing is read", async || match faults[1].met() {
        0 => Err("not yet".to_owned()),
        _ => Ok(()),
    })
    .await;
    let left = ["rebuilt", "stopped", "replaced", "young", "steady"];
    stays("the old state is not acted upon", JOURNEY, async || {
        if posts(&world, 0) != calls {
            return Err(world.ledger_text());
        }
        for name in left {
            let found = world.get(name).await;
            if !is_ready(&found) || condition(&found, "Drifted").is_some() {
                return Err(format!("{name}: {}", outline(&found)));
            }
        }
        let now = observed(&world, "rebuilt").await;
        if now == before {
            Ok(())
        } else {
            Err(format!("{before:?} became {now:?}"))
        }
    })
    .await;
    faults.iter().for_each(Fault::heal);
    // The silent watch stays until the operator notices.
    let mark = mark(&world, "stopped").await;
    world.apply(&instance("stopped")).await;
    recovers("K7: what is new is seen again", async || {
        match counts(&world, Verb::Start, None).0 {
            0 => Err(world.ledger_text()),
            _ => Ok(()),
        }
    })
    .await;
    done(&world, "stopped", &mark, &[Verb::Start]).await;
    for name in left {
        assert_idle(&world, &world.ready(name).await);
    }
    assert_eq!(create_calls(&world.sim), 7, "{}", world.ledger_text());
    assert_eq!(counts(&world, Verb::Release, None), (2, 2));
    assert_eq!(counts(&world, Verb::Reinstall, None), (1, 1));
    // Longer than it takes to report servers that are left behind.
    stays(
        "no Event reports the old state",
        Duration::from_secs(8),
        async || match world.events("ServerOrphaned").await.len() {
            0 => Ok(()),
            events => Err(format!("{events}")),
        },
    )
    .await;
    world.finish().await;
}
