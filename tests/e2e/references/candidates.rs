//! Selectors without a match, or with several: reported with candidates, and fixed without a restart.

use super::*;
use crate::support::ready_message;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_match_and_several_matches_are_reported_with_candidates_until_fixed() {
    let world = Setup::default().begin("candidates").await;
    // Before the list is read.
    another(&world, DEBIAN, "img-debian-too");
    world.apply(&named_image("none", "Ubuntu 24.04")).await;
    world.apply(&named_image("several", DEBIAN)).await;
    let large = with("large", |spec| spec["package"] = json!({"cpu": 5000}));
    world.apply(&large).await;
    let far = with("far", |spec| spec["region"] = json!("Atlantis"));
    world.apply(&far).await;
    let example = catalogue::example();

    let none = world.until_reason("none", "ReferenceNotFound").await;
    for word in [
        "spec.image",
        "\"Ubuntu 24.04\"",
        example.image,
        UBUNTU,
        "spec.image.id",
    ] {
        assert!(
            ready_message(&none).contains(word),
            "{word}: {}",
            ready_message(&none)
        );
    }
    assert_eq!(
        ready_message(&none).matches("img-").count(),
        4,
        "{}",
        ready_message(&none)
    );
    let several = world.until_reason("several", "ReferenceAmbiguous").await;
    for word in [example.other_image, "img-debian-too", "spec.image.id"] {
        assert!(
            ready_message(&several).contains(word),
            "{}",
            ready_message(&several)
        );
    }
    assert!(
        !ready_message(&several).contains(example.image),
        "only those that fit"
    );
    let large = world.until_reason("large", "ReferenceNotFound").await;
    assert!(
        ready_message(&large).contains("spec.package.code"),
        "{}",
        ready_message(&large)
    );
    let far = world.until_reason("far", "ReferenceNotFound").await;
    assert!(
        ready_message(&far).contains("ru-moscow-1 (Moscow)"),
        "{}",
        ready_message(&far)
    );
    for refused in [&none, &several, &large, &far] {
        assert!(
            condition(refused, "Stalled").is_some(),
            "{}",
            outline(refused)
        );
        assert!(
            !refused
                .metadata
                .finalizers
                .iter()
                .flatten()
                .any(|f| f.contains("release"))
        );
    }
    assert_eq!(posts(&world, 0), Vec::<String>::new());

    // One is fixed by an edit, one at the service, and one is deleted.
    world.apply(&named_image("none", UBUNTU)).await;
    withdraw(&world, "img-debian-too");
    let ready = world.ready("none").await;
    assert_eq!(assert_idle(&world, &ready).image, example.image);
    let ready = world.ready("several").await;
    assert_eq!(assert_idle(&world, &ready).image, example.other_image);
    world.delete("far").await;
    world.gone("far").await;
    world.finish().await;
}
