//! Secrets of the operator that are restored from a backup, or lose their owner reference: they are adopted, and their password
//! stays.

use super::{agrees, edit, generated, in_force, read, server_password};
use crate::support::{
    Setup, World, condition, create, create_calls, delete, eventually, insist, instance,
    password_of, quiet_all, ready_message, stays,
};
use cloud_server_operator::api::Instance;
use cloud_server_operator::api::names::BINDING;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::time::Duration;

fn connected(name: &str) -> Value {
    let mut manifest = generated(name);
    manifest["spec"]["connectionSecret"] = json!({"name": format!("{name}-connection")});
    manifest
}

async fn get(world: &World, name: &str) -> Secret {
    let secrets = world.secrets();
    let read = insist("read it", async || secrets.get(name).await);
    read.await.unwrap()
}

async fn exists(world: &World, name: &str) -> bool {
    let secrets = world.secrets();
    let read = insist("read it", async || secrets.get_opt(name).await);
    read.await.unwrap().is_some()
}

/// Restores a Secret as a backup tool does: without UID, version and owners.
async fn restore(world: &World, secret: &Secret) -> Secret {
    let mut secret = serde_json::to_value(secret).unwrap();
    let meta = &secret["metadata"];
    secret["metadata"] =
        json!({"name": meta["name"], "labels": meta["labels"], "annotations": meta["annotations"]});
    let secret: Secret = serde_json::from_value(secret).unwrap();
    create(&world.secrets(), &secret).await
}

async fn owned_by(world: &World, secret: &str, instance: &Instance) {
    let uid = instance.uid().unwrap();
    eventually("the Secret has its owner", async || {
        if !exists(world, secret).await {
            return Err("there is no such Secret".to_owned());
        }
        let owners = get(world, secret).await.owner_references().to_vec();
        match owners
            .iter()
            .any(|owner| owner.uid == uid && owner.controller == Some(true))
        {
            true => Ok(()),
            false => Err(format!("{owners:?}")),
        }
    })
    .await;
}

/// Loses the Instance and its Secrets while no operator runs, and keeps its server.
async fn disaster(world: &World, web: &Instance, secrets: &[&str]) {
    world.delete(&web.name_any()).await;
    let patch = r#"[{"op":"remove","path":"/metadata/finalizers"}]"#;
    let name = web.name_any();
    let cut = [
        "patch",
        "instances.cloudserver.dev",
        &name,
        "--type=json",
        "-p",
        patch,
    ];
    world.run(&cut, "").await;
    world.gone(&name).await;
    for secret in secrets {
        eventually("the Secret is collected", async || {
            match exists(world, secret).await {
                true => Err("it is there".to_owned()),
                false => Ok(()),
            }
        })
        .await;
    }
}

/// A world with an Instance that has a server and a generated login.
async fn with_login(setup: Setup, namespace: &str) -> (World, Instance) {
    let world = setup.begin(namespace).await;
    world.apply(&generated("web")).await;
    let web = world.ready("web").await;
    quiet_all(&world).await;
    (world, web)
}

