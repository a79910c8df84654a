//! Selectors without a match, and lists that cannot be read: reported, while unaffected work continues.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn none_and_several_are_told_with_candidates_and_go_on_when_that_is_mended() {
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
        assert!(message(&none).contains(word), "{word}: {}", message(&none));
    }
    assert_eq!(
        message(&none).matches("img-").count(),
        4,
        "{}",
        message(&none)
    );
    let several = world.until_reason("several", "ReferenceAmbiguous").await;
    for word in [example.other_image, "img-debian-too", "spec.image.id"] {
        assert!(message(&several).contains(word), "{}", message(&several));
    }
    assert!(
        !message(&several).contains(example.image),
        "only those that fit"
    );
    let large = world.until_reason("large", "ReferenceNotFound").await;
    assert!(
        message(&large).contains("spec.package.code"),
        "{}",
        message(&large)
    );
    let far = world.until_reason("far", "ReferenceNotFound").await;
    assert!(
        message(&far).contains("ru-moscow-1 (Moscow)"),
        "{}",
        message(&far)
    );
    for told in [&none, &several, &large, &far] {
        assert!(condition(told, "Stalled").is_some(), "{}", outline(told));
        assert!(
            !told
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
    assert_eq!(at_rest(&world, &ready).image, example.image);
    let ready = world.ready("several").await;
    assert_eq!(at_rest(&world, &ready).image, example.other_image);
    world.delete("far").await;
    world.gone("far").await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_cannot_be_read_is_no_absence() {
    let world = Setup::default().begin("unread").await;
    let error = Act::Error {
        status: 503,
        code: "ServiceUnavailable".to_owned(),
        message: "later".to_owned(),
        retry_after: None,
        when: When::BeforeEffect,
    };
    let fault = world.sim.fault(Rule::on(IMAGES, error));
    world.apply(&named_image("web", UBUNTU)).await;
    let waiting = world.until_reason("web", "ReferenceLookupFailed").await;
    assert!(
        condition(&waiting, "Stalled").is_none(),
        "{}",
        outline(&waiting)
    );
    assert!(message(&waiting).contains("503"), "{}", message(&waiting));
    world.sim.faults().remove(fault);
    let ready = world.ready("web").await;
    assert_eq!(at_rest(&world, &ready).image, catalogue::example().image);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_that_is_not_found_holds_up_nothing_else() {
    let world = Setup::default().begin("not-held-up").await;
    world.apply(&named_image("web", UBUNTU)).await;
    world.ready("web").await;
    let before = mark(&world, "web").await;
    let manifest = with("web", |spec| {
        spec["image"] = json!({"name": "Ubuntu 99"});
        spec["powerState"] = json!("Stopped");
    });
    world.apply(&manifest).await;
    let stopped = world
        .until("web", "is stopped, and told what is missing", |web| {
            reason(web) == "ReferenceNotFound"
                && web.status.as_ref().unwrap().history[0].verb == Verb::Stop
        })
        .await;
    let server = world.only_server(&stopped);
    assert_eq!(
        (server.status, server.image.as_str()),
        ("STOPPED", catalogue::example().image)
    );
    // Reverting the edit requests nothing.
    let manifest = with("web", |spec| {
        spec["image"] = json!({"name": UBUNTU});
        spec["powerState"] = json!("Stopped");
    });
    world.apply(&manifest).await;
    done(&world, "web", &before, &[Verb::Stop]).await;
    quiet(&world, "web").await;
    world.finish().await;
}
