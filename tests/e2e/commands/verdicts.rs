//! `plan`: policies, other managers, and malformed files.

use super::{Told, asked};
use crate::support::{
    Mark, Setup, World, busy, console, create_calls, instance, instance_by_key, mark, other_image,
    posts, with,
};
use cloud_simulator::catalogue;
use cloud_simulator::model::Console;
use serde_json::{Value, json};

/// The verdict, the exit status, and the whole output for the only Instance.
async fn verdict(world: &World, manifest: &Value, manager: &str) -> (String, i32, Value) {
    let flags = ["plan", "-f", "-", "-o", "json", "--field-manager", manager];
    let told = asked(world, &flags, &manifest.to_string()).await;
    let one = told.json()["instances"][0].clone();
    let verdict = one["verdict"].as_str().unwrap().to_owned();
    (verdict, told.status, one)
}

async fn assert_verdicts(world: &World, wanted: Vec<(Value, &str, i32, &str)>) {
    for (manifest, verdict, status, words) in wanted {
        let (found, code, one) = self::verdict(world, &manifest, "user").await;
        assert_eq!(
            (found.as_str(), code),
            (verdict, status),
            "{manifest}\n{one}"
        );
        assert!(
            one.to_string().contains(words),
            "{words}: {manifest}\n{one}"
        );
    }
}

