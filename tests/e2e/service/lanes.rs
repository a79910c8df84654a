//! Who goes first where the request limit leaves little room: told by the order of the service's own ledger.

use crate::support::{
    PATIENCE, Setup, World, create_calls, eventually, insist, instance, names, with,
};
use cloud_simulator::faults::{Act, ClientGone, Rule, When};
use serde_json::json;

const FLEET: usize = 24;
const DETAIL: &str = "/instance/detail";
const CREATE: &str = "/instance/create";

/// Waits until the operator keeps the limits that stand in the Account.
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
async fn a_purchase_does_not_wait_until_a_whole_fleet_has_been_looked_at() {
    let world = Setup::default().begin("lanes").await;
    let fleet = names("web", FLEET);
    world.apply_all(&fleet, instance).await;
    world.all_ready(&fleet).await;
    // One call at a time, two in a second, and the first look is not answered as long as we like: the others stand in line.
    world.limit("default", 2, 1, 1).await;
    limited(&world).await;
    let act = Act::Hold {
        at: When::BeforeEffect,
        gone: ClientGone::Drop,
    };
    let hold = world.sim.hold(Rule::on(DETAIL, act).times(1_000));
    let (since, bought) = (world.sim.ledger().last_seq(), create_calls(&world.sim));
    let looked_at = |name: &str| with(name, |spec| spec["reconcile"] = json!({"token": "now"}));
    world.apply_all(&fleet, looked_at).await;
    hold.reached(PATIENCE).await.unwrap();
    world.apply(&instance("urgent")).await;
    // The operator has met one that was applied later: it has met the urgent one as well, which stands in line by now.
    let witness = with("witness", |spec| {
        spec["login"]["passwordSecretRef"]["name"] = json!("missing");
    });
    world.apply(&witness).await;
    world.until_reason("witness", "LoginSecretNotFound").await;
    hold.release();
    eventually("it is bought", async || {
        match create_calls(&world.sim) - bought {
            1 => Ok(()),
            n => Err(format!("{n} creates")),
        }
    })
    .await;
    world.limit("default", 500, 500, 50).await;
    let is_looked_at = |one: &cloud_server_operator::api::Instance| {
        let status = one.status.as_ref();
        status.and_then(|status| status.last_reconcile_token.as_deref()) == Some("now")
    };
    world.until_all(&fleet, "are looked at", is_looked_at).await;
    world.ready("urgent").await;

    let calls = world.calls_since(since);
    let bought = calls.iter().position(|call| call.path == CREATE).unwrap();
    let looks = |calls: &[cloud_simulator::Entry]| {
        let looks = calls.iter().filter(|call| call.path == DETAIL);
        looks.count()
    };
    let (before, all) = (looks(&calls[..bought]), looks(&calls));
    println!("LANES: {before} of {all} looks went before the purchase");
    assert!(all >= FLEET, "each server was looked at");
    // Who came first would go after all of them. A few may pass on a machine that stood still, when the purchase gave up its
    // place in the line and took another.
    assert!(
        before <= FLEET / 3,
        "{before} of {all} looks went before the purchase:\n{}",
        world.ledger_text()
    );
    world.finish().await;
}
