//! A token that the service refuses for a while.

use super::refusal;
use crate::support::{
    Setup, eventually, instance, names, once, other_image, outline, posts, quiet_all, reason,
    side_by_side, stays, stopped,
};
use cloud_server_operator::api::names::FINALIZER;
use cloud_simulator::faults::Rule;
use jiff::Timestamp;
use kube::ResourceExt;
use std::time::{Duration, Instant};

/// How long the token is refused: longer than the pause between two attempts with it (25 s), so that one attempt falls into it.
const REFUSED: Duration = Duration::from_secs(30);
/// Calls in that time, of all Instances together: attempts with the token, the listing with a growing pause, and a query of the
/// server that is being released. Separate attempts of each Instance would need more.
const CALLS: usize = 14;
/// Operations in flight take this long, and end before the token is valid again.
const TASKS: u64 = 6_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_refused_for_a_while_is_reported_once_and_loses_no_state() {
    let answers = [(401, "Authenticated.Error"), (403, "Forbidden.Token")];
    side_by_side(2, answers, |(status, code)| refused(status, code)).await;
}

async fn refused(status: u16, code: &'static str) {
    let mut world = Setup::default().tasks(TASKS).begin("refused-while").await;
    let fleet = names("web", 8);
    world.apply_all(&fleet, instance).await;
    world.all_ready(&fleet).await;
    // Three operations in flight when it begins, and a new Instance meanwhile.
    world.apply(&other_image("web-0")).await;
    world.apply(&stopped("web-1")).await;
    world.delete("web-2").await;
    eventually("three operations run", async || {
        match posts(&world, 0).len() - fleet.len() {
            3 => Ok(()),
            n => Err(format!("{n}: {}", world.ledger_text())),
        }
    })
    .await;
    world.sim.fault(Rule::on("/*", refusal(status, code)));
    world.apply(&instance("new")).await;
    world.until_reason("new", "TokenRefused").await;

    let (reported_at, seq) = (Instant::now(), world.sim.ledger().last_seq());
    let (since, begun) = (Timestamp::now(), world.sim.world(|w| w.now()));
    stays("no server counts as missing", REFUSED, async || {
        for (name, now) in world.all().await {
            if matches!(reason(&now), "ServerMissing" | "InventoryUnreliable") {
                return Err(format!("{name}: {}", outline(&now)));
            }
        }
        let held = world.get("web-2").await;
        match held.finalizers().iter().any(|f| f == FINALIZER) {
            true => Ok(()),
            false => Err(outline(&held)),
        }
    })
    .await;
    // Calls after the window do not count, even if the last check was slow.
    let mut calls = world.calls_since(seq);
    calls.retain(|call| call.at < begun.plus(REFUSED));
    let paths: Vec<_> = calls.iter().map(|call| call.path.as_str()).collect();
    println!(
        "REFUSED {status}: {} calls in {:?}: {paths:?}",
        calls.len(),
        reported_at.elapsed()
    );
    assert!(calls.len() <= CALLS, "{paths:?}");
    assert!(
        calls
            .iter()
            .all(|call| call.method != "POST" || call.path == "/instance/release"),
        "{paths:?}"
    );
    // Each of the three in flight may report it once.
    let writes = once(world.writes_since(since).await).len();
    assert!(writes <= 3, "{writes} writes");

    world.sim.faults().clear();
    let back = Instant::now();
    world.gone("web-2").await;
    let rest: Vec<_> = fleet
        .iter()
        .filter(|name| *name != "web-2")
        .cloned()
        .chain(["new".to_owned()])
        .collect();
    world.all_ready(&rest).await;
    println!(
        "REFUSED {status}: all well {:?} after it was over",
        back.elapsed()
    );
    quiet_all(&world).await;
    let mut all = posts(&world, 0);
    all.sort();
    all.dedup_by(|a, b| a == b && a == "release");
    let mut expected = vec!["create"; fleet.len() + 1];
    expected.extend(["reinstallSystem", "release", "stop"]);
    expected.sort_unstable();
    assert!(
        all.iter()
            .filter(|path| *path != "create")
            .eq(expected.iter().filter(|path| **path != "create")),
        "{all:?}"
    );
    assert_eq!(
        world.sim.servers().len(),
        fleet.len() + 1,
        "{}",
        world.ledger_text()
    );

    // A token that is fixed in its Secret is tried at once.
    world
        .sim
        .set_token("default", "another-canary-token")
        .unwrap();
    world.apply(&instance("late")).await;
    world.until_reason("late", "TokenRefused").await;
    let fixed = Instant::now();
    world
        .secret("cloud-token", "token", "another-canary-token")
        .await;
    world
        .until("late", "is bought", |i| {
            i.status.as_ref().is_some_and(|s| s.id.is_some())
        })
        .await;
    println!(
        "REFUSED {status}: bought {:?} after the Secret was fixed",
        fixed.elapsed()
    );
    world.ready("late").await;
    assert!(!world.logs().contains("another-canary-token"));
    world.operator();
    world.finish().await;
}
