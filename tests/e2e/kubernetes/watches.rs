//! Watches that break, freeze, have a version that is too old, or deliver everything late (rows K4, K5, K6).

use super::{all, none, recovers};
use crate::support::wire::{Act, Blow, Fault, Kind, WireRequest};
use crate::support::{
    Setup, World, assert_idle, counts, create_calls, instance, instance_by_key, is_ready, once,
    other_image, posts, token,
};
use cloud_server_operator::api::Verb;
use jiff::Timestamp;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const WATCHED: [&str; 3] = ["instances", "accounts", "secrets"];
const FLEET: [&str; 4] = ["web-1", "web-2", "web-3", "web-4"];

async fn fleet(setup: Setup, name: &str) -> World {
    let world = setup.wire().begin(name).await;
    for name in FLEET {
        world.apply(&instance(name)).await;
    }
    for name in FLEET {
        world.ready(name).await;
    }
    world
}

fn blow_all(world: &World, blow: Blow) {
    for resource in WATCHED {
        world.wire().blow(resource, blow);
    }
}

/// Asserts that each has one server, with the right status, and that there are no others.
async fn ends_with_one_each(world: World, names: &[&str]) {
    for name in names {
        assert_idle(&world, &world.ready(name).await);
    }
    assert_eq!(
        world.sim.live_servers().len(),
        names.len(),
        "{}",
        world.ledger_text()
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_end_every_second_lose_no_change() {
    let world = fleet(Setup::default().tasks(1_000), "k4-cut").await;
    for round in 0..12 {
        let blow = [Blow::Close, Blow::CutMidFrame][round % 2];
        blow_all(&world, blow);
        match round {
            1 => drop(world.apply(&instance("new-1")).await),
            3 => drop(world.apply(&other_image("web-1")).await),
            5 => world.delete("web-2").await,
            7 => drop(world.apply(&instance("new-2")).await),
            9 => drop(world.apply(&token("web-3", "one")).await),
            _ => {}
        }
        // Once per second is the fault.
        sleep(Duration::from_secs(1)).await;
    }
    let names = ["web-1", "web-3", "web-4", "new-1", "new-2"];
    recovers("K4: all is as requested after cut watches", async || {
        none(&world, &["web-2"]).await?;
        all(&world, &names, is_ready).await
    })
    .await;
    assert_eq!(create_calls(&world.sim), 6, "{}", world.ledger_text());
    assert_eq!(counts(&world, Verb::Reinstall, None), (1, 1));
    assert_eq!(counts(&world, Verb::Restart, None), (1, 1));
    ends_with_one_each(world, &names).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silently_dead_watch_is_noticed_within_half_a_minute() {
    let world = fleet(Setup::default(), "k4-half-open").await;
    blow_all(&world, Blow::Freeze);
    world.apply(&instance_by_key("new")).await;
    world.delete("web-1").await;
    // Another password: the watch of Secrets is as dead as the others.
    world.apply(&other_image("web-2")).await;
    crate::support::new_password(&world).await;
    recovers("K4: changes behind frozen watches are seen", async || {
        none(&world, &["web-1"]).await?;
        let names = ["web-2", "web-3", "web-4", "new"];
        let seen = names.iter().all(|name| {
            let server = |s: &cloud_simulator::model::ServerInfo| s.name.starts_with(name);
            world.sim.live_servers().iter().any(server)
        });
        let changed = ["web-3", "web-4"].iter().all(|name| {
            let servers = world.sim.live_servers();
            let server = servers.iter().find(|s| s.name.starts_with(name));
            server.is_some_and(|s| {
                crate::support::password_of(&world, &s.id).as_deref() == Some(World::NEW_PASSWORD)
            })
        });
        if seen && changed {
            all(&world, &names, is_ready).await
        } else {
            Err(world.ledger_text())
        }
    })
    .await;
    assert_eq!(counts(&world, Verb::Reinstall, None), (1, 1));
    ends_with_one_each(world, &["web-2", "web-3", "web-4", "new"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_is_too_old_starts_a_new_listing_and_changes_nothing() {
    let world = fleet(Setup::default(), "k5-gone").await;
    let calls = posts(&world, 0);
    let since = Timestamp::now();
    let wire = world.wire();
    // An event 410, after which the initial list is streamed again.
    let begun = Instant::now();
    blow_all(&world, Blow::Gone);
    recovers("K5: a new watch after an event 410", async || {
        let begun = WATCHED.map(|resource| wire.count(begun, Kind::Stream, resource));
        match begun.iter().all(|count| *count > 0) {
            true => Ok(()),
            false => Err(format!("{begun:?}")),
        }
    })
    .await;
    // An apiserver without streamed lists. Small pages, and a page whose token has expired: a listing that begins again in the
    // middle.
    let _no_streams = wire.on(|request| request.kind == Kind::Stream, Act::Answer(422));
    let pages = wire.on(|request| request.kind == Kind::List, Act::Pages(2));
    let expired = wire.times(
        2,
        |request| request.is(Kind::List, "instances") && request.target.contains("continue="),
        Act::Answer(410),
    );
    blow_all(&world, Blow::Gone);
    recovers(
        "K5: listed again after an event 410",
        async || match expired.met() {
            2 => Ok(()),
            met => Err(format!("{met}")),
        },
    )
    .await;
    // The same error in the answer itself, until the operator lists.
    let begun = Instant::now();
    let refused = WATCHED.map(|resource| {
        let listed = AtomicBool::new(false);
        let fits = move |request: &WireRequest| {
            listed.fetch_or(request.is(Kind::List, resource), Ordering::SeqCst);
            request.is(Kind::Watch, resource) && !listed.load(Ordering::SeqCst)
        };
        wire.on(fits, Act::Answer(410))
    });
    blow_all(&world, Blow::Close);
    recovers("K5: listed again after an answer 410", async || {
        let listed = WATCHED.map(|resource| wire.count(begun, Kind::List, resource));
        let met = refused.each_ref().map(Fault::met);
        match listed.iter().all(|count| *count > 0) {
            true => Ok(()),
            false => Err(format!("listings {listed:?}, refused watches {met:?}")),
        }
    })
    .await;
    world.apply(&instance("new")).await;
    recovers("K5: a change after 410 is seen", async || {
        all(&world, &["new"], is_ready).await
    })
    .await;
    pages.heal();
    assert_eq!(posts(&world, 0).len(), calls.len() + 1);
    let of_others = once(world.writes_since(since).await).len();
    assert!(of_others <= 4, "{of_others} writes for one create");
    let names = [&FLEET[..], &["new"]].concat();
    ends_with_one_each(world, &names).await;
}
