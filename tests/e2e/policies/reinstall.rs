//! When a disk may be erased.

use super::{IMAGE, OTHER_IMAGE, edit, example, have_ended, manifest};
use crate::support::{
    Setup, World, at_rest, condition, counts, instance, mark, new_password, other_image, posts,
    quiet,
};
use cloud_server_operator::api::Verb;
use serde_json::json;

async fn waits(world: &World, name: &str, reason: &str, words: &[&str]) {
    let told = world.until_reason(name, reason).await;
    for (kind, status) in [("Ready", "False"), ("Stalled", "True")] {
        assert_eq!(condition(&told, kind).unwrap().status, status);
    }
    let message = &condition(&told, "Ready").unwrap().message;
    for word in words {
        assert!(message.contains(word), "{word:?} is not in: {message}");
    }
    assert_eq!(counts(world, Verb::Reinstall, None), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_request_a_disk_is_erased_once_its_image_is_acknowledged() {
    let world = Setup::default().begin("on-request").await;
    example(&world, "instance-reinstall-on-request").await;
    world.ready("careful").await;
    let before = mark(&world, "careful").await;
    edit(&world, "careful", json!({"image": {"id": OTHER_IMAGE}})).await;
    let erases = ["ERASES THE DISK", OTHER_IMAGE, "spec.reinstall.token"];
    waits(&world, "careful", "ReinstallNeedsApproval", &erases).await;
    quiet(&world, "careful").await;

    // A token that names no image, and one that names another image, start nothing.
    edit(&world, "careful", json!({"reinstall": {"token": "one"}})).await;
    world
        .until("careful", "has seen the token", |instance| {
            let status = instance.status.as_ref();
            status.map(|status| status.observed_generation) == instance.metadata.generation
        })
        .await;
    quiet(&world, "careful").await;
    let other = json!({"reinstall": {"token": "two", "image": IMAGE}});
    edit(&world, "careful", other).await;
    let words = ["acknowledges image img-debian12aaaa", OTHER_IMAGE];
    world
        .until("careful", "tells the other image", |instance| {
            let told = condition(instance, "Ready").unwrap();
            words.iter().all(|word| told.message.contains(word))
        })
        .await;
    assert_eq!(posts(&world, before.seq), Vec::<String>::new());

    // Changes of the power state continue meanwhile.
    edit(&world, "careful", json!({"powerState": "Stopped"})).await;
    have_ended(&world, "careful", &before, &[Verb::Stop]).await;
    waits(&world, "careful", "ReinstallNeedsApproval", &["ERASES"]).await;
    edit(&world, "careful", json!({"powerState": "Running"})).await;
    have_ended(&world, "careful", &before, &[Verb::Stop, Verb::Start]).await;

    let before = mark(&world, "careful").await;
    let named = json!({"reinstall": {"token": "two", "image": OTHER_IMAGE}});
    edit(&world, "careful", named).await;
    have_ended(&world, "careful", &before, &[Verb::Reinstall]).await;
    let server = at_rest(&world, &world.ready("careful").await);
    assert_eq!(server.image, OTHER_IMAGE);
    quiet(&world, "careful").await;
    assert_eq!(counts(&world, Verb::Reinstall, None), (1, 1));

    // The token is used up, so the reversed change waits again.
    edit(&world, "careful", json!({"image": {"id": IMAGE}})).await;
    world
        .until_reason("careful", "ReinstallNeedsApproval")
        .await;
    quiet(&world, "careful").await;
    edit(&world, "careful", json!({"image": {"id": OTHER_IMAGE}})).await;
    world.ready("careful").await;
    assert_eq!(counts(&world, Verb::Reinstall, None), (1, 1));
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_reinstall_is_forbidden_the_password_changes_and_the_image_does_not() {
    let world = Setup::default().begin("never").await;
    let mut manifest = instance("web");
    manifest["spec"]["reinstallPolicy"] = json!("Never");
    world.apply(&manifest).await;
    world.ready("web").await;
    let before = mark(&world, "web").await;
    let mut other = other_image("web");
    other["spec"]["reinstallPolicy"] = json!("Never");
    let wanted = other["spec"]["image"]["id"].clone();
    other["spec"]["reinstall"] = json!({"token": "now", "image": wanted});
    world.apply(&other).await;
    let words = ["ERASES THE DISK", "spec.reinstallPolicy is Never"];
    waits(&world, "web", "ReinstallForbidden", &words).await;
    new_password(&world).await;
    have_ended(&world, "web", &before, &[Verb::ModifyPassword]).await;
    waits(&world, "web", "ReinstallForbidden", &words).await;
    quiet(&world, "web").await;
    // A restart of the operator does not change that.
    let mut world = world;
    world.restart().await;
    quiet(&world, "web").await;
    let calls = posts(&world, before.seq);
    assert_eq!(calls, ["modifyInstancePassword"], "{}", world.ledger_text());
    world.apply(&manifest).await;
    world.ready("web").await;
    assert_eq!(counts(&world, Verb::Reinstall, None), (0, 0));
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_with_an_acknowledged_token_erases_the_disk_of_another_image_once() {
    let world = Setup::default().begin("acknowledged").await;
    // The server from before: with another image, and without a request.
    let mut before = manifest("instance-reinstall-acknowledged");
    before["spec"]["image"]["id"] = json!(IMAGE);
    before["spec"].as_object_mut().unwrap().remove("reinstall");
    world.apply(&before).await;
    let former = at_rest(&world, &world.ready("renewed").await);
    let before = mark(&world, "renewed").await;
    example(&world, "instance-reinstall-acknowledged").await;
    have_ended(&world, "renewed", &before, &[Verb::Reinstall]).await;
    let server = at_rest(&world, &world.ready("renewed").await);
    assert_eq!((server.id, server.image.as_str()), (former.id, OTHER_IMAGE));
    // Applied again, it requests nothing; the same image with a new token requests it again.
    example(&world, "instance-reinstall-acknowledged").await;
    quiet(&world, "renewed").await;
    assert_eq!(posts(&world, before.seq), ["reinstallSystem"]);
    let before = mark(&world, "renewed").await;
    let again = json!({"reinstall": {"token": "once more", "image": OTHER_IMAGE}});
    edit(&world, "renewed", again).await;
    have_ended(&world, "renewed", &before, &[Verb::Reinstall]).await;
    world.ready("renewed").await;
    quiet(&world, "renewed").await;
    assert_eq!(posts(&world, before.seq), ["reinstallSystem"]);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_that_forbids_reinstalls_keeps_its_disk_whatever_is_asked_for() {
    let world = Setup::default().begin("settled").await;
    example(&world, "instance-never-reinstalled").await;
    let former = at_rest(&world, &world.ready("settled").await);
    let before = mark(&world, "settled").await;
    let asked = json!({
        "image": {"id": OTHER_IMAGE}, "reinstall": {"token": "now", "image": OTHER_IMAGE},
    });
    edit(&world, "settled", asked).await;
    let words = [
        "ERASES THE DISK",
        OTHER_IMAGE,
        "spec.reinstallPolicy is Never",
    ];
    waits(&world, "settled", "ReinstallForbidden", &words).await;
    quiet(&world, "settled").await;
    assert_eq!(posts(&world, before.seq), Vec::<String>::new());
    // The power state is still managed.
    edit(&world, "settled", json!({"powerState": "Stopped"})).await;
    have_ended(&world, "settled", &before, &[Verb::Stop]).await;
    edit(
        &world,
        "settled",
        json!({"powerState": "Running", "image": {"id": IMAGE}, "reinstall": null}),
    )
    .await;
    have_ended(&world, "settled", &before, &[Verb::Stop, Verb::Start]).await;
    let server = at_rest(&world, &world.ready("settled").await);
    assert_eq!((server.id, server.image), (former.id, former.image));
    assert_eq!(posts(&world, before.seq), ["stop", "start"]);
    world.finish().await;
}
