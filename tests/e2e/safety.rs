//! Missing is not gone: after wrong, empty and refused answers the operator releases nothing, buys nothing and forgets nothing.

use crate::support::{
    PATIENCE, Setup, World, condition, create_calls, eventually, instance, is_ready, outline, stays,
};
use cloud_server_operator::api::Instance;
use cloud_server_operator::api::names::{BINDING, FINALIZER};
use cloud_simulator::Ledger;
use cloud_simulator::faults::{Act, Listing, Rule, When};
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
async fn an_empty_listing_makes_nobody_buy_or_forget() {
    let mut world = Setup::default().begin("empty").await;
    let names = ["web-1", "web-2", "web-3", "web-4"];
    ready_fleet(&world, &names).await;
    world
        .sim
        .fault(Rule::on("/instance/list", Act::Listing(Listing::Empty)));
    let (posts, written) = (
        world.sim.ledger().mutating().len(),
        world.writes().await.len(),
    );
    // A restart, so that the first observation is the empty listing.
    world.restart().await;
    stays("nothing is changed anywhere", WINDOW, async || {
        let now = world.sim.ledger().mutating().len();
        if now == posts {
            Ok(())
        } else {
            Err(world.ledger_text())
        }
    })
    .await;
    world.sim.faults().clear();
    for name in names {
        let web = world.ready(name).await;
        assert_eq!(
            web.status.as_ref().unwrap().id.as_deref(),
            Some(world.only_server(&web).id.as_str())
        );
    }
    println!(
        "writes while the listing was empty: {}",
        world.writes().await.len() - written
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_waits_for_a_service_that_refuses_or_fails() {
    for (name, status, code) in [
        ("refuses", 401, "Authenticated.Error"),
        ("fails", 500, "InternalError.Unknown"),
    ] {
        let world = Setup::default().begin(name).await;
        ready_fleet(&world, &["web"]).await;
        let act = Act::Error {
            status,
            code: code.to_owned(),
            message: "try later".to_owned(),
            retry_after: None,
            when: When::BeforeEffect,
        };
        world.sim.fault(Rule::on("/*", act));
        world.delete("web").await;
        stays("the Instance is held", Duration::from_secs(8), async || {
            is_held(&world.get("web").await)
        })
        .await;
        assert_eq!(world.sim.live_servers().len(), 1);
        world.sim.faults().clear();
        world.gone("web").await;
        assert_eq!(world.sim.live_servers(), []);
        world.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_was_away_is_found_again_without_a_restart() {
    let world = Setup::default().begin("outage").await;
    ready_fleet(&world, &["old"]).await;
    world.sim.fault(Rule::on(
        "/*",
        Act::Lose {
            when: When::BeforeEffect,
        },
    ));
    for name in ["web-1", "web-2", "web-3"] {
        world.apply(&instance(name)).await;
    }
    // Unavailable for ten seconds: several attempts of each.
    stays("nothing is bought", Duration::from_secs(10), async || {
        if world.sim.servers().len() == 1 {
            Ok(())
        } else {
            Err(world.ledger_text())
        }
    })
    .await;
    assert!(
        is_ready(&world.get("old").await),
        "what is known of it is still the best that is known"
    );
    world.sim.faults().clear();
    for name in ["web-1", "web-2", "web-3"] {
        let web = world.ready(name).await;
        world.only_server(&web);
    }
    assert_eq!(world.sim.servers().len(), 4);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_somebody_edited_stops_everything_until_it_is_taken_away() {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_that_crashes_again_and_again_buys_each_server_once() {
    let mut world = Setup::default().tasks(1_000).begin("crashes").await;
    // Some answers are lost as well, so that recoveries are also interrupted.
    world.sim.fault(
        Rule::on(
            "/instance/create",
            Act::Lose {
                when: When::AfterEffect,
            },
        )
        .probability(0.5),
    );
    let names = ["web-1", "web-2", "web-3", "web-4", "web-5", "web-6"];
    for name in names {
        world.apply(&instance(name)).await;
    }
    for round in 0..10_u64 {
        // A crash at an arbitrary point: the sleep varies the time, and does not wait for a condition.
        tokio::time::sleep(Duration::from_millis(137 * round)).await;
        world.restart().await;
    }
    world.sim.faults().clear();
    for name in names {
        let web = world.ready(name).await;
        world.only_server(&web);
    }
    assert_eq!(
        world.sim.servers().len(),
        names.len(),
        "{}",
        world.ledger_text()
    );
    for name in names {
        world.delete(name).await;
    }
    for round in 0..5_u64 {
        tokio::time::sleep(Duration::from_millis(211 * round)).await;
        world.restart().await;
    }
    eventually("all are gone", async || {
        let left = world.all().await;
        if left.is_empty() {
            Ok(())
        } else {
            Err(left.values().map(outline).collect::<Vec<_>>().join("\n"))
        }
    })
    .await;
    assert_eq!(world.sim.live_servers(), []);
    world.finish().await;
}
