//! Instances that are observed only, and paused Instances.

use super::{IMAGE, OTHER_IMAGE, delete, edit, example, have_ended};
use crate::support::{
    Mark, Setup, condition, console, counts, create_calls, end_task, endless, instance, is_ready,
    mark, posts, quiet, reason,
};
use cloud_server_operator::api::Verb;
use cloud_simulator::model::Console;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_only_looks_buys_changes_and_releases_nothing() {
    let mut world = Setup::default().begin("observed").await;
    example(&world, "instance-observed").await;
    let told = world.until_reason("watched", "NoServer").await;
    assert_eq!(condition(&told, "Stalled").unwrap().status, "True");
    quiet(&world, "watched").await;
    assert_eq!(posts(&world, 0), Vec::<String>::new());

    edit(&world, "watched", json!({"managementPolicy": "Manage"})).await;
    let web = world.ready("watched").await;
    let before = mark(&world, "watched").await;
    let other = json!({
        "managementPolicy": "Observe", "image": {"id": OTHER_IMAGE}, "powerState": "Stopped",
        "restart": {"token": "now"}, "reinstall": {"token": "now"},
    });
    edit(&world, "watched", other).await;
    let told = world.until_reason("watched", "ObservedOnly").await;
    assert_eq!(condition(&told, "Drifted").unwrap().status, "True");
    let server = world.only_server(&web).id;
    console(&world, Console::PowerOff { server });
    world
        .until("watched", "status is fresh", |instance| {
            instance.status.as_ref().unwrap().detail["ecsStatus"] == "STOPPED"
        })
        .await;
    edit(
        &world,
        "watched",
        json!({"image": {"id": IMAGE}, "restart": null, "reinstall": null}),
    )
    .await;
    // By now the server is stopped, as in the spec.
    world.ready("watched").await;
    edit(&world, "watched", json!({"powerState": "Running"})).await;
    world.until_reason("watched", "ObservedOnly").await;
    world.restart().await;
    quiet(&world, "watched").await;
    delete(&world, "watched").await;
    world.gone("watched").await;
    world.told("Retained", 1).await;
    world.only_server(&web);
    assert_eq!(posts(&world, before.seq), Vec::<String>::new());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_an_instance_is_paused_nothing_is_begun() {
    let mut world = Setup::default().begin("paused").await;
    example(&world, "instance-paused").await;
    let told = world.until_reason("held", "Paused").await;
    assert_eq!(condition(&told, "Reconciling").unwrap().status, "True");
    quiet(&world, "held").await;
    let told = world.get("held").await;
    assert!(
        told.metadata.finalizers.is_none(),
        "nothing but status is written"
    );
    assert!(told.metadata.annotations.is_none());
    assert_eq!(posts(&world, 0), Vec::<String>::new());
    edit(&world, "held", json!({"pause": null})).await;
    world.ready("held").await;

    let before = mark(&world, "held").await;
    let wish = json!({"pause": {}, "image": {"id": OTHER_IMAGE}, "restart": {"token": "now"}});
    edit(&world, "held", wish).await;
    world.until_reason("held", "Paused").await;
    world.restart().await;
    delete(&world, "held").await;
    let waits = |instance: &cloud_server_operator::api::Instance| {
        let told = condition(instance, "Ready").unwrap();
        told.message.contains("its deletion waits")
    };
    world.until("held", "its deletion waits", waits).await;
    quiet(&world, "held").await;
    assert_eq!(posts(&world, before.seq), Vec::<String>::new());

    // The pause ends at its time, without an event.
    let until = Timestamp::now() + SignedDuration::from_secs(4);
    let until = format!("{until:.0}");
    edit(&world, "held", json!({"pause": {"until": until}})).await;
    world.gone("held").await;
    assert_eq!(posts(&world, before.seq), ["release"]);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_flight_ends_during_a_pause_and_the_rest_waits_for_its_end() {
    let world = Setup::default().begin("paused-midway").await;
    endless(&world, Verb::Create);
    world.apply(&instance("web")).await;
    let web = world.until_reason("web", "Creating").await;
    edit(
        &world,
        "web",
        json!({"pause": {}, "restart": {"token": "now"}}),
    )
    .await;
    end_task(&world, &web).await;
    let told = have_ended(&world, "web", &Mark::default(), &[Verb::Create]).await;
    assert!(!is_ready(&told), "{}", reason(&told));
    let told = world.until_reason("web", "Paused").await;
    let detail = &told.status.as_ref().unwrap().detail;
    assert_eq!(detail["ecsStatus"], "STARTED");
    quiet(&world, "web").await;
    assert_eq!(posts(&world, 0), ["create"]);
    // A time in the past is not a pause.
    let past = json!({"pause": {"until": "2020-01-01T00:00:00+02:00"}});
    edit(&world, "web", past).await;
    world.ready("web").await;
    assert_eq!(create_calls(&world.sim), 1);
    assert!(counts(&world, Verb::Restart, None).0 <= 1);
    world.finish().await;
}
