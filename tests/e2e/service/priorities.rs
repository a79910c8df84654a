//! The priorities if the rate limit leaves little room, by the order in the service's ledger.

use crate::support::{
    PATIENCE, Setup, World, eventually, insist, instance, names, posts, stopped, with,
};
use cloud_simulator::Entry;
use cloud_simulator::faults::{Act, ClientGone, Rule, When};
use serde_json::json;

const FLEET: usize = 24;
const DETAIL: &str = "/instance/detail";
const CREATE: &str = "/instance/create";
const STOP: &str = "/instance/stop";

/// Waits until the Account's limits are in effect.
async fn limited(world: &World) {
    eventually("the limits are in force", async || {
        let account = insist("read it", async || world.accounts().get("default").await);
        let account = account.await.unwrap();
        let observed = account.status.as_ref().map(|s| s.observed_generation);
        match observed == account.metadata.generation {
            true => Ok(()),
            false => Err(format!("{observed:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purchase_and_a_change_do_not_wait_for_the_reads_of_a_whole_fleet() {
    let world = Setup::default().begin("priorities").await;
    let fleet = names("web", FLEET);
    let all = [&fleet[..], &["changed".to_owned()]].concat();
    world.apply_all(&all, instance).await;
    world.all_ready(&all).await;
    // One call at a time, two per second, and the first read is not answered until the test allows it: the others wait in the
    // queue.
    world.limit("default", 2, 1, 1).await;
    limited(&world).await;
    let act = Act::Hold {
        at: When::BeforeEffect,
        gone: ClientGone::Drop,
    };
    let hold = world.sim.hold(Rule::on(DETAIL, act).times(1_000));
    let since = world.sim.ledger().last_seq();
    let looked_at = |name: &str| with(name, |spec| spec["reconcile"] = json!({"token": "now"}));
    world.apply_all(&fleet, looked_at).await;
    hold.reached(PATIENCE).await.unwrap();
    world.apply(&instance("urgent")).await;
    world.apply(&stopped("changed")).await;
    // The operator has reconciled an Instance that was applied later, so it has also reconciled the urgent ones, which now wait
    // in the queue.
    let witness = with("witness", |spec| {
        spec["login"]["passwordSecretRef"]["name"] = json!("missing");
    });
    world.apply(&witness).await;
    world.until_reason("witness", "LoginSecretNotFound").await;
    hold.release();
    eventually("one is bought, and one is stopped", async || {
        let mut calls = posts(&world, since);
        calls.sort();
        match calls == ["create", "stop"] {
            true => Ok(()),
            false => Err(format!("{calls:?}")),
        }
    })
    .await;
    world.limit("default", 500, 500, 50).await;
    let is_read = |one: &cloud_server_operator::api::Instance| {
        let status = one.status.as_ref();
        status.and_then(|status| status.last_reconcile_token.as_deref()) == Some("now")
    };
    world.until_all(&fleet, "are read", is_read).await;
    world.ready("urgent").await;
    world.ready("changed").await;

    let calls = world.calls_since(since);
    let reads = |calls: &[Entry]| calls.iter().filter(|call| call.path == DETAIL).count();
    let all = reads(&calls);
    assert!(all >= FLEET, "each server was read");
    for path in [CREATE, STOP] {
        let at = calls.iter().position(|call| call.path == path).unwrap();
        let before = reads(&calls[..at]);
        println!("PRIORITIES: {before} of {all} reads went before {path}");
        // In the order of arrival, all reads would have gone before. A few may pass on a stalled machine, when the call gave up
        // its place in the queue and took another.
        assert!(
            before <= FLEET / 2,
            "{before} of {all} reads went before {path}:\n{}",
            world.ledger_text()
        );
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_a_server_does_not_wait_until_all_that_were_applied_before_are_bought() {
    let world = Setup::default().begin("backlog").await;
    world.apply(&instance("changed")).await;
    world.ready("changed").await;
    // Two calls per second, one at a time, and the first purchase is not answered until the test allows it.
    world.limit("default", 2, 1, 1).await;
    limited(&world).await;
    let act = Act::Hold {
        at: When::BeforeEffect,
        gone: ClientGone::Drop,
    };
    let hold = world.sim.hold(Rule::on(CREATE, act).times(1_000));
    let since = world.sim.ledger().last_seq();
    let fleet = names("web", FLEET);
    world.apply_all(&fleet, instance).await;
    hold.reached(PATIENCE).await.unwrap();
    let edited = world.apply(&stopped("changed")).await;
    let is_met = |one: &cloud_server_operator::api::Instance| {
        let status = one.status.as_ref();
        status.map(|status| status.observed_generation) == edited.metadata.generation
    };
    let changed = ["changed".to_owned()];
    world.until_all(&changed, "is answered", is_met).await;
    hold.release();
    let is_stop = |call: &Entry| call.path == STOP;
    let before = eventually("it is stopped", async || {
        let calls = world.calls_since(since);
        let at = calls.iter().position(is_stop);
        let at = at.ok_or_else(|| world.ledger_text())?;
        let creates = calls[..at].iter().filter(|call| call.path == CREATE);
        Ok(creates.count())
    })
    .await;
    // In the order of arrival, all would have gone before. One permit in eight goes to the request that has waited longest.
    assert!(before <= 8, "{before}:\n{}", world.ledger_text());
    println!("PRIORITIES: {before} of {FLEET} purchases went before {STOP}");
    world.limit("default", 500, 500, 50).await;
    world.all_ready(&fleet).await;
    world.ready("changed").await;
    world.finish().await;
}
