//! A lost status causes no call except a harmless password change.

use super::*;

/// Wipes status, with the operator running or not; the loss causes only these calls.
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

/// The server is busy with a restart when status is lost: the task is no evidence about the purchase, and a reinstall request that
/// was carried out before is not carried out again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_status_wiped_while_the_server_is_busy_erases_nothing() {
    for running in [true, false] {
        let (mut world, _) = begin(Setup::default(), "wiped-busy").await;
        let erased = mark(&world, "web").await;
        let mut wanted = with("web", |web| {
            web["reinstall"] = json!({"token": "one"});
        });
        world.apply(&wanted).await;
        done(&world, "web", &erased, &[Verb::Reinstall]).await;
        let before = mark(&world, "web").await;
        endless(&world, Verb::Restart);
        wanted["spec"]["restart"] = json!({"token": "two"});
        let web = world.apply(&wanted).await;
        eventually("the restart is asked for", async || {
            let called = posts(&world, before.seq);
            (called.len() == 1)
                .then_some(())
                .ok_or(format!("{called:?}"))
        })
        .await;
        if !running {
            world.kill();
        }
        world.wipe_status("web").await;
        let wiped = world.sim.ledger().last_seq();
        if !running {
            world.start().await;
        }
        // An operator that still knows the task queries the task itself.
        eventually("the busy server is looked at", async || {
            let calls = world.calls_since(wiped);
            let looks = ["/instance/detail", "/asynctask/getResult"];
            let looked = calls.iter().filter(|call| looks.contains(&&*call.path));
            match looked.count() {
                2.. => Ok(()),
                n => Err(format!("{n}")),
            }
        })
        .await;
        end_task(&world, &web).await;
        world.ready("web").await;
        quiet(&world, "web").await;
        let called = posts(&world, before.seq);
        assert_eq!(called.len(), 1, "{called:?}: {}", world.ledger_text());
        let done = effects(&world, erased.seq);
        let erases = done.iter().filter(|effect| *effect == "Reinstalled");
        assert_eq!(erases.count(), 1, "{done:?}");
        world.finish().await;
    }
}
