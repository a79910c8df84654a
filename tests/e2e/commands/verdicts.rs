//! `plan`: policies, other managers, and malformed files.

use super::{exits, output_of, verdict};
use crate::support::{Setup, create_calls, instance, instance_by_key, with};
use cloud_simulator::catalogue;
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_field_of_another_manager_is_reported_with_the_manager_and_the_effect_of_force() {
    let world = Setup::default().own_ids().begin("plan-managers").await;
    let owned = with("web", |spec| spec["powerState"] = json!("Running"));
    world.apply(&owned).await;
    world.ready("web").await;
    let desired = with("web", |spec| spec["powerState"] = json!("Stopped"));
    let (found, status, one) = verdict(&world, &desired, "argocd-controller").await;
    assert_eq!((found.as_str(), status), ("inPlace", 2), "{one}");
    let notes = one["notes"].to_string();
    for word in [
        ".spec.powerState",
        "user",
        "--force-conflicts",
        "--field-manager",
    ] {
        assert!(notes.contains(word), "{word}: {one}");
    }
    assert_eq!(one["changes"][0]["field"], "spec.powerState");
    // Equal values of two managers are no conflict, and neither is a field with a single manager.
    for (manifest, manager) in [(&owned, "argocd-controller"), (&desired, "user")] {
        let (_, _, one) = verdict(&world, manifest, manager).await;
        assert_eq!(one["notes"], json!([]), "{one}");
    }
    // A field that its manager gives up is removed; a field that another manager also sets stays.
    let edit = json!({"spec": {"restart": {"token": "by-hand"}}}).to_string();
    let patch = [
        "patch",
        "instance",
        "web",
        "--type=merge",
        "--field-manager=hand",
        "-p",
        &edit,
    ];
    world.run(&patch, "").await;
    world
        .until("web", "is restarted", |web| {
            let status = web.status.as_ref().unwrap();
            let token = status
                .applied
                .as_ref()
                .and_then(|applied| applied.restart.as_deref());
            crate::support::is_ready(web) && token == Some("by-hand")
        })
        .await;
    let (found, _, one) = verdict(&world, &owned, "user").await;
    assert_eq!(found, "nothing", "{one}");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_in_a_file_is_reported_with_its_line_or_field() {
    let world = Setup::default()
        .own_ids()
        .without_operator()
        .begin("plan-wrong")
        .await;
    let good = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: other\n";
    let web = instance("web").to_string();
    let plan = async |text: &str| output_of(&world, &["plan", "-f", "-"], text).await;

    // Not YAML: the error names the position.
    let output = plan(&format!(
        "{good}---\nkind: Instance\nmetadata: {{name: web\nspec: 1\n"
    ))
    .await;
    output.assert(1, &["standard input", "line 8"]);
    // YAML, but not a manifest.
    let output = plan(&format!("{web}\n---\n{good}---\nmetadata:\n  name: web\n")).await;
    output.assert(1, &["standard input, line 8", "apiVersion"]);
    let output = plan(&format!("{web}\n---\njust words\n")).await;
    output.assert(1, &["standard input, line 3", "apiVersion"]);
    // A duplicate key: it is ambiguous which one counts.
    let output = plan(&format!("{good}---\nkind: a\nkind: b\n")).await;
    let words = [
        "key \"kind\" occurs twice",
        "standard input, line 7",
        "remove one of them",
    ];
    output.assert(1, &words);
    assert!(!output.err.contains("DuplicateKeyPolicy"), "{}", output.err);

    // A manifest that the cluster refuses is reported together with the others.
    let wrong = with("db", |spec| spec["package"] = json!({"cpu": "two"}));
    let output = plan(&format!("{web}\n---\n{wrong}\n")).await;
    let line = format!("{}/web: new server", world.namespace);
    let words = [
        line.as_str(),
        "db: refused",
        "spec.package.cpu",
        "standard input, line 3",
    ];
    output.assert(4, &words);
    let mut nameless = instance("x");
    nameless["metadata"] = json!({"labels": {}});
    let output = plan(&format!("{web}\n---\n{nameless}\n")).await;
    output.assert(
        4,
        &[line.as_str(), "metadata.name", "standard input, line 3"],
    );
    let mut old = instance("old");
    old["apiVersion"] = json!("cloudserver.dev/v1");
    let output = plan(&old.to_string()).await;
    output.assert(4, &["old: refused", "cloudserver.dev/v1alpha1"]);
    // A manifest that occurs twice: it is ambiguous which one counts.
    let later = with("web", |spec| spec["zone"] = json!("ru-moscow-1-b"));
    let output = plan(&format!("{web}\n---\n{later}\n")).await;
    output.assert(1, &["Instance web", "line 1", "line 3", "twice"]);
    // An empty input succeeds with a message, so that a pipeline does not overlook it.
    let output = plan("").await;
    output.assert(0, &["no Instance"]);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_the_service_does_not_list_is_reported_as_refused_with_similar_values() {
    let world = Setup::default().begin("plan-unlisted").await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    let example = catalogue::example();
    let mistyped = |id: &str| format!("{}x", &id[..id.len() - 1]);
    let bought = create_calls(&world.sim);
    for (name, field, wrong, near, reason) in [
        (
            "a",
            "/package/code",
            mistyped(example.package),
            example.package,
            "CreateRefused",
        ),
        (
            "b",
            "/image/id",
            mistyped(example.image),
            example.image,
            "CreateRefused",
        ),
        (
            "c",
            "/firewall/id",
            mistyped(example.firewall),
            example.firewall,
            "CreateRefused",
        ),
        (
            "d",
            "/zone",
            format!("{}x", example.zone),
            example.zone,
            "CreateRefused",
        ),
        (
            "e",
            "/region",
            format!("{}1", example.region),
            example.region,
            "CreateRefused",
        ),
        // The disk of the existing server would not be erased.
        (
            "web",
            "/image/id",
            mistyped(example.image),
            example.image,
            "OperationRefused",
        ),
    ] {
        let mut manifest = instance(name);
        *manifest["spec"].pointer_mut(field).unwrap() = json!(wrong);
        let output = exits(
            &world,
            4,
            &["plan", "-f", "-", "-o", "json"],
            &manifest.to_string(),
        )
        .await;
        let answer = &output.json()["instances"][0];
        assert_eq!(answer["verdict"], "refused", "{answer}");
        let effects = answer["effects"].as_array().unwrap();
        assert_eq!(effects.len(), 1, "nothing is bought or erased: {answer}");
        assert_eq!(effects[0]["reason"], reason, "{answer}");
        let why = effects[0]["why"].as_str().unwrap();
        let field = format!("spec{}", field.replace('/', "."));
        assert!(why.starts_with(&field) && why.contains(&wrong), "{why}");
        let listed = why.split_once("it lists ").unwrap().1;
        assert!(listed.starts_with(near), "the nearest first: {why}");
    }
    let mut by_key = instance_by_key("f");
    by_key["spec"]["login"]["sshKey"]["id"] = json!(mistyped(example.key));
    let output = output_of(&world, &["plan", "-f", "-"], &by_key.to_string()).await;
    output.assert(
        4,
        &[
            "refused",
            "spec.login.sshKey.id",
            mistyped(example.key).as_str(),
            example.key,
            "standard input, line 1",
        ],
    );
    assert!(!output.out.contains("new server"), "{}", output.out);
    assert_eq!(create_calls(&world.sim), bought);
    world.finish().await;
}
