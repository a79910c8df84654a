//! The user's view through kubectl: the rules and their messages, columns, short names, the schema's descriptions.

mod cases;
mod login;
mod names;
mod nulls;
mod table;
mod transport;

use crate::support::{Setup, World, instance, with};
use cloud_simulator::catalogue;
use serde_json::{Value, json};

async fn rejected(world: &World, manifest: &Value, words: &[&str]) {
    let text = world.kubectl_apply(manifest).await.expect_err("accepted");
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
}

fn changed(path: &str, value: Value) -> Value {
    let mut manifest = instance("web");
    *manifest.pointer_mut(path).unwrap() = value;
    manifest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_the_service_cannot_make_is_refused_with_the_remedy() {
    let world = Setup::default().bare().begin("immutable").await;
    // Without a server, a typing error can be fixed.
    world
        .apply(&changed("/spec/package/code", json!("c1m1-mistyped")))
        .await;
    world.until_reason("web", "AccountNotFound").await;
    world.apply(&instance("web")).await;
    world.secret("cloud-token", "token", World::TOKEN).await;
    world.secret("login", "password", World::PASSWORD).await;
    world.account("default", world.sim.url()).await;
    world.ready("web").await;

    let example = catalogue::example();
    let new = "set it back; for another server, add an Instance with another name";
    rejected(
        &world,
        &changed("/spec/package/code", json!(example.other_package)),
        &["spec.package cannot be changed", "cannot resize", new],
    )
    .await;
    rejected(
        &world,
        &changed("/spec/region", json!("cn-dev-2")),
        &["spec.region cannot be changed", "a server cannot move", new],
    )
    .await;
    rejected(
        &world,
        &changed("/spec/zone", json!("ru-moscow-1-b")),
        &["spec.zone cannot be changed", "a server cannot move", new],
    )
    .await;
    rejected(
        &world,
        &changed("/spec/firewall/id", json!("fw-other")),
        &["spec.firewall cannot be changed", new],
    )
    .await;
    let mut other = instance("web");
    other["spec"]["accountRef"] = json!({"name": "other"});
    rejected(
        &world,
        &other,
        &["spec.accountRef cannot be changed", "another account", new],
    )
    .await;
    // Mutable fields can be changed.
    world
        .apply(&changed(
            "/spec/login",
            json!({"sshKey": {"id": example.key}}),
        ))
        .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_short_names_and_category_show_what_matters() {
    let world = Setup::default().begin("columns").await;
    world.apply(&instance("web")).await;
    let ready = world.ready("web").await;
    let status = ready.status.unwrap();
    let example = catalogue::example();

    // One with a package filter, one without a server yet, and one whose filter matches nothing.
    let fits = with("fits", |spec| {
        spec["package"] = json!({"cpu": 1, "memory": 2, "chargeMode": "PayByTraffic"});
    });
    let waits = with("waits", |spec| {
        spec["login"]["passwordSecretRef"]["name"] = json!("missing");
    });
    let large = with("large", |spec| spec["package"] = json!({"cpu": 5000}));
    for manifest in [fits, waits, large] {
        world.apply(&manifest).await;
    }
    world.ready("fits").await;
    world.until_reason("waits", "LoginSecretNotFound").await;
    world.until_reason("large", "ReferenceNotFound").await;
    let (_, text) = world.kubectl(&["get", "instances"], "").await;
    let header: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        header,
        [
            "NAME", "STATE", "ADDRESS", "IMAGE", "PACKAGE", "READY", "REASON", "AGE"
        ]
    );
    let at = text.find("PACKAGE").unwrap();
    for (name, package) in [
        ("web", example.package),
        ("fits", example.package),
        ("waits", example.package),
        ("large", ""),
    ] {
        let row = text
            .lines()
            .find(|line| line.split_whitespace().next() == Some(name));
        let shown = row.and_then(|row| row.get(at..)).unwrap_or_default();
        assert!(shown.starts_with(package), "{name}: {package}: {text}");
        assert_eq!(shown.starts_with(' '), package.is_empty(), "{name}: {text}");
    }

    let (_, text) = world.kubectl(&["get", "csinst", "-o", "wide"], "").await;
    let header: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        header,
        [
            "NAME", "STATE", "ADDRESS", "IMAGE", "PACKAGE", "READY", "REASON", "AGE", "REGION",
            "ID", "EXPIRES"
        ]
    );
    let row = text.lines().find(|line| line.starts_with("web ")).unwrap();
    let address = status.addresses.unwrap().public.unwrap();
    for value in [
        "web",
        "STARTED",
        &address,
        status.detail["imageName"].as_str().unwrap(),
        example.package,
        "True",
        example.region,
        &status.id.unwrap(),
    ] {
        assert!(row.contains(value), "{value:?} is not in {row:?}");
    }
    assert!(
        !row.contains("Available"),
        "a reason where all is well: {row:?}"
    );
    let waits = text.lines().find(|line| line.starts_with("waits"));
    assert!(waits.unwrap().contains("LoginSecretNotFound"), "{text}");

    let (_, text) = world.kubectl(&["get", "cloudserver"], "").await;
    assert!(
        text.contains("instance.cloudserver.dev/web")
            && text.contains("account.cloudserver.dev/default"),
        "{text}"
    );
    let (_, text) = world.kubectl(&["get", "csacct", "-o", "wide"], "").await;
    assert!(
        text.contains(world.sim.url()) && text.contains("Available"),
        "{text}"
    );
    let selector = format!("--field-selector=spec.region={}", example.region);
    let (_, text) = world
        .kubectl(&["get", "csinst", "-o", "name", &selector], "")
        .await;
    let mut all: Vec<&str> = text.lines().collect();
    all.sort_unstable();
    let named = |name| format!("instance.cloudserver.dev/{name}");
    assert_eq!(all, ["fits", "large", "waits", "web"].map(named));
    let (_, text) = world
        .kubectl(
            &[
                "get",
                "csinst",
                "-o",
                "name",
                "--field-selector=spec.region=elsewhere",
            ],
            "",
        )
        .await;
    assert_eq!(text.trim(), "");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_wait_and_explain_work() {
    let world = Setup::default().begin("explain").await;
    let (done, text) = world
        .kubectl(&["apply", "-f", "-"], &instance("web").to_string())
        .await;
    assert!(done, "{text}");
    let (done, text) = world
        .kubectl(
            &[
                "wait",
                "--for=condition=Ready",
                "--timeout=240s",
                "csinst/web",
            ],
            "",
        )
        .await;
    assert!(done, "{text}");
    for (path, words) in [
        ("instances.spec.package", "The service's packageCode"),
        (
            "instances.spec.login",
            "exactly one of a password, a key pair",
        ),
        ("instances.status.detail", "GiB"),
        ("instances.status.detail", "publicIpAddress <string>"),
        (
            "instances.status.detail.dataDiskInfoList.dataDiskSize",
            "Size of the disk, in GiB.",
        ),
        ("accounts.spec.settleSeconds", "seconds after which"),
    ] {
        let (done, text) = world.kubectl(&["explain", path], "").await;
        assert!(done, "{text}");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(words), "{path}: {text}");
    }
    world.finish().await;
}
