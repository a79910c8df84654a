//! Missing prerequisites of an Instance: reported with a reason and a message that names the object and the remedy, and fixed
//! without a restart. Other Instances are not delayed.

pub mod refusal;
mod unclear;

use crate::support::{
    Setup, World, condition, create_calls, eventually, insist, instance, instance_by_key, reason,
    stays,
};
use cloud_server_operator::api::Instance;
use serde_json::json;
use std::time::Duration;

/// The types of the conditions, and the message of Ready.
async fn until_reported(world: &World, name: &str, reason: &str) -> (Vec<String>, String) {
    let status = world.until_reason(name, reason).await.status.unwrap();
    let kinds = status
        .conditions
        .iter()
        .filter(|c| c.status == "True")
        .map(|c| c.type_.clone())
        .collect();
    let message = status
        .conditions
        .into_iter()
        .find(|c| c.type_ == "Ready")
        .unwrap()
        .message;
    (kinds, message)
}

#[track_caller]
fn assert_names(message: &str, things: &[&str]) {
    for thing in things {
        assert!(
            message.contains(thing),
            "{message:?} does not name {thing:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_account_then_a_missing_token_then_a_missing_password_are_reported_until_fixed() {
    let world = Setup::default().bare().begin("missing").await;
    let web = world.apply(&instance("web")).await;
    let (kinds, message) = until_reported(&world, "web", "AccountNotFound").await;
    assert_eq!(kinds, ["Reconciling"]);
    assert_names(&message, &["default", &world.namespace, "create it"]);

    world.account("default", world.sim.url()).await;
    let (kinds, message) = until_reported(&world, "web", "TokenNotFound").await;
    assert_eq!(kinds, ["Reconciling"]);
    assert_names(&message, &["cloud-token", "token", "create"]);

    world.secret("cloud-token", "other", World::TOKEN).await;
    let api = world.instances();
    eventually("the missing key is named", async || {
        let status = insist("read it", async || api.get("web").await)
            .await
            .unwrap()
            .status
            .unwrap();
        let message = &status.conditions[0].message;
        if message.contains("has no key token") {
            Ok(())
        } else {
            Err(message.clone())
        }
    })
    .await;

    world.secret("cloud-token", "token", World::TOKEN).await;
    let (kinds, message) = until_reported(&world, "web", "LoginSecretNotFound").await;
    assert_eq!(kinds, ["Reconciling"]);
    assert_names(&message, &["login", "password", "create"]);
    assert_eq!(create_calls(&world.sim), 0);

    // Another Instance, which needs no Secret, is not delayed by this one.
    world.apply(&instance_by_key("other")).await;
    world.ready("other").await;
    assert_eq!(reason(&world.get("web").await), "LoginSecretNotFound");

    world.secret("login", "password", World::PASSWORD).await;
    world.ready("web").await;
    assert_eq!(world.live(&web).len(), 1);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_token_costs_few_calls_and_is_fixed_by_the_secret() {
    let world = Setup::default().begin("token").await;
    world.apply(&instance("before")).await;
    world.ready("before").await;
    world.sim.set_token("default", "rotated-token").unwrap();
    // The operator learns of it with its next call.
    let calls = world.sim.ledger().last_seq();
    for number in 0..5 {
        world.apply(&instance(&format!("web-{number}"))).await;
    }
    for number in 0..5 {
        // The refusal of a create is reported first, then the Account's condition, which has the remedy.
        let names = |instance: &Instance| {
            condition(instance, "Ready").is_some_and(|ready| {
                let message = &ready.message;
                ready.reason == "TokenRefused"
                    && message.contains("default")
                    && message.contains("Secret")
            })
        };
        let name = format!("web-{number}");
        let refused = world
            .until(
                &name,
                "the refused token is reported with its remedy",
                names,
            )
            .await;
        assert!(
            condition(&refused, "Reconciling").is_some()
                && condition(&refused, "Stalled").is_none()
        );
    }
    // Twenty seconds: long enough to reveal a loop of retries.
    let reported_at = world.sim.ledger().last_seq();
    stays(
        "few calls while the token is refused",
        Duration::from_secs(20),
        async || {
            let ledger = world.sim.ledger();
            let (all, after) = (ledger.since(calls).len(), ledger.since(reported_at).len());
            if all <= 25 && after <= 8 {
                Ok(())
            } else {
                Err(format!("{all} calls, {after} after it was reported"))
            }
        },
    )
    .await;
    assert_eq!(world.sim.servers().len(), 1);
    world.secret("cloud-token", "token", "rotated-token").await;
    for number in 0..5 {
        world.ready(&format!("web-{number}")).await;
    }
    assert_eq!(world.sim.live_servers().len(), 6);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_endpoint_delays_no_other_account_and_can_be_fixed() {
    let world = Setup::default().begin("endpoint").await;
    // A reserved port without a listener.
    world.account("nowhere", "http://127.0.0.1:9").await;
    let mut manifest = instance("lost");
    manifest["spec"]["accountRef"] = json!({"name": "nowhere"});
    world.apply(&manifest).await;
    let (kinds, message) = until_reported(&world, "lost", "ServiceUnreachable").await;
    assert_eq!(kinds, ["Reconciling"]);
    assert_names(&message, &["nowhere", "endpoint"]);
    world.apply(&instance("web")).await;
    world.ready("web").await;
    world.account("nowhere", world.sim.url()).await;
    world.ready("lost").await;
    assert_eq!(
        (create_calls(&world.sim), world.sim.live_servers().len()),
        (2, 2)
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_never_got_a_server_is_deleted_at_once_even_without_its_account() {
    let world = Setup::default().bare().begin("never").await;
    world.apply(&instance("web")).await;
    world.until_reason("web", "AccountNotFound").await;
    world.delete("web").await;
    world.gone("web").await;
    assert_eq!(world.sim.ledger().last_seq(), 0, "{}", world.ledger_text());
    world.finish().await;
}
