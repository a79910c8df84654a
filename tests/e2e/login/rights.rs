//! Without the permission to write Secrets, and with no more of it than necessary.

use super::{agrees, generated};
use crate::support::{
    Setup, condition, create_calls, eventually, insist, instance, is_ready, own, ready_message,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

const WRITER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/secret-writer");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_without_the_permission_to_write_secrets_the_condition_names_the_manifest() {
    let setup = Setup::default().cluster(own().await).without_operator();
    let mut world = setup.begin("no-writer").await;
    let binding = "clusterrolebinding/cloud-server-operator-secret-writer";
    world.run(&["delete", binding], "").await;
    world.until_forbidden("create", "secrets").await;
    world.start().await;
    world.apply(&generated("web")).await;
    let refused = world.until_reason("web", "SecretNotWritable").await;
    let message = ready_message(&refused);
    assert!(message.contains("deploy/secret-writer"), "{message}");
    assert!(condition(&refused, "Stalled").is_some());
    assert_eq!(create_calls(&world.sim), 0);
    // A missing connection Secret does not keep a server from being Ready.
    let mut beside = instance("beside");
    beside["spec"]["connectionSecret"] = json!({"name": "beside-connection"});
    world.apply(&beside).await;
    world
        .until(
            "beside",
            "Ready, and names the manifest to apply",
            |beside| {
                is_ready(beside)
                    && condition(beside, "Ready")
                        .is_some_and(|ready| ready.message.contains("deploy/secret-writer"))
            },
        )
        .await;
    world
        .run(&["apply", "--server-side", "-k", WRITER], "")
        .await;
    let web = world.ready("web").await;
    agrees(&world, &web, "web-login").await;
    world
        .until("beside", "Ready, without a word", |beside| {
            is_ready(beside)
                && condition(beside, "Ready")
                    .is_some_and(|ready| !ready.message.contains("deploy/secret-writer"))
        })
        .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_the_operators_token_writes_no_secret_but_those_of_instances() {
    let setup = Setup::default().without_operator();
    let world = setup.begin("writer-policy").await;
    let client = world.shared.cluster.client_for(&world.shared.token).await;
    let secrets: Api<Secret> = Api::namespaced(client.unwrap(), &world.namespace);
    let make = async |name: &str, kind: &str, owners: serde_json::Value| {
        let secret: Secret = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Secret", "type": kind,
            "metadata": {
                "name": name, "ownerReferences": owners,
                "labels": {"app.kubernetes.io/managed-by": "cloud-server-operator", "cloudserver.dev/secret": "login"},
                "annotations": {"kubernetes.io/service-account.name": "default"},
            },
        }))
        .unwrap();
        let params = PostParams::default();
        let made = insist("a Secret is made", async || {
            secrets.create(&params, &secret).await
        });
        made.await.map(|_| ()).map_err(|error| error.to_string())
    };
    let owner = json!([{
        "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance", "name": "web",
        "uid": "0d1c9d4e-0000-4000-8000-000000000001", "controller": true,
    }]);
    // The apiserver applies policies after a delay.
    eventually("a Secret without an owner is refused", async || match make(
        "ownerless",
        "Opaque",
        json!([]),
    )
    .await
    {
        Err(why) if why.contains("no others") => Ok(()),
        Err(why) => Err(why),
        Ok(()) => {
            let params = kube::api::DeleteParams::default();
            let _ = world.secrets().delete("ownerless", &params).await;
            Err("accepted".to_owned())
        }
    })
    .await;
    let token = "kubernetes.io/service-account-token";
    let why = make("token", token, owner.clone()).await.unwrap_err();
    assert!(why.contains("type Opaque"), "{why}");
    let take_over = json!({"metadata": {"ownerReferences": owner}});
    let params = PatchParams::default();
    let patch = Patch::Merge(&take_over);
    let taken = insist("a Secret is taken over", async || {
        secrets.patch("login", &params, &patch).await
    });
    let why = taken.await.unwrap_err().to_string();
    assert!(why.contains("takes over no Secret"), "{why}");
    world.finish().await;
}
