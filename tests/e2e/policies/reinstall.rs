//! When a disk may be erased.

use super::{IMAGE, OTHER_IMAGE, edit, example, have_ended};
use crate::support::{
    Setup, World, assert_idle, condition, counts, mark, posts, quiet, ready_message,
};
use cloud_server_operator::api::Verb;
use serde_json::json;

async fn waits(world: &World, name: &str, reason: &str, words: &[&str]) {
    let refused = world.until_reason(name, reason).await;
    for (kind, status) in [("Ready", "False"), ("Stalled", "True")] {
        assert_eq!(condition(&refused, kind).unwrap().status, status);
    }
    let message = ready_message(&refused);
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
    let words = ["a new token, but image img-debian12aaaa", OTHER_IMAGE];
    world
        .until("careful", "names the other image", |instance| {
            let ready = condition(instance, "Ready").unwrap();
            words.iter().all(|word| ready.message.contains(word))
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
    let server = assert_idle(&world, &world.ready("careful").await);
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