/// Ends the operator, loses the Instance, and restores its login Secret alone.
async fn lose_all_but_login(world: &mut World, web: &Instance) -> Secret {
    let login = get(world, "web-login").await;
    world.kill();
    disaster(world, web, &["web-login"]).await;
    restore(world, &login).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_a_restored_secret_without_its_owner_is_adopted_and_its_password_stays() {
    let mut world = Setup::default().begin("restored-login").await;
    world.apply(&connected("web")).await;
    let web = world.ready("web").await;
    let server = world.only_server(&web).id;
    let password = server_password(&world, &web);
    let names = ["web-login", "web-connection"];
    eventually("it can be connected to", async || {
        match exists(&world, names[1]).await {
            true => Ok(()),
            false => Err("there is no Secret".to_owned()),
        }
    })
    .await;
    quiet_all(&world).await;
    let (login, connection) = (get(&world, names[0]).await, get(&world, names[1]).await);
    world.kill();
    disaster(&world, &web, &names).await;

    restore(&world, &login).await;
    restore(&world, &connection).await;
    let record = &web.annotations()[BINDING];
    let mut backup = connected("web");
    backup["metadata"]["annotations"] = json!({BINDING: record});
    world.apply(&backup).await;
    world.start().await;
    let restored = in_force(&world, "web", "web-login").await;
    assert_ne!(restored.uid(), web.uid());
    assert_eq!(restored.status.as_ref().unwrap().id.as_ref(), Some(&server));
    let held = read(&world, "web-login").await;
    assert_eq!(
        (&held["password"], &held["current"]),
        (&password, &password)
    );
    assert_eq!(password_of(&world, &server).unwrap(), password);
    for name in names {
        owned_by(&world, name, &restored).await;
    }
    assert_eq!(read(&world, "web-connection").await["password"], password);
    assert_eq!(create_calls(&world.sim), 1);
    world.until_events("SecretAdopted", 1).await;
    world.until_events("PasswordGenerated", 1).await;
    quiet_all(&world).await;
    world.delete("web").await;
    world.gone("web").await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_a_restored_secret_of_an_imported_server_is_adopted_and_its_password_stays() {
    let (mut world, web) = with_login(Setup::default().imports(), "imported-login").await;
    let server = world.only_server(&web).id;
    let password = server_password(&world, &web);
    // There is no record: only the server's name shows that the Secret was made for the Instance that bought it.
    lose_all_but_login(&mut world, &web).await;
    let mut import = generated("web");
    import["spec"]["import"] = json!({"id": server});
    world.apply(&import).await;
    world.start().await;
    let imported = in_force(&world, "web", "web-login").await;
    owned_by(&world, "web-login", &imported).await;
    assert_eq!(read(&world, "web-login").await["password"], password);
    assert_eq!(password_of(&world, &server).unwrap(), password);
    assert_eq!(create_calls(&world.sim), 1);
    world.delete("web").await;
    world.gone("web").await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_a_secret_whose_owner_reference_was_cut_gets_it_back_and_no_other_password() {
    let world = Setup::default().begin("cut-login").await;
    world.apply(&connected("web")).await;
    let web = world.ready("web").await;
    let password = server_password(&world, &web);
    owned_by(&world, "web-connection", &web).await;
    quiet_all(&world).await;
    let cut = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    for name in ["web-login", "web-connection"] {
        let (secrets, params) = (world.secrets(), PatchParams::default());
        let done = insist("the owner is cut", async || {
            secrets.patch(name, &params, &cut).await
        });
        done.await.unwrap();
        owned_by(&world, name, &web).await;
    }
    let web = in_force(&world, "web", "web-login").await;
    let held = agrees(&world, &web, "web-login").await;
    // The operator may set the password again, since the Secret was edited, but no other one.
    assert_eq!(held["password"], password);
    quiet_all(&world).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_a_secret_that_shows_no_instance_is_handed_over_by_the_command_in_the_message() {
    let world = Setup::default().begin("handed-over").await;
    // As restored from a backup of an older version, or by a tool that drops labels.
    let secret: Secret = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web-login"},
        "stringData": {"password": World::PASSWORD, "current": World::PASSWORD},
    }))
    .unwrap();
    create(&world.secrets(), &secret).await;
    world.apply(&generated("web")).await;
    let refused = world.until_reason("web", "SecretNameConflict").await;
    let message = ready_message(&refused).to_owned();
    assert!(!message.contains("delete"), "{message}");
    let command = message.split("kubectl ").nth(1).unwrap();
    let arguments: Vec<&str> = command.split_whitespace().collect();
    world.run(&arguments, "").await;
    let web = world.ready("web").await;
    let held = agrees(&world, &web, "web-login").await;
    assert_eq!(held["password"], World::PASSWORD);
    owned_by(&world, "web-login", &web).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_no_other_instance_gets_a_secret_that_has_lost_its_owner() {
    let (mut world, web) = with_login(Setup::default(), "thief").await;
    let server = world.only_server(&web).id;
    let password = server_password(&world, &web);
    let before = lose_all_but_login(&mut world, &web).await;
    world.start().await;
    // By another name, by the same name without the record, and as a connection Secret.
    let mut thief = generated("thief");
    thief["spec"]["login"]["generate"]["secretName"] = json!("web-login");
    let mut client = instance("client");
    client["spec"]["connectionSecret"] = json!({"name": "web-login"});
    for manifest in [thief, generated("web")] {
        world.apply(&manifest).await;
        let name = manifest["metadata"]["name"].as_str().unwrap();
        world.until_reason(name, "SecretNameConflict").await;
        world.delete(name).await;
        world.gone(name).await;
    }
    world.apply(&client).await;
    world
        .until("client", "the Secret is named", |client| {
            condition(client, "Ready").is_some_and(|ready| ready.message.contains("web-login"))
        })
        .await;
    delete(&world.instances(), "client").await;
    world.gone("client").await;
    stays(
        "the Secret is unchanged",
        Duration::from_secs(3),
        async || {
            let after = get(&world, "web-login").await;
            match after.resource_version() == before.resource_version() {
                true => Ok(()),
                false => Err(format!("{:?}", after.metadata)),
            }
        },
    )
    .await;
    assert_eq!(password_of(&world, &server).unwrap(), password);
    // The Instance with the record gets it back.
    let mut backup = generated("web");
    backup["metadata"]["annotations"] = json!({BINDING: web.annotations()[BINDING]});
    world.apply(&backup).await;
    in_force(&world, "web", "web-login").await;
    edit(&world, "web-login", "password", World::NEW_PASSWORD).await;
    eventually("it is the Secret of the server", async || {
        match password_of(&world, &server).as_deref() == Some(World::NEW_PASSWORD) {
            true => Ok(()),
            false => Err(world.ledger_text()),
        }
    })
    .await;
    world.delete("web").await;
    world.gone("web").await;
    world.finish().await;
}