/// The Instance with these fields in its spec.
fn of(name: &str, spec: &Value) -> Value {
    with(name, |fields| {
        for (field, value) in spec.as_object().unwrap() {
            fields[field] = value.clone();
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_policy_has_its_verdict() {
    let world = Setup::default().own_ids().begin("plan-policies").await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    let Mark { seq, .. } = mark(&world, "web").await;
    let image = json!({"id": catalogue::example().other_image});
    let acknowledged = json!({"token": "1", "image": image["id"]});
    let wrong = json!({"token": "1", "image": catalogue::example().image});
    let web = |spec: Value| of("web", &spec);
    let db = |spec: Value| of("db", &spec);
    assert_verdicts(
        &world,
        vec![
            // managementPolicy Observe.
            (web(json!({"managementPolicy": "Observe"})), "inPlace", 2, "only the object changes"),
            (web(json!({"managementPolicy": "Observe", "image": image})), "waits", 4, "ObservedOnly"),
            (web(json!({"managementPolicy": "Observe", "powerState": "Stopped"})), "waits", 4, "ObservedOnly"),
            (db(json!({"managementPolicy": "Observe"})), "waits", 4, "NoServer"),
            // A pause.
            (web(json!({"pause": {}})), "inPlace", 2, "only the object changes"),
            (web(json!({"pause": {}, "restart": {"token": "1"}})), "waits", 4, "Paused"),
            (db(json!({"pause": {}})), "waits", 4, "Paused"),
            (db(json!({"pause": {"until": "2020-01-01T00:00:00Z"}})), "newServer", 3, "create"),
            // Disks.
            (web(json!({"reinstallPolicy": "OnRequest", "image": image})), "waits", 4, "ReinstallNeedsApproval"),
            (web(json!({"reinstallPolicy": "OnRequest", "image": image, "reinstall": wrong})), "waits", 4, "ReinstallNeedsApproval"),
            (web(json!({"reinstallPolicy": "OnRequest", "image": image, "reinstall": acknowledged})), "erasesDisk", 3, "reinstall"),
            (web(json!({"reinstallPolicy": "Never", "image": image})), "waits", 4, "ReinstallForbidden"),
            (web(json!({"reinstallPolicy": "Never", "image": image, "reinstall": acknowledged})), "waits", 4, "ReinstallForbidden"),
            (web(json!({"reinstall": {"token": "1"}})), "erasesDisk", 3, "reinstall"),
            // A policy that holds up one change does not hold up others, and both are reported.
            (web(json!({"reinstallPolicy": "Never", "image": image, "powerState": "Stopped"})), "waits", 4, "spec.powerState is Stopped"),
            // Deletion protection only changes the object.
            (web(json!({"deletionProtection": true})), "inPlace", 2, "spec.deletionProtection"),
            (db(json!({"deletionProtection": true})), "newServer", 3, "create"),
        ],
    )
    .await;
    assert_eq!(posts(&world, seq), Vec::<String>::new());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_somebody_else_released_is_bought_anew_only_where_that_is_asked_for() {
    let world = Setup::default().own_ids().begin("plan-missing").await;
    world.apply(&instance("web")).await;
    let server = world.only_server(&world.ready("web").await).id;
    busy(&world).await;
    console(&world, Console::Release { server });
    world.until_reason("web", "ServerMissing").await;
    let Mark { seq, .. } = mark(&world, "web").await;
    let recreate = |limit: u32| {
        of(
            "web",
            &json!({"onExternalDeletion": "Recreate", "recreateLimit": limit}),
        )
    };
    assert_verdicts(
        &world,
        vec![
            (instance("web"), "waits", 4, "ServerMissing"),
            (other_image("web"), "waits", 4, "ServerMissing"),
            (recreate(1), "newServer", 3, "create"),
            (recreate(0), "waits", 4, "RecreateLimitReached"),
        ],
    )
    .await;
    assert_eq!(posts(&world, seq), Vec::<String>::new());
    // The predicted operation happens.
    world.apply(&recreate(1)).await;
    world.ready("web").await;
    assert_eq!(posts(&world, seq), ["create"]);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_field_that_somebody_else_manages_is_named_with_who_and_what_force_would_make() {
    let world = Setup::default().own_ids().begin("plan-managers").await;
    let owned = with("web", |spec| spec["powerState"] = json!("Running"));
    world.apply(&owned).await;
    world.ready("web").await;
    let wanted = with("web", |spec| spec["powerState"] = json!("Stopped"));
    let (found, status, one) = verdict(&world, &wanted, "argocd-controller").await;
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
    for (manifest, manager) in [(&owned, "argocd-controller"), (&wanted, "user")] {
        let (_, _, one) = verdict(&world, manifest, manager).await;
        assert_eq!(one["notes"], json!([]), "{one}");
    }
    // A field that its manager gives up is removed; a field that another manager also sets stays.
    let told = json!({"spec": {"restart": {"token": "by-hand"}}}).to_string();
    let patch = [
        "patch",
        "instance",
        "web",
        "--type=merge",
        "--field-manager=hand",
        "-p",
        &told,
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

fn assert_told(told: &Told, status: i32, words: &[&str]) {
    let all = format!("{}{}", told.out, told.err);
    assert_eq!(told.status, status, "{all}");
    for word in words {
        assert!(all.contains(word), "{word}: {all}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_in_a_file_is_told_with_line_or_field() {
    let world = Setup::default()
        .own_ids()
        .without_operator()
        .begin("plan-wrong")
        .await;
    let good = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: other\n";
    let web = instance("web").to_string();
    let plan = async |text: &str| asked(&world, &["plan", "-f", "-"], text).await;

    // Not YAML: the error names the position.
    let told = plan(&format!(
        "{good}---\nkind: Instance\nmetadata: {{name: web\nspec: 1\n"
    ))
    .await;
    assert_told(&told, 1, &["standard input", "line 8"]);
    // YAML, but not a manifest.
    let told = plan(&format!("{web}\n---\n{good}---\nmetadata:\n  name: web\n")).await;
    assert_told(&told, 1, &["standard input, line 8", "apiVersion"]);
    let told = plan(&format!("{web}\n---\njust words\n")).await;
    assert_told(&told, 1, &["standard input, line 3", "apiVersion"]);
    // A duplicate key: it is ambiguous which one counts.
    let told = plan(&format!("{good}---\nkind: a\nkind: b\n")).await;
    let words = [
        "key \"kind\" occurs twice",
        "standard input, line 7",
        "remove one of them",
    ];
    assert_told(&told, 1, &words);
    assert!(!told.err.contains("DuplicateKeyPolicy"), "{}", told.err);

    // A manifest that the cluster refuses is reported together with the others.
    let wrong = with("db", |spec| spec["package"] = json!({"cpu": "two"}));
    let told = plan(&format!("{web}\n---\n{wrong}\n")).await;
    let line = format!("{}/web: new server", world.namespace);
    let words = [
        line.as_str(),
        "db: refused",
        "spec.package.cpu",
        "standard input, line 3",
    ];
    assert_told(&told, 4, &words);
    let mut nameless = instance("x");
    nameless["metadata"] = json!({"labels": {}});
    let told = plan(&format!("{web}\n---\n{nameless}\n")).await;
    assert_told(
        &told,
        4,
        &[line.as_str(), "metadata.name", "standard input, line 3"],
    );
    let mut old = instance("old");
    old["apiVersion"] = json!("cloudserver.dev/v1");
    let told = plan(&old.to_string()).await;
    assert_told(&told, 4, &["old: refused", "cloudserver.dev/v1alpha1"]);
    // A manifest that occurs twice: it is ambiguous which one counts.
    let later = with("web", |spec| spec["zone"] = json!("ru-moscow-1-b"));
    let told = plan(&format!("{web}\n---\n{later}\n")).await;
    assert_told(&told, 1, &["Instance web", "line 1", "line 3", "twice"]);
    // An empty input succeeds with a message, so that a pipeline does not overlook it.
    let told = plan("").await;
    assert_told(&told, 0, &["no Instance"]);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_service_does_not_list_is_told_as_refused_with_what_comes_near() {
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
        let told = asked(
            &world,
            &["plan", "-f", "-", "-o", "json"],
            &manifest.to_string(),
        )
        .await;
        assert_eq!(told.status, 4, "{field}: {}{}", told.out, told.err);
        let answer = &told.json()["instances"][0];
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
    let told = asked(&world, &["plan", "-f", "-"], &by_key.to_string()).await;
    assert_told(
        &told,
        4,
        &[
            "refused",
            "spec.login.sshKey.id",
            mistyped(example.key).as_str(),
            example.key,
            "standard input, line 1",
        ],
    );
    assert!(!told.out.contains("new server"), "{}", told.out);
    assert_eq!(create_calls(&world.sim), bought);
    world.finish().await;
}
