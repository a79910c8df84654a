//! A namespace whose Secret and Account are deleted first, while the operator is killed or not running.

use crate::support::{
    Setup, World, delete, eventually, insist, instance, kubectl, names, outline, reason, stays,
};
use cloud_server_operator::api::names::FINALIZER;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::time::Duration;

const OWN: &str = "cloud-server-system";

/// The copies of tokens of this namespace.
pub(crate) async fn copies(world: &World) -> Vec<Secret> {
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), OWN);
    let mine = format!("cloudserver.dev/namespace={}", world.namespace);
    let params = ListParams::default().labels(&mine);
    let found = insist("copies are listed", async || secrets.list(&params).await);
    found.await.unwrap().items
}

async fn until_copied(world: &World, token: &str) -> Secret {
    eventually("the token is copied", async || {
        let all = copies(world).await;
        let [copy] = &all[..] else {
            return Err(format!("{} copies", all.len()));
        };
        match copy.data.as_ref().unwrap()["token"].0 == token.as_bytes() {
            true => Ok(copy.clone()),
            false => Err("another token".to_owned()),
        }
    })
    .await
}

pub(crate) async fn until_no_copy(world: &World) {
    eventually("the copy of the token is gone", async || {
        match copies(world).await.len() {
            0 => Ok(()),
            n => Err(format!("{n} copies")),
        }
    })
    .await;
}

/// Deletes Secret and Account, then the namespace: the worst order.
pub(crate) async fn delete_namespace(world: &World) -> Api<Namespace> {
    for secret in ["cloud-token", "login"] {
        delete(&world.secrets(), secret).await;
    }
    delete(&world.accounts(), "default").await;
    let api: Api<Namespace> = Api::all(world.client.clone());
    delete(&api, &world.namespace).await;
    api
}

