//! `plan`: a correct prediction before a manifest is applied.

use super::{PLUGIN, exits, output_of, run, verdict};
use crate::support::{
    Mark, Setup, World, insist, instance, mark, other_image, posts, stopped, token, with,
};
use serde_json::{Value, json};
use tokio::process::Command;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_verdict_has_its_exit_status_and_nothing_is_done() {
    let world = Setup::default().own_ids().begin("plan").await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    let Mark { seq, .. } = mark(&world, "web").await;
    let before = world.get("web").await;

    let held = with("web", |spec| {
        spec["image"] = other_image("web")["spec"]["image"].clone();
        spec["reinstallPolicy"] = json!("OnRequest");
    });
    let paused = with("web", |spec| {
        spec["image"] = other_image("web")["spec"]["image"].clone();
        spec["pause"] = json!({});
    });
    let secretless = with("db", |spec| {
        spec["login"]["passwordSecretRef"]["name"] = json!("missing");
    });
    let named = with("db", |spec| {
        spec["image"] = json!({"name": "No Such System"});
    });
    let moved = with("web", |spec| spec["zone"] = json!("elsewhere-1-b"));
    let mistyped = with("web", |spec| spec["powerstate"] = json!("Running"));
    let spec_only = with("web", |spec| spec["deletionPolicy"] = json!("Retain"));
    let without_account = with("db", |spec| spec["accountRef"] = json!({"name": "no-such"}));
    for (manifest, expected, status, words) in [
        (instance("web"), "nothing", 0, "as in the file"),
        (spec_only, "inPlace", 2, "only the object changes"),
        (stopped("web"), "inPlace", 2, "spec.powerState is Stopped"),
        (token("web", "kernel"), "restart", 2, "none → kernel"),
        (other_image("web"), "erasesDisk", 3, " → "),
        (instance("db"), "newServer", 3, "package"),
        (held, "waits", 4, "ERASES THE DISK"),
        (paused, "waits", 4, "paused"),
        (secretless, "waits", 4, "missing"),
        (named, "waits", 4, "No Such System"),
        (without_account, "waits", 4, "no-such"),
        (moved, "refused", 4, "spec.zone cannot be changed"),
        (mistyped, "refused", 4, "powerstate"),
    ] {
        let (found, code, one) = verdict(&world, &manifest, "user").await;
        assert_eq!((found.as_str(), code), (expected, status), "{one}");
        assert!(one.to_string().contains(words), "{words}: {one}");
    }
    // The description of a changed image names the field and its former value.
    let (_, _, one) = verdict(&world, &other_image("web"), "user").await;
    let change = &one["changes"][0];
    assert_eq!(change["field"], "spec.image.id");
    assert_eq!(change["from"], instance("web")["spec"]["image"]["id"]);

    let after = world.get("web").await;
    assert_eq!(after.spec, before.spec, "nothing is written");
    assert_eq!(after.metadata.annotations, before.metadata.annotations);
    assert_eq!(after.metadata.generation, before.metadata.generation);
    assert!(
        insist("read it", async || world.instances().get_opt("db").await)
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(posts(&world, seq), Vec::<String>::new());
    world.finish().await;
}

/// The same for a client-side apply by kubectl.
async fn by_kubectl(world: &World, manifest: &Value) -> (String, Value) {
    let flags = ["plan", "-f", "-", "-o", "json"];
    let output = output_of(world, &flags, &manifest.to_string()).await;
    let one = output.json()["instances"][0].clone();
    assert!(one["notes"].as_array().unwrap().is_empty(), "{one}");
    (one["verdict"].as_str().unwrap().to_owned(), one)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operator_does_what_plan_predicted() {
    let mut world = Setup::default().own_ids().begin("plan-true").await;
    // A client-side apply, as most users do it, in which fields disappear when they are removed from the file.
    let first = with("web", |spec| spec["restart"] = json!({"token": "a"}));
    world.run(&["apply", "-f", "-"], &first.to_string()).await;
    world.ready("web").await;
    let (verdict, one) = by_kubectl(&world, &instance("web")).await;
    assert_eq!(
        verdict, "inPlace",
        "a token that goes asks for nothing: {one}"
    );
    assert_eq!(one["changes"][0]["to"], Value::Null);

    for (manifest, expected, path) in [
        (stopped("web"), "inPlace", "/instance/stop"),
        (instance("web"), "inPlace", "/instance/start"),
        (token("web", "b"), "restart", "/instance/restart"),
        (
            other_image("web"),
            "erasesDisk",
            "/instance/reinstallSystem",
        ),
    ] {
        let (verdict, one) = by_kubectl(&world, &manifest).await;
        assert_eq!(verdict, expected, "{one}");
        let done = world.sim.ledger().count(path);
        world
            .run(&["apply", "-f", "-"], &manifest.to_string())
            .await;
        let generation = world.get("web").await.metadata.generation;
        world
            .until("web", "is as applied", |web| {
                let observed = web.status.as_ref().map(|status| status.observed_generation);
                observed == generation && crate::support::is_ready(web)
            })
            .await;
        assert_eq!(
            world.sim.ledger().count(path),
            done + 1,
            "{path}: {}",
            world.ledger_text()
        );
        let (verdict, one) = by_kubectl(&world, &manifest).await;
        assert_eq!(verdict, "nothing", "planned again: {one}");
    }
    // Another password is not a change of the object. No operator sets it meanwhile.
    world.kill();
    world.secret("login", "password", World::NEW_PASSWORD).await;
    let (verdict, one) = by_kubectl(&world, &other_image("web")).await;
    assert_eq!(verdict, "inPlace", "{one}");
    assert!(
        one.to_string().contains("this version of Secret login"),
        "{one}"
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_all_shapes_are_read_and_other_objects_are_skipped() {
    let world = Setup::default()
        .own_ids()
        .without_operator()
        .begin("plan-files")
        .await;
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [instance("a"), instance("b")]});
    let many = format!(
        "---\n{}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: other}}\n---\n{}\n",
        instance("c"),
        list
    );
    let (one, two) = (
        write("one.yaml", many),
        write("two.json", instance("d").to_string()),
    );
    let output = exits(&world, 3, &["plan", "-f", &one, "-f", &two], "").await;
    for name in ["a", "b", "c", "d"] {
        let line = format!("{}/{name}: new server", world.namespace);
        assert!(output.out.contains(&line), "{line}: {}", output.out);
    }
    assert!(
        output.out.ends_with("4 Instances: 4 new servers\n"),
        "{}",
        output.out
    );
    assert!(
        output.err.contains("skipped: ConfigMap other"),
        "{}",
        output.err
    );
    // A file for kustomize is not a manifest that users apply.
    let kustomize =
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [one.yaml]\n";
    write("kustomization.yaml", kustomize.to_owned());
    let whole = directory.path().display().to_string();
    let output = output_of(&world, &["plan", "-f", &whole], "").await;
    assert!(
        output.out.ends_with("4 Instances: 4 new servers\n"),
        "{}",
        output.out
    );
    assert!(!output.err.contains("Kustomization"), "{}", output.err);

    // The Account's limit counts all Instances of a file together.
    let few = json!({"spec": {"maxInstances": 3}}).to_string();
    world
        .run(
            &["patch", "account", "default", "--type=merge", "-p", &few],
            "",
        )
        .await;
    let output = exits(&world, 4, &["plan", "-f", &whole], "").await;
    assert!(output.out.contains("AccountLimitReached"), "{}", output.out);

    for (text, word) in [
        ("a: 1".to_owned(), "not a manifest"),
        ("{".to_owned(), "could not be read as YAML or JSON"),
    ] {
        let output = output_of(&world, &["plan", "-f", "-"], &text).await;
        assert!(
            output.status == 1 && output.err.contains(word),
            "{}",
            output.err
        );
    }
    let mut elsewhere = instance("a");
    elsewhere["metadata"]["namespace"] = json!("another");
    let output = output_of(&world, &["plan", "-f", "-"], &elsewhere.to_string()).await;
    assert!(
        output.status == 1 && output.err.contains("-n"),
        "{}",
        output.err
    );
    let mut command = Command::new(PLUGIN);
    command
        .args(["plan", "--kubeconfig"])
        .arg(world.shared.cluster.kubeconfig_path());
    let nowhere = run(command.args(["-f", "-"]), &elsewhere.to_string()).await;
    assert_eq!(nowhere.status, 4, "{}", nowhere.out);
    assert!(
        nowhere.out.contains("create namespace another"),
        "{}",
        nowhere.out
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_more_than_a_thousand_documents_is_planned_whole() {
    const COUNT: usize = 1_100;
    let world = Setup::default()
        .own_ids()
        .without_operator()
        .begin("plan-many")
        .await;
    let all: String = (0..COUNT)
        .map(|n| format!("---\n{}\n", instance(&format!("web-{n}"))))
        .collect();
    let output = exits(&world, 3, &["plan", "-f", "-", "-o", "json"], &all).await;
    let planned = output.json()["instances"].as_array().unwrap().clone();
    assert_eq!(planned.len(), COUNT);
    assert!(planned.iter().all(|one| one["verdict"] == "newServer"));
    world.finish().await;
}
