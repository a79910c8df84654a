//! A status that is lost asks for nothing but a password, which does no harm.

use super::*;

/// Status is wiped, with the operator running or not; only this is called because of that.
async fn wiped(mut world: World, running: bool, called: &[&str]) {
    let before = mark(&world, "web").await;
    if !running {
        world.kill();
    }
    world.wipe_status("web").await;
    if !running {
        world.start().await;
    }
    world.ready("web").await;
    quiet(&world, "web").await;
    assert_eq!(posts(&world, before.seq), called, "{}", world.ledger_text());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_wiped_status_restarts_nothing() {
    for running in [true, false] {
        let (world, _) = begin(Setup::default(), "wiped-restart").await;
        let before = mark(&world, "web").await;
        world.apply(&token("web", "one")).await;
        done(&world, "web", &before, &[Verb::Restart]).await;
        wiped(world, running, &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_wiped_status_reinstalls_nothing() {
    for running in [true, false] {
        let (world, _) = begin(Setup::default(), "wiped-reinstall").await;
        let before = mark(&world, "web").await;
        world.apply(&other_image("web")).await;
        done(&world, "web", &before, &[Verb::Reinstall]).await;
        wiped(world, running, &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_wiped_status_sets_the_password_once_more() {
    for running in [true, false] {
        let (world, _) = begin(Setup::default(), "wiped-password").await;
        let before = mark(&world, "web").await;
        new_password(&world).await;
        done(&world, "web", &before, &[Verb::ModifyPassword]).await;
        wiped(world, running, &["modifyInstancePassword"]).await;
    }
}
