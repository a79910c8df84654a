//! The connection Secret: its content, its changes, and that it never delays its server.

use super::{age, edit, generated, hourly, in_force, read, secret_writes, server_password};
use crate::support::{
    Setup, World, condition, create, delete, eventually, failed, insist, instance, is_ready,
    path_of, quiet_all,
};
use cloud_server_operator::api::{Instance, Verb};
use cloud_simulator::catalogue;
use cloud_simulator::faults::{Act, Rule};
use cloud_simulator::model::TaskScript;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const NAME: &str = "web-connection";

fn connected(mut manifest: Value) -> Value {
    manifest["spec"]["connectionSecret"] = json!({"name": NAME});
    manifest
}

/// Waits until the Secret has this value.
async fn until_secret_has(world: &World, key: &str, value: &str) -> BTreeMap<String, String> {
    eventually(
        &format!("{key} in the connection Secret"),
        async || match insist("read it", async || world.secrets().get_opt(NAME).await)
            .await
            .unwrap()
        {
            None => Err("there is none".to_owned()),
            Some(secret) => {
                let texts = super::texts(&secret);
                match texts.get(key).map(String::as_str) == Some(value) {
                    true => Ok(texts),
                    false => Err(format!("{:?}", texts.keys())),
                }
            }
        },
    )
    .await
}

fn address(instance: &Instance) -> String {
    let status = instance.status.as_ref().unwrap();
    status.addresses.clone().unwrap().public.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_connection_secret_holds_the_login_in_effect_and_follows_the_password() {
    let mut world = Setup::default().begin("connection").await;
    world.apply(&connected(hourly("web"))).await;
    let web = world.ready("web").await;
    let first = server_password(&world, &web);
    let texts = until_secret_has(&world, "password", &first).await;
    let words: Vec<(&str, &str)> = texts
        .iter()
        .map(|(k, v)| (k.as_str(), v.as_str()))
        .collect();
    let host = address(&web);
    assert_eq!(
        words,
        [
            ("host", host.as_str()),
            ("password", first.as_str()),
            ("port", "22"),
            ("username", "root")
        ]
    );
    let secret = insist("read it", async || world.secrets().get(NAME).await)
        .await
        .unwrap();
    assert_eq!(secret.owner_references()[0].uid, web.uid().unwrap());
    assert_eq!(secret.owner_references()[0].controller, Some(true));
    eventually(
        "the audit log shows both writes",
        async || match secret_writes(&world).await.len() {
            2 => Ok(()),
            n => Err(format!("{n}")),
        },
    )
    .await;
    quiet_all(&world).await;
    // A new process reads the Secret, and writes nothing.
    world.restart().await;
    world.ready("web").await;
    quiet_all(&world).await;
    // The Secret shows the old password until the service has confirmed the new one.
    let fails = Rule::on(
        path_of(Verb::ModifyPassword),
        Act::Task(TaskScript::Fail {
            reason: "locked".to_owned(),
        }),
    );
    // Twice: after the second failure the operator waits a minute, which gives the test time to check.
    world.sim.fault(fails.times(2));
    age(&world, "web-login", 2).await;
    failed(&world, "web", "locked").await;
    assert_eq!(read(&world, NAME).await["password"], first);
    let web = in_force(&world, "web", "web-login").await;
    let second = server_password(&world, &web);
    assert_ne!(second, first);
    until_secret_has(&world, "password", &second).await;
    // The operator restores it after a change or a deletion.
    edit(&world, NAME, "host", "elsewhere").await;
    until_secret_has(&world, "host", &host).await;
    delete(&world.secrets(), NAME).await;
    until_secret_has(&world, "password", &second).await;
    quiet_all(&world).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_connection_secret_distinguishes_given_passwords_keys_and_windows() {
    let world = Setup::default().begin("connection-kinds").await;
    world.apply(&connected(instance("web"))).await;
    world.ready("web").await;
    let texts = until_secret_has(&world, "password", World::PASSWORD).await;
    assert!(!texts.contains_key("sshKeyId"));
    let key = catalogue::example().key;
    let mut by_key = connected(instance("web"));
    by_key["spec"]["login"] = json!({"sshKey": {"id": key}});
    world.apply(&by_key).await;
    let texts = until_secret_has(&world, "sshKeyId", key).await;
    assert!(!texts.contains_key("password"), "{:?}", texts.keys());
    let mut windows = generated("win");
    windows["spec"]["image"]["id"] = json!(catalogue::example().windows_image);
    windows["spec"]["connectionSecret"] = json!({"name": "win-connection"});
    world.apply(&windows).await;
    world.ready("win").await;
    let secrets = world.secrets();
    let found = eventually("a Windows server can be connected to", async || {
        let found = secrets.get_opt("win-connection").await;
        let found = found.map_err(|error| error.to_string())?;
        found.ok_or("there is no Secret".to_owned())
    });
    let texts = super::texts(&found.await);
    assert_eq!(
        (texts["port"].as_str(), texts["username"].as_str()),
        ("3389", "Administrator")
    );
    quiet_all(&world).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_connection_secret_of_another_owner_is_reported_and_unchanged() {
    let mut world = Setup::default().begin("connection-foreign").await;
    let theirs: Secret = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": NAME}, "stringData": {"host": "theirs"},
    }))
    .unwrap();
    let theirs = create(&world.secrets(), &theirs).await;
    world.apply(&connected(generated("web"))).await;
    let names_secret = |web: &Instance| {
        let ready = condition(web, "Ready");
        let is_named = ready.is_some_and(|ready| {
            ready.message.contains(NAME) && ready.message.contains("spec.connectionSecret.name")
        });
        is_ready(web) && is_named
    };
    world
        .until("web", "Ready, and names the Secret", names_secret)
        .await;
    quiet_all(&world).await;
    world.restart().await;
    quiet_all(&world).await;
    assert!(names_secret(&world.get("web").await));
    let now = insist("read it", async || world.secrets().get(NAME).await)
        .await
        .unwrap();
    assert_eq!(now.resource_version(), theirs.resource_version());
    delete(&world.secrets(), NAME).await;
    let web = world
        .until("web", "Ready, without a word", |web| {
            is_ready(web) && !names_secret(web)
        })
        .await;
    until_secret_has(&world, "password", &server_password(&world, &web)).await;
    world.finish().await;
}
