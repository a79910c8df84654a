//! Two operators that are active at once.

use crate::support::{Setup, World, create_calls, eventually, instance, is_ready, outline};

/// Two operators that do not know of each other, from the start.
async fn two_at_once(mut world: World) {
    world.start_concurrent().await;
    let mut names = Vec::new();
    // On a shared machine, one of them may win every race of the first ten.
    while names.len() < 10 || !both_act(&mut world).await {
        assert!(names.len() < 100, "one of them does not act");
        let more: Vec<String> = (0..10)
            .map(|n| format!("web-{}", names.len() + n))
            .collect();
        ten_more(&world, &more).await;
        names.extend(more);
    }
    println!("calls of create: {}", create_calls(&world.sim));
    let ids: Vec<_> = world
        .sim
        .live_servers()
        .iter()
        .map(|s| s.id.clone())
        .collect();
    assert_eq!(ids.len(), names.len(), "{}", world.ledger_text());
    for name in &names {
        world.delete(name).await;
    }
    for name in &names {
        world.gone(name).await;
    }
    assert_eq!(world.sim.live_servers().len(), 0, "{}", world.ledger_text());
    world.finish_with_surplus().await;
}

/// Whether each of them has written an intent.
async fn both_act(world: &mut World) -> bool {
    let (_, one) = world.operator().metrics().await;
    let (_, other) = world.standby().metrics().await;
    [one, other]
        .iter()
        .all(|text| text.contains("operation=\"intent\""))
}

async fn ten_more(world: &World, names: &[String]) {
    for name in names {
        world.apply(&instance(name)).await;
    }
    for name in names {
        eventually("one server, and ready", async || {
            let web = world.get(name).await;
            match world.live(&web).len() {
                1 if is_ready(&web) => Ok(()),
                n => Err(format!("{n} servers, {}", outline(&web))),
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_operators_without_a_lease_end_with_one_server_each() {
    two_at_once(Setup::default().begin("lease-none").await).await;
}
