//! `force: true`: Flux deletes and re-creates an object whose edit the apiserver refuses.

use super::{Flux, first};
use crate::support::{Setup, counts, is_ready};
use cloud_server_operator::api::Verb;
use serde_json::json;

/// Commits an edit of web-1 that the apiserver refuses. Returns Flux's message.
async fn refused(flux: &mut Flux, field: &str, value: &str) -> String {
    flux.repository
        .spec("web-1", |spec| spec[field] = json!(value));
    let revision = flux.commit().await;
    flux.ends(&revision, "False").await.1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds a part of Flux: make gitops"]
async fn flux_with_force_keeps_a_protected_server_and_releases_another_for_a_typing_error() {
    let world = Setup::default()
        .bare()
        .keeps_tokens()
        .begin("flux-force")
        .await;
    let mut flux = Flux::start(&world).await;
    flux.begin(&world, false).await;
    flux.ends(&first(), "True").await;
    let force = json!({"spec": {"force": true}});
    flux.kustomizations.patch("team-a", &force).await;
    let before = world.get("web-1").await;
    let server = world.only_server(&before).id;

    // A typing error, and a field that is immutable.
    for (field, value) in [("powerState", "Stoped"), ("zone", "ru-moscow-1-b")] {
        let message = refused(&mut flux, field, value).await;
        assert!(message.contains("failed to delete object"), "{message}");
        assert!(message.contains("deletionProtection"), "{message}");
        let now = world.get("web-1").await;
        assert_eq!(now.metadata.uid, before.metadata.uid);
        assert_eq!(now.metadata.deletion_timestamp, None);
        assert!(is_ready(&now));
        assert_eq!(world.only_server(&now).id, server);
        flux.repository.spec("web-1", |spec| {
            spec["powerState"] = json!("Running");
            spec["zone"] = json!(before.spec.zone);
        });
        flux.applies().await;
    }
    assert_eq!(counts(&world, Verb::Release, None), (0, 0));
    assert_eq!(counts(&world, Verb::Create, None), (2, 2));

    // Without the protection the same typing error releases the server.
    flux.repository.unprotect("web-1");
    flux.applies().await;
    refused(&mut flux, "powerState", "Stoped").await;
    world.gone("web-1").await;
    assert_eq!(world.sim.live_servers().len(), 1, "{}", world.ledger_text());
    world.finish().await;
}
