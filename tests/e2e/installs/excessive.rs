//! The operator tests that it lacks excessive permissions, and reports those that it has.

use crate::support::{Setup, Shared, World, eventually, get, own, ready_message, with};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;

const POLICY: &str = "validatingadmissionpolicybinding/cloud-server-operator-secrets";
const WHAT: [&str; 3] = ["service_account_token", "foreign_secret", "system_secret"];

/// The condition of the Account that reports excessive permissions.
async fn excessive_permissions(world: &World) -> Option<Condition> {
    let account = world.accounts().get("default").await.unwrap();
    let conditions = account.status.unwrap_or_default().conditions;
    conditions
        .into_iter()
        .find(|c| c.type_ == "ExcessivePermissions")
}

/// Waits until the metrics report each permission as excessive, or as not.
async fn until_metric(world: &mut World, is_unsafe: bool) {
    let url = world.operator().url("metrics").await;
    eventually(&format!("excessive permissions: {is_unsafe}"), async || {
        let (_, _, text) = get(&url).await?;
        let value = u8::from(is_unsafe);
        let line = |what| {
            format!(
                "cloud_server_operator_excessive_permissions{{permission=\"{what}\"}} {value}\n"
            )
        };
        match WHAT.iter().all(|what| text.contains(&line(what))) {
            true => Ok(()),
            false => {
                let lines = text
                    .lines()
                    .filter(|line| line.contains("excessive_permissions"));
                Err(lines.collect::<Vec<_>>().join("\n"))
            }
        }
    })
    .await;
}

/// The Account's condition once it contains all of these words: findings are reported as they are made.
async fn until_reported(world: &World, words: &[&str]) -> Condition {
    eventually("the Account reports excessive permissions", async || {
        let found = excessive_permissions(world).await;
        let found = found.ok_or_else(|| "no such condition".to_owned())?;
        match words.iter().all(|words| found.message.contains(words)) {
            true => Ok(found),
            false => Err(found.message),
        }
    })
    .await
}

async fn until_gone(world: &World) {
    eventually(
        "the Account no longer reports excessive permissions",
        async || match excessive_permissions(world).await {
            None => Ok(()),
            Some(found) => Err(found.message),
        },
    )
    .await;
}

/// The Secrets that exist or were created by the tests of permissions, except those that this test made.
async fn secrets(world: &World) -> Vec<String> {
    let (done, names) = world
        .kubectl(&["get", "secrets", "-A", "-o", "name"], "")
        .await;
    assert!(done, "{names}");
    let mut names: Vec<String> = names.lines().map(ToOwned::to_owned).collect();
    names.retain(|name| name.contains("must-be-refused"));
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn excessive_permissions_are_reported_until_they_are_gone() {
    let setup = Setup::default().cluster(own().await);
    let mut world = setup.begin("unsafe").await;
    until_metric(&mut world, false).await;
    assert!(excessive_permissions(&world).await.is_none());
    assert!(
        !world.logs().contains("ServiceAccount may"),
        "{}",
        world.logs()
    );

    // The policy is deleted: the running process notices.
    world.run(&["delete", POLICY], "").await;
    until_metric(&mut world, true).await;
    let words = [
        "tokens of ServiceAccounts",
        "belong to no Instance",
        "deploy/shared",
    ];
    let found = until_reported(&world, &words).await;
    assert_eq!(
        (found.status.as_str(), found.reason.as_str()),
        ("True", "DryRunAccepted")
    );
    let account = world.accounts().get("default").await.unwrap();
    let conditions = account.status.unwrap().conditions;
    assert!(
        conditions
            .iter()
            .any(|c| c.type_ == "Ready" && c.status == "True"),
        "all else works: {conditions:?}"
    );
    let logs = world.logs();
    let warnings: Vec<&str> = logs
        .lines()
        .filter(|line| line.contains("deploy/shared"))
        .collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("WARN") && warnings[0].contains("kube-system"),
        "{}",
        warnings[0]
    );
    // The operator does not use a permission that it has only because the policy is missing.
    let generated = with("web", |spec| spec["login"] = json!({"generate": {}}));
    world.apply(&generated).await;
    let waits = world.until_reason("web", "SecretNotWritable").await;
    let message = ready_message(&waits);
    assert!(message.contains("deploy/shared"), "{message}");
    // A new process reports the same.
    world.restart().await;
    until_metric(&mut world, true).await;

    let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/shared");
    world
        .run(&["apply", "--server-side", "-k", shared], "")
        .await;
    until_metric(&mut world, false).await;
    until_gone(&world).await;
    world.ready("web").await;

    // A role that grants everything: no policy confines an administrator.
    let admin = [
        "create",
        "clusterrolebinding",
        "too-much",
        "--clusterrole=cluster-admin",
        "--serviceaccount=cloud-server-system:cloud-server-operator",
    ];
    world.run(&admin, "").await;
    until_metric(&mut world, true).await;
    until_reported(&world, &[]).await;
    world
        .run(&["delete", "clusterrolebinding", "too-much"], "")
        .await;
    until_metric(&mut world, false).await;
    until_gone(&world).await;
    assert_eq!(secrets(&world).await, [""; 0], "nothing was stored");
    let tried = world.audit_text().await;
    let tried = tried
        .lines()
        .filter(|line| line.contains(Shared::USER) && line.contains("dryRun=All"));
    assert!(tried.count() > 0, "it is tried in the watched namespace");
    world.finish().await;
}
