//! `deploy/records`: only operators and explicitly named accounts can add or change records and finalizers.

use crate::support::{Setup, World, create_calls, eventually, instance, own};
use cloud_server_operator::api::Instance;
use cloud_server_operator::api::names::{BINDING, FINALIZER};
use kube::ResourceExt;
use serde_json::json;

const RECORDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/records");

/// A user with the cluster's role `edit` in the namespace of the world, by impersonation.
struct Developer {
    user: String,
}

impl Developer {
    async fn of(world: &World) -> Self {
        let name = "developer";
        world.run(&["create", "serviceaccount", name], "").await;
        let account = format!("--serviceaccount={}:{name}", world.namespace);
        world
            .run(
                &[
                    "create",
                    "rolebinding",
                    name,
                    "--clusterrole=edit",
                    &account,
                ],
                "",
            )
            .await;
        let user = format!("system:serviceaccount:{}:{name}", world.namespace);
        Self { user }
    }

    async fn does(&self, world: &World, arguments: &[&str], input: &str) -> Result<(), String> {
        let all = [&["--as", &self.user], arguments].concat();
        match world.kubectl(&all, input).await {
            (true, _) => Ok(()),
            (false, why) => Err(why),
        }
    }

    async fn is_refused(&self, world: &World, arguments: &[&str], input: &str, words: &str) {
        let why = self
            .does(world, arguments, input)
            .await
            .expect_err("accepted");
        assert!(
            why.contains(words) && why.contains("cloudserver-record-writer"),
            "{why}"
        );
    }
}

fn record(instance: &Instance) -> String {
    instance.annotations()[BINDING].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_policy_refuses_forged_records_and_allows_replace() {
    let setup = Setup::default().cluster(own().await);
    let world = setup.begin("records").await;
    world
        .run(&["apply", "--server-side", "-k", RECORDS], "")
        .await;
    let developer = Developer::of(&world).await;
    // The apiserver applies policies and roles after a delay.
    let mut forged = instance("thief");
    forged["metadata"]["annotations"] = json!({BINDING: "{}"});
    let forge = ["create", "--dry-run=server", "-f", "-"];
    eventually("the policy is in force", async || {
        match developer.does(&world, &forge, &forged.to_string()).await {
            Err(why) if why.contains("cloudserver-records") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;

    // The developer's own work, and the operator's, are allowed.
    for name in ["web", "db"] {
        let apply = ["apply", "--server-side", "-f", "-"];
        developer
            .does(&world, &apply, &instance(name).to_string())
            .await
            .unwrap();
    }
    let (web, db) = (world.ready("web").await, world.ready("db").await);
    assert!(web.finalizers().contains(&FINALIZER.to_owned()));

    // The record of another Instance, by every kind of write.
    let stolen = record(&web);
    forged["metadata"]["annotations"] = json!({BINDING: stolen});
    let words = "the operator's record of a server";
    developer
        .is_refused(&world, &["create", "-f", "-"], &forged.to_string(), words)
        .await;
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    developer
        .is_refused(&world, &apply, &forged.to_string(), words)
        .await;
    let annotation = format!("{BINDING}={stolen}");
    let annotate = ["annotate", "--overwrite", "instance", "db", &annotation];
    developer.is_refused(&world, &annotate, "", words).await;
    let mut held = instance("held");
    held["metadata"]["finalizers"] = json!([FINALIZER]);
    let words = "the finalizer cloudserver.dev/release";
    developer
        .is_refused(&world, &["create", "-f", "-"], &held.to_string(), words)
        .await;
    assert_eq!(record(&world.get("db").await), record(&db));

    // An existing record may stay, and may be removed: kubectl replace removes it, and the operator finds its server again.
    let label = ["label", "instance", "web", "team=shop"];
    developer.does(&world, &label, "").await.unwrap();
    let bought = create_calls(&world.sim);
    let replace = ["replace", "-f", "-"];
    developer
        .does(&world, &replace, &instance("web").to_string())
        .await
        .unwrap();
    let id = web.status.as_ref().unwrap().id.clone();
    world
        .until("web", "has its record again", |web| {
            web.annotations().contains_key(BINDING)
                && web.finalizers().contains(&FINALIZER.to_owned())
        })
        .await;
    let found = world.ready("web").await;
    assert_eq!(found.status.unwrap().id, id);
    assert_eq!(create_calls(&world.sim), bought, "{}", world.ledger_text());

    // An explicitly named account restores a saved record; a Role of the namespace cannot name one.
    let saved = record(&world.get("web").await);
    let annotation = format!("{BINDING}={saved}");
    let restore = [
        "annotate",
        "--overwrite",
        "--dry-run=server",
        "instance",
        "db",
        &annotation,
    ];
    let account = format!("--serviceaccount={}:developer", world.namespace);
    let named = "--clusterrole=cloudserver-record-writer";
    world
        .run(&["create", "rolebinding", "restores", named, &account], "")
        .await;
    developer
        .is_refused(&world, &restore, "", "the operator's record")
        .await;
    world
        .run(
            &["create", "clusterrolebinding", "restores", named, &account],
            "",
        )
        .await;
    eventually("who is named may restore", async || {
        developer.does(&world, &restore, "").await
    })
    .await;
    for name in ["web", "db"] {
        world.delete(name).await;
        world.gone(name).await;
    }
    assert_eq!(world.sim.live_servers(), []);
    world.finish().await;
}
