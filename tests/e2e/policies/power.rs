//! How a server is stopped.

use super::{edit, example, have_ended};
use crate::support::{Mark, Setup, World, at_rest, instance, mark, path_of, posts, quiet};
use cloud_server_operator::api::Verb;
use cloud_simulator::faults::{Act, Rule};
use cloud_simulator::model::TaskScript;
use serde_json::json;

/// For each stop since then, whether it cut the power.
fn forced(world: &World, since: &Mark) -> Vec<bool> {
    let ledger = world.sim.ledger();
    let entries = ledger.since(since.seq).into_iter();
    entries
        .filter(|entry| entry.path == path_of(Verb::Stop))
        .map(|entry| {
            let text = entry.request.to_string();
            text.contains(r#""forceStop":true"#)
        })
        .collect()
}

async fn stopped_by(world: &World, script: TaskScript) {
    let before = mark(world, "stubborn").await;
    let rule = Rule::on(path_of(Verb::Stop), Act::Task(script));
    world.sim.fault(rule.times(1));
    edit(world, "stubborn", json!({"powerState": "Stopped"})).await;
    have_ended(world, "stubborn", &before, &[Verb::Stop]).await;
    at_rest(world, &world.ready("stubborn").await);
    quiet(world, "stubborn").await;
    assert_eq!(forced(world, &before), [false, true]);
    assert_eq!(posts(world, before.seq), ["stop", "stop"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_stop_is_cut_off_after_its_grace_period() {
    let world = Setup::default().begin("forced-stop").await;
    example(&world, "instance-forced-stop").await;
    world.ready("stubborn").await;
    stopped_by(&world, TaskScript::Never).await;
    let before = mark(&world, "stubborn").await;
    edit(&world, "stubborn", json!({"powerState": "Running"})).await;
    have_ended(&world, "stubborn", &before, &[Verb::Start]).await;
    world.ready("stubborn").await;
    let reason = "no answer from the guest".to_owned();
    stopped_by(&world, TaskScript::Fail { reason }).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_by_itself_is_never_cut_off_unless_that_is_always_asked_for() {
    let world = Setup::default().begin("stops").await;
    let mut manifest = instance("graceful");
    manifest["spec"]["stopPolicy"] = json!({"force": "AfterGracePeriod"});
    world.apply(&manifest).await;
    example(&world, "instance-power-cut").await;
    world.apply(&instance("plain")).await;
    for (name, cut) in [("graceful", false), ("cut-off", true), ("plain", false)] {
        world.ready(name).await;
        let before = mark(&world, name).await;
        edit(&world, name, json!({"powerState": "Stopped"})).await;
        have_ended(&world, name, &before, &[Verb::Stop]).await;
        world.ready(name).await;
        assert_eq!(forced(&world, &before), [cut], "{name}");
    }
    world.finish().await;
}
