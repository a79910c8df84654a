//! The server is started, stopped and restarted, by the operator and externally.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_stop_and_start_are_called_once_each() {
    for tasks in DURATIONS {
        let (world, _) = Setup::default()
            .tasks(tasks)
            .begin_with_server("power")
            .await;
        let before = mark(&world, "web").await;
        world.apply(&stopped("web")).await;
        let ready = done(&world, "web", &before, &[Verb::Stop]).await;
        cost(&world, &before, "stop", ["StopAccepted", "Stopped"], MOST).await;
        assert_eq!(
            ready.status.as_ref().unwrap().detail["ecsStatus"],
            "STOPPED"
        );
        quiet(&world, "web").await;

        let before = mark(&world, "web").await;
        world.apply(&instance("web")).await;
        let ready = done(&world, "web", &before, &[Verb::Start]).await;
        cost(&world, &before, "start", ["StartAccepted", "Started"], MOST).await;
        assert_eq!(
            ready.status.as_ref().unwrap().detail["ecsStatus"],
            "STARTED"
        );
        quiet(&world, "web").await;
        world.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_server_started_at_the_console_is_stopped_again() {
    let world = Setup::default().begin("console-on").await;
    let before = Mark::default();
    world.apply(&stopped("web")).await;
    let ready = done(&world, "web", &before, &[Verb::Create, Verb::Stop]).await;
    let server = world.only_server(&ready).id;
    let before = mark(&world, "web").await;
    console(&world, Console::PowerOn { server });
    done(&world, "web", &before, &[Verb::Stop]).await;
    assert_eq!(
        posts(&world, before.seq),
        ["stop"],
        "{}",
        world.ledger_text()
    );
    quiet(&world, "web").await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_an_unmanaged_power_state_is_unchanged() {
    let (world, ready) = Setup::default().begin_with_server("unmanaged").await;
    let server = world.only_server(&ready).id;
    world
        .apply(&with("web", |spec| spec["powerState"] = json!("Unmanaged")))
        .await;
    world.ready("web").await;
    let before = mark(&world, "web").await;
    console(&world, Console::PowerOff { server });
    world
        .until("web", "shows that it is off", |i| {
            i.status.as_ref().unwrap().detail["ecsStatus"] == "STOPPED" && is_ready(i)
        })
        .await;
    quiet(&world, "web").await;
    assert_eq!(posts(&world, before.seq), [""; 0]);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_restart_token_restarts_once() {
    for tasks in DURATIONS {
        let (world, _) = Setup::default()
            .tasks(tasks)
            .begin_with_server("restart")
            .await;
        for word in ["one", "two"] {
            let before = mark(&world, "web").await;
            world.apply(&token("web", word)).await;
            let ready = done(&world, "web", &before, &[Verb::Restart]).await;
            cost(
                &world,
                &before,
                "restart",
                ["RestartAccepted", "Restarted"],
                MOST,
            )
            .await;
            assert_eq!(applied(&ready).restart.as_deref(), Some(word));
            quiet(&world, "web").await;
        }
        // Removing the token requests nothing.
        let before = mark(&world, "web").await;
        world.apply(&instance("web")).await;
        world.ready("web").await;
        quiet(&world, "web").await;
        assert_eq!(posts(&world, before.seq), [""; 0]);
        world.finish().await;
    }
}

/// The token is any text, even one that encoders write in different ways; it is part of the record, which patches test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_a_restart_token_of_any_text_restarts_once_and_holds_no_deletion() {
    let (world, _) = Setup::default().begin_with_server("token").await;
    let word = "<a> & \"b\" \\ / ü \u{2028} \u{1f600} 'c'";
    let before = mark(&world, "web").await;
    world.apply(&token("web", word)).await;
    let ready = done(&world, "web", &before, &[Verb::Restart]).await;
    // Compares with the stored spec: the apiserver reads an applied patch as YAML, which folds lines.
    let spec = ready.spec.restart.as_ref().map(|restart| &restart.token);
    assert_eq!(applied(&ready).restart.as_ref(), spec);
    let restarted = ["RestartAccepted", "Restarted"];
    cost(&world, &before, "restart", restarted, MOST).await;
    world.delete("web").await;
    world.gone("web").await;
    let refused = world.writes().await;
    assert!(refused.iter().all(Entry::is_success), "{refused:#?}");
    world.finish().await;
}