pub(crate) async fn until_gone(world: &World, api: &Api<Namespace>) {
    eventually("the namespace is gone", async || {
        match api.get_opt(&world.namespace).await {
            Ok(None) => Ok(()),
            Ok(Some(namespace)) => Err(format!("{:?}\n{}", namespace.status, world.ledger_text())),
            Err(error) => Err(error.to_string()),
        }
    })
    .await;
    assert_eq!(world.sim.live_servers(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_goes_with_its_servers_although_the_operator_is_killed_in_the_middle() {
    let world = Setup::default().keeps_tokens().tasks(2_000);
    let mut world = world.begin("killed-middle").await;
    let fleet = names("web", 3);
    world.apply_all(&fleet, instance).await;
    world.all_ready(&fleet).await;
    let api = delete_namespace(&world).await;
    eventually("a release is under way", async || {
        match world.sim.ledger().count("/instance/release") {
            0 => Err("none".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    world.restart().await;
    until_gone(&world, &api).await;
    assert_eq!(world.sim.servers().len(), 3);
    until_no_copy(&world).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_goes_with_its_servers_although_it_was_deleted_while_no_operator_ran() {
    let mut world = Setup::default().keeps_tokens().begin("killed-before").await;
    let fleet = names("web", 3);
    world.apply_all(&fleet, instance).await;
    world.all_ready(&fleet).await;
    world.kill();
    let api = delete_namespace(&world).await;
    eventually("Secret and Account are gone", async || {
        let account = insist("read it", async || {
            world.accounts().get_opt("default").await
        })
        .await
        .unwrap();
        match account {
            None => Ok(()),
            Some(_) => Err("the Account is there".to_owned()),
        }
    })
    .await;
    world.start().await;
    until_gone(&world, &api).await;
    assert_eq!(world.sim.servers().len(), 3);
    until_no_copy(&world).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_holds_endpoint_and_token_follows_the_token_and_is_deleted_after_the_last_instance()
{
    let mut world = Setup::default().keeps_tokens().begin("copy").await;
    // No Instance needs it yet.
    world.apply(&unpayable("never")).await;
    world.until_reason("never", "LoginSecretNotFound").await;
    assert_eq!(copies(&world).await.len(), 0);
    world.delete("never").await;

    world.apply(&instance("web")).await;
    world.ready("web").await;
    let copy = until_copied(&world, World::TOKEN).await;
    let of: Value = serde_json::from_slice(&copy.data.as_ref().unwrap()["account"].0).unwrap();
    assert_eq!(of["spec"]["endpoint"], world.sim.url());
    assert_eq!(
        (&of["namespace"], &of["name"]),
        (&json!(world.namespace), &json!("default"))
    );

    // A token that the service refuses does not change the copy; an accepted one does.
    world.secret("cloud-token", "token", "not-taken").await;
    eventually("the token is refused", async || {
        let account = insist("read it", async || world.accounts().get("default").await)
            .await
            .unwrap();
        let status = account.status.unwrap();
        match status.conditions.iter().any(|c| c.reason == "TokenRefused") {
            true => Ok(()),
            false => Err(format!("{status:?}")),
        }
    })
    .await;
    let same = until_copied(&world, World::TOKEN).await;
    assert_eq!(same.resource_version(), copy.resource_version());
    world.sim.set_token("default", "taken-canary-8c").unwrap();
    world
        .secret("cloud-token", "token", "taken-canary-8c")
        .await;
    let rotated = until_copied(&world, "taken-canary-8c").await;
    assert!(!world.logs().contains("taken-canary-8c"));

    // An up-to-date copy is not written again, not even by a new process.
    world.restart().await;
    world.ready("web").await;
    stays(
        "the copy stays as it is",
        Duration::from_secs(5),
        async || {
            let now = until_copied(&world, "taken-canary-8c").await;
            match now.resource_version() == rotated.resource_version() {
                true => Ok(()),
                false => Err(format!("{:?}", now.metadata)),
            }
        },
    )
    .await;
    world.delete("web").await;
    world.gone("web").await;
    until_no_copy(&world).await;
    world.finish().await;
}

/// An Instance whose login Secret does not exist.
fn unpayable(name: &str) -> Value {
    let mut manifest = instance(name);
    manifest["spec"]["login"]["passwordSecretRef"]["name"] = json!("no-such-login");
    manifest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_copies_a_restart_in_the_middle_needs_a_human_as_before() {
    let mut world = Setup::default().begin("no-copies").await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    assert_eq!(copies(&world).await.len(), 0);
    world.kill();
    let api = delete_namespace(&world).await;
    world.start().await;
    eventually("the Instance reports the missing permission", async || {
        let web = world.get("web").await;
        match reason(&web) {
            "AccountNotFound" | "TokenNotFound" => Ok(()),
            _ => Err(outline(&web)),
        }
    })
    .await;
    assert_eq!(world.sim.live_servers().len(), 1);
    // The human action.
    let free = json!([{"op": "remove", "path": "/metadata/finalizers"}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(free).unwrap());
    let web = world.get("web").await;
    assert!(web.finalizers().contains(&FINALIZER.to_owned()));
    let (instances, params) = (world.instances(), PatchParams::default());
    let mut tries = 0;
    let freed = insist("the Instance is let go", async || {
        tries += 1;
        match instances.patch("web", &params, &patch).await {
            // An earlier attempt, whose answer was lost, succeeded.
            Err(kube::Error::Api(status)) if status.code == 404 && tries > 1 => Ok(()),
            freed => freed.map(|_| ()),
        }
    });
    freed.await.unwrap();
    eventually("the namespace is gone", async || {
        match insist("read it", async || api.get_opt(&world.namespace).await)
            .await
            .unwrap()
        {
            None => Ok(()),
            Some(namespace) => Err(format!("{:?}", namespace.status)),
        }
    })
    .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operator_may_delete_secrets_in_its_own_namespace_alone() {
    let world = Setup::default().without_operator().begin("rights").await;
    let user = format!("--as=system:serviceaccount:{OWN}:cloud-server-operator");
    // `secret-writer`, which is applied here too, allows writes in other namespaces; its policy confines them:
    // `login/rights.rs`.
    for verb in ["delete", "update", "deletecollection"] {
        for (namespace, may) in [(OWN, verb == "delete"), (world.namespace.as_str(), false)] {
            let question = ["auth", "can-i", verb, "secrets", "-n", namespace, &user];
            let is_allowed = eventually("the apiserver answers", async || {
                let answer = kubectl(&question, "").await;
                match String::from_utf8_lossy(&answer.stdout).trim() {
                    "yes" => Ok(true),
                    "no" => Ok(false),
                    _ => Err(String::from_utf8_lossy(&answer.stderr).into_owned()),
                }
            })
            .await;
            assert_eq!(is_allowed, may, "{verb} in {namespace}");
        }
    }
    world.finish().await;
}
