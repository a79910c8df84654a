//! A token of another account and an edited record: the operator releases nothing and buys nothing.

use crate::support::{PATIENCE, Setup, World, condition, create_calls, instance, outline, stays};
use cloud_server_operator::api::Instance;
use cloud_server_operator::api::names::{BINDING, FINALIZER};
use cloud_simulator::Ledger;
use kube::ResourceExt;
use std::time::Duration;

const ANOTHER: &str = "token-of-another-account";

/// Long enough for four listings at the pace of running operations (5 s), so that a wrong conclusion from them would show.
const WINDOW: Duration = Duration::from_secs(20);

async fn ready_fleet(world: &World, names: &[&str]) {
    for name in names {
        world.apply(&instance(name)).await;
    }
    for name in names {
        world.ready(name).await;
    }
}

fn is_held(instance: &Instance) -> Result<(), String> {
    let held = instance
        .finalizers()
        .iter()
        .any(|finalizer| finalizer == FINALIZER);
    if held { Ok(()) } else { Err(outline(instance)) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_another_account_confirms_no_release() {
    let world = Setup::default().begin("foreign").await;
    ready_fleet(&world, &["web"]).await;
    world.sim.add_account("another", ANOTHER).unwrap();
    world.secret("cloud-token", "token", ANOTHER).await;
    let taken = |ledger: &Ledger| {
        ledger
            .entries()
            .any(|entry| entry.account.as_deref() == Some("another"))
    };
    world.sim.wait_ledger(taken, PATIENCE).await.unwrap();
    world.delete("web").await;
    // The other account has no such server: its listing is empty and complete, which is true but concerns the wrong account.
    stays(
        "the Instance is held and its server lives",
        WINDOW,
        async || {
            is_held(&world.get("web").await)?;
            if world.sim.live_servers().len() == 1 {
                Ok(())
            } else {
                Err(world.ledger_text())
            }
        },
    )
    .await;
    world.secret("cloud-token", "token", World::TOKEN).await;
    world.gone("web").await;
    assert_eq!(world.sim.live_servers(), []);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edited_record_stops_everything_until_it_is_removed() {
    let world = Setup::default().begin("forged").await;
    ready_fleet(&world, &["web"]).await;
    let server = world.only_server(&world.get("web").await).id;
    // With a character that the apiserver escapes in its own JSON: a patch that tests for the unescaped value never matches.
    let edit = format!("{BINDING}={{\"id\":\"<ecs-forged>\"}}");
    let (done, text) = world
        .kubectl(&["annotate", "--overwrite", "instance", "web", &edit], "")
        .await;
    assert!(done, "{text}");
    let stalled = world.until_reason("web", "RecordInvalid").await;
    assert_eq!(condition(&stalled, "Stalled").unwrap().status, "True");
    assert_eq!(
        (
            create_calls(&world.sim),
            world.sim.ledger().mutating().len()
        ),
        (1, 1)
    );
    let (done, text) = world
        .kubectl(&["annotate", "instance", "web", &format!("{BINDING}-")], "")
        .await;
    assert!(done, "{text}");
    let again = world.ready("web").await;
    assert_eq!(again.status.unwrap().id, Some(server));
    assert_eq!(create_calls(&world.sim), 1);
    world.finish().await;
}
