//! An Instance that this version of the operator cannot read, as after a rollback, when the definitions and objects of the
//! newer version still exist. Our own schema does not allow such an Instance.

use super::bill::{Bill, Count};
use super::play::{WINDOW, assert_message, redacted};
use crate::support::{Setup, World, create_calls, eventually, insist, instance, own};
use kube::api::{Api, DynamicObject};
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use tokio::time::sleep;

const POWER_STATES: &str =
    "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/powerState/enum/-";

fn hibernated(name: &str) -> Value {
    let mut manifest = instance(name);
    manifest["spec"]["powerState"] = json!("Hibernated");
    manifest
}

async fn status_of(world: &World, name: &str) -> Value {
    let kind = ApiResource::erase::<cloud_server_operator::api::Instance>(&());
    let api: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), &world.namespace, &kind);
    insist("read it", async || api.get(name).await)
        .await
        .unwrap()
        .data["status"]
        .clone()
}

/// Reason and message of Ready.
fn ready_of(status: &Value) -> (&str, &str) {
    let ready = &status["conditions"][0];
    let text = |field: &str| ready[field].as_str().unwrap_or_default();
    (text("reason"), text("message"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undecodable_instance_is_reported_stays_unchanged_and_delays_no_other() {
    // A definition affects the whole control plane.
    let mut world = Setup::default().cluster(own().await).begin("newer").await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    let before_status = status_of(&world, "web").await;
    let newer = json!([{"op": "add", "path": POWER_STATES, "value": "Hibernated"}]).to_string();
    let patch = ["patch", "crd", "instances.cloudserver.dev", "--type=json"];
    let (done, text) = world
        .kubectl(&[&patch[..], &["--patch", newer.as_str()]].concat(), "")
        .await;
    assert!(done, "{text}");
    // One with a server, and one without.
    for name in ["web", "new"] {
        let manifest = hibernated(name);
        eventually("the newer schema is in force", async || {
            world.kubectl_apply(&manifest).await
        })
        .await;
    }
    let message = eventually("both are reported", async || {
        let (web, new) = (
            status_of(&world, "web").await,
            status_of(&world, "new").await,
        );
        match (ready_of(&web), ready_of(&new)) {
            (("Undecodable", first), ("Undecodable", same)) if first == same => {
                Ok(first.to_owned())
            }
            (web, new) => Err(format!("{web:?} {new:?}")),
        }
    })
    .await;
    world.until_events("Undecodable", 2).await;

    let before = Count::of(&mut world).await;
    let posts = world.sim.ledger().mutating().len();
    sleep(WINDOW).await;
    let spent = Bill::since(&before, &mut world).await;
    println!("ROW undecodable: {spent:?}");
    assert_eq!(spent.too_much(), Vec::<String>::new());
    assert_eq!(world.sim.ledger().mutating().len(), posts);
    let after = status_of(&world, "web").await;
    for field in ["id", "detail", "applied", "history"] {
        assert_eq!(
            after[field], before_status[field],
            "the observed values stay"
        );
    }
    assert_eq!(after["observedGeneration"], 2);
    let kinds = after["conditions"].as_array().unwrap().iter();
    let kinds: Vec<_> = kinds.map(|c| (&c["type"], &c["status"])).collect();
    assert_eq!(
        kinds,
        [
            (&json!("Ready"), &json!("False")),
            (&json!("Stalled"), &json!("True"))
        ]
    );
    assert_message("undecodable", &redacted(&world, &message, None));

    world.apply(&instance("other")).await;
    world.ready("other").await;
    for name in ["web", "new"] {
        world.kubectl_apply(&instance(name)).await.unwrap();
    }
    for name in ["web", "new"] {
        let ready = world.ready(name).await;
        world.only_server(&ready);
    }
    assert_eq!(create_calls(&world.sim), 3);
    world.finish().await;
}
