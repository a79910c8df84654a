//! The fate of a server when its Instance is deleted.

use super::{delete, edit, example};
use crate::support::{
    Setup, World, condition, counts, eventually, instance, mark, posts, quiet, ready_message,
};
use cloud_server_operator::api::Verb;
use serde_json::json;

/// Waits until the policy of `deploy/` refuses a deletion, since the apiserver applies policies after a delay.
async fn refused(world: &World, arguments: &[&str]) {
    eventually("a deletion is refused", async || {
        let arguments = [arguments, &["--wait=false", "--dry-run=server"]].concat();
        match world.kubectl(&arguments, "").await {
            (false, text)
                if text.contains("spec.deletionProtection is true")
                    && text.contains("set it to false") =>
            {
                Ok(())
            }
            (done, text) => Err(format!("{done}: {text}")),
        }
    })
    .await;
}

/// With `--force` kubectl deletes and re-creates an object whose edit the apiserver refuses. If the apiserver refuses the new
/// object, too, kubectl restores the deleted one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forced_apply_keeps_a_protected_server_and_releases_another_for_a_typing_error() {
    let world = Setup::default().begin("forced").await;
    let forced = async |verb: &str, protection: bool| {
        let mut mistyped = instance("web");
        mistyped["spec"]["deletionProtection"] = json!(protection);
        mistyped["spec"]["powerState"] = json!("Stoped");
        let arguments = [verb, "--force", "-f", "-"];
        world.kubectl(&arguments, &mistyped.to_string()).await
    };
    let mut web = instance("web");
    web["spec"]["deletionProtection"] = json!(true);
    let apply = ["apply", "-f", "-"];
    world.run(&apply, &web.to_string()).await;
    let before = world.ready("web").await;
    let server = world.only_server(&before).id;
    refused(&world, &["delete", "instance", "web"]).await;
    for verb in ["apply", "replace"] {
        let (done, text) = forced(verb, true).await;
        assert!(!done, "{text}");
        assert!(text.contains("spec.deletionProtection is true"), "{text}");
    }
    let now = world.get("web").await;
    assert_eq!(now.metadata.uid, before.metadata.uid);
    assert_eq!(now.metadata.deletion_timestamp, None);
    assert_eq!(world.only_server(&now).id, server);

    web["spec"]["deletionProtection"] = json!(false);
    world.run(&apply, &web.to_string()).await;
    let (done, text) = forced("apply", false).await;
    assert!(!done && text.contains("powerState"), "{text}");
    eventually("the server is released", async || {
        let live = world.sim.live_servers();
        match live.iter().any(|live| live.id == server) {
            true => Err(world.ledger_text()),
            false => Ok(()),
        }
    })
    .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_protected_instance_is_not_deleted_and_one_that_is_keeps_its_server() {
    let world = Setup::default().begin("protected").await;
    example(&world, "instance-protected").await;
    world.ready("precious").await;
    refused(&world, &["delete", "instance", "precious"]).await;
    refused(&world, &["delete", "instances", "--all"]).await;
    let arguments = ["delete", "instance", "precious", "--wait=false"];
    let (done, text) = world.kubectl(&arguments, "").await;
    assert!(!done, "{text}");
    let kept = world.get("precious").await;
    assert!(kept.metadata.deletion_timestamp.is_none());

    // Deleted anyway, as without the policy: while the Instance is paused, nothing is released before it is protected again.
    let before = mark(&world, "precious").await;
    edit(
        &world,
        "precious",
        json!({"pause": {}, "deletionProtection": false}),
    )
    .await;
    world.until_reason("precious", "Paused").await;
    delete(&world, "precious").await;
    edit(
        &world,
        "precious",
        json!({"pause": null, "deletionProtection": true}),
    )
    .await;
    let refused = world.until_reason("precious", "DeletionProtected").await;
    assert_eq!(condition(&refused, "Stalled").unwrap().status, "True");
    let message = ready_message(&refused);
    assert!(
        message.contains("set spec.deletionProtection to false"),
        "{message}"
    );
    quiet(&world, "precious").await;
    assert_eq!(posts(&world, before.seq), Vec::<String>::new());
    edit(&world, "precious", json!({"deletionProtection": false})).await;
    world.gone("precious").await;
    assert_eq!(counts(&world, Verb::Release, None), (1, 1));
    world.finish().await;
}
