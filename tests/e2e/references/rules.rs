//! Selectors of immutable fields are immutable, once there is a server.

use super::by_name;
use crate::support::{Setup, World};
use serde_json::{Value, json};

async fn refused(world: &World, manifest: &Value, words: &str) {
    let text = world.kubectl_apply(manifest).await.expect_err("accepted");
    assert!(text.contains(words), "{words:?} is not in: {text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_selector_of_an_immutable_field_is_immutable() {
    let world = Setup::default().begin("fixed-name").await;
    world.apply(&by_name("web")).await;
    world.ready("web").await;
    for (path, value, words) in [
        (
            "/spec/package/cpu",
            json!(2),
            "spec.package cannot be changed",
        ),
        (
            "/spec/firewall/name",
            json!("web-2"),
            "spec.firewall cannot be changed",
        ),
        (
            "/spec/region",
            json!("ru-moscow-1"),
            "spec.region cannot be changed",
        ),
    ] {
        let mut manifest = by_name("web");
        *manifest.pointer_mut(path).unwrap() = value;
        refused(&world, &manifest, words).await;
    }
    world.finish().await;
}
