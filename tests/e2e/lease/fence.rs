//! An operator whose renewals fail ends before its Lease does.

use super::gate::{Act, Gate};
use crate::support::{PATIENCE, Setup, World, all_stalls, instance, watch_stalls};
use cloud_simulator::Entry;
use jiff::Timestamp;
use std::time::{Duration, Instant};

/// However the renewals fail, other work continues, and the operator ends before its Lease does.
async fn fences_itself(act: Act) {
    watch_stalls();
    let mut world = Setup::default()
        .leases()
        .without_operator()
        .begin("lease-fence")
        .await;
    let gate = Gate::start(world.apiserver()).await;
    world.start_behind(gate.address());
    let active = world.operator().name();
    world.until_holder(&active).await;
    world.until_active().await;
    gate.judge(move |method, path, _| {
        if *method != axum::http::Method::GET && path.contains("/leases") {
            act
        } else {
            Act::Pass
        }
    });
    let (mut names, begun) = (Vec::new(), Instant::now());
    while world.operator().is_running() {
        // There is always work, so that there would be calls.
        let name = format!("web-{}", names.len());
        world.apply(&instance(&name)).await;
        names.push(name);
        // A pace, not a wait: all Instances must become ready in the end.
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(begun.elapsed() < PATIENCE, "it does not end");
    }
    assert!(!world.operator().ended().await.success());
    let writes = gate.writes();
    let renewal = writes
        .iter()
        .rfind(|write| write.is_lease() && matches!(write.answered, Some(200 | 201)))
        .unwrap()
        .at;
    let last = writes.iter().rfind(|write| !write.is_lease()).map(|w| w.at);
    let last = last.map(|at| at.saturating_duration_since(renewal));
    println!(
        "{act:?}: ended {:?} after the last renewal; last write {last:?} after it",
        renewal.elapsed()
    );
    // The gate records a write when it reads it, which each stall delays.
    let bound = World::LEASE + all_stalls(renewal, Instant::now());
    assert!(last.is_none_or(|last| last < bound), "{last:?}");
    let until = Timestamp::now() - renewal.elapsed() + bound;
    let until = u64::try_from(until.as_millisecond()).unwrap();
    let late = {
        let ledger = world.sim.ledger();
        let calls = ledger.since(0).into_iter();
        let is_late = |call: &Entry| call.method == "POST" && call.at.as_millis() >= until;
        calls.filter(|call| is_late(call)).count()
    };
    assert_eq!(late, 0, "{}", world.ledger_text());
    world.start().await;
    for name in &names {
        let ready = world.ready(name).await;
        world.only_server(&ready);
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_whose_renewals_hang_ends_before_its_lease_does() {
    fences_itself(Act::Hang).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_whose_renewals_are_throttled_ends_before_its_lease_does() {
    fences_itself(Act::Refuse(429)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_whose_renewals_are_refused_ends_before_its_lease_does() {
    fences_itself(Act::Refuse(503)).await;
}
