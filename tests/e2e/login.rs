//! Logins that the operator generates and stores: the Secret before the server, rotation, and the data that a client needs to
//! connect. The tests ask the service for the true password.

mod connection;
mod examples;
mod refused;
mod restored;
mod rights;

use crate::secrets::{pages, writings};
use crate::support::{
    Setup, World, assert_idle, condition, counts, create, create_calls, delete, eventually, failed,
    insist, instance, is_ready, mark, outline, password_of, path_of, quiet_all, ready_message,
    with, written,
};
use cloud_server_operator::api::names::{ROTATED_AT, SETTLED_FROM};
use cloud_server_operator::api::{Instance, Verb};
use cloud_simulator::faults::{Act, Rule};
use cloud_simulator::model::TaskScript;
use cloud_simulator::readings::{PasswordSpecials, Readings};
use cloud_simulator::{Entry, catalogue};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// An Instance whose password the operator generates.
fn generated(name: &str) -> Value {
    let mut manifest = instance(name);
    manifest["spec"]["login"] = json!({"generate": {}});
    manifest
}

/// An Instance whose generated password is rotated every hour.
pub(crate) fn hourly(name: &str) -> Value {
    let mut manifest = generated(name);
    manifest["spec"]["login"]["generate"]["rotateEvery"] = json!("1h");
    manifest
}

/// The content of a Secret as text.
fn texts(secret: &Secret) -> BTreeMap<String, String> {
    let data = secret.data.clone().unwrap_or_default();
    data.into_iter()
        .map(|(key, bytes)| (key, String::from_utf8(bytes.0).unwrap()))
        .collect()
}

/// The content of a Secret in the cluster.
pub(crate) async fn read(world: &World, name: &str) -> BTreeMap<String, String> {
    texts(
        &insist("read it", async || world.secrets().get(name).await)
            .await
            .unwrap(),
    )
}

fn server_password(world: &World, instance: &Instance) -> String {
    password_of(world, &world.only_server(instance).id).unwrap()
}

/// Asserts that the Secret shows the server's password as the one in effect, and no pending one; returns the content.
async fn agrees(world: &World, instance: &Instance, secret: &str) -> BTreeMap<String, String> {
    let held = read(world, secret).await;
    let has = server_password(world, instance);
    assert_eq!(held["password"], has);
    assert_eq!(held["current"], has);
    assert!(!held.contains_key("pending"));
    let applied = instance.status.as_ref().unwrap().applied.clone().unwrap();
    assert_eq!(applied.password_secret, Some(version(world, secret).await));
    held
}

/// Makes the password look this old, as if the operator itself had written that, so that the password need not be set again,
/// not even by a process without memory.
pub(crate) async fn age(world: &World, secret: &str, hours: i64) {
    let secrets = world.secrets();
    let meta = insist("read it", async || secrets.get_metadata(secret).await);
    let meta = meta.await.unwrap();
    let then = Timestamp::now() - SignedDuration::from_hours(hours);
    let version = meta.resource_version().unwrap();
    let patch = json!({"metadata": {
        "resourceVersion": version,
        "annotations": {ROTATED_AT: then.to_string(), SETTLED_FROM: version},
    }});
    let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
    let mut tries = 0;
    let aged = insist("it is aged", async || {
        tries += 1;
        match secrets.patch_metadata(secret, &params, &patch).await {
            // The version has changed: by an earlier attempt, whose answer was lost.
            Err(kube::Error::Api(status)) if status.code == 409 && tries > 1 => Ok(()),
            aged => aged.map(|_| ()),
        }
    });
    aged.await.unwrap();
}

/// When the password of a Secret was generated, according to the Secret.
async fn rotated_at(world: &World, secret: &str) -> Timestamp {
    let secrets = world.secrets();
    let meta = insist("read it", async || secrets.get_metadata(secret).await);
    meta.await.unwrap().annotations()[ROTATED_AT]
        .parse()
        .unwrap()
}

/// The current version of a Secret, in the format of status.
async fn version(world: &World, secret: &str) -> String {
    let secrets = world.secrets();
    let meta = insist("read it", async || secrets.get_metadata(secret).await);
    let meta = meta.await.unwrap();
    let (uid, version) = (meta.uid().unwrap(), meta.resource_version().unwrap());
    format!("{secret}/password/{uid}/{version}")
}

/// Waits until the Instance is Ready with the password of the current version.
async fn in_force(world: &World, name: &str, secret: &str) -> Instance {
    eventually("the written login is in force", async || {
        let (web, version) = (world.get(name).await, version(world, secret).await);
        let applied = web
            .status
            .as_ref()
            .and_then(|status| status.applied.clone());
        let applied = applied.and_then(|applied| applied.password_secret);
        match is_ready(&web) && applied == Some(version) {
            true => Ok(web),
            false => Err(outline(&web)),
        }
    })
    .await
}

/// Waits until another password is in effect, at the service, in the Secret and in status.
async fn rotated(world: &World, former: &str) -> Instance {
    eventually("another password is made", async || {
        match read(world, "web-login").await["password"] != former {
            true => Ok(()),
            false => Err(outline(&world.get("web").await)),
        }
    })
    .await;
    in_force(world, "web", "web-login").await
}

/// A user edits a key of a Secret.
async fn edit(world: &World, secret: &str, key: &str, value: &str) {
    let patch = json!({"stringData": {key: value}});
    let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
    let secrets = world.secrets();
    let edited = insist("a Secret is edited", async || {
        secrets.patch(secret, &params, &patch).await
    });
    edited.await.unwrap();
}

/// The operator's writes of Secrets.
async fn secret_writes(world: &World) -> Vec<String> {
    let writes = world.writes().await.into_iter();
    writes
        .filter(|entry| entry.resource == "secrets")
        .map(|entry| format!("{} {} {}", entry.verb, entry.name, entry.code))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_a_password_is_made_before_the_server_and_owned_by_the_instance() {
    let world = Setup::default().begin("generated").await;
    world.apply(&generated("web")).await;
    let web = world.ready("web").await;
    let secret = insist("read it", async || world.secrets().get("web-login").await)
        .await
        .unwrap();
    let owner = &secret.owner_references()[0];
    assert_eq!(
        (owner.kind.as_str(), owner.uid.as_str(), owner.controller),
        ("Instance", web.uid().unwrap().as_str(), Some(true))
    );
    assert_eq!(secret.type_.as_deref(), Some("Opaque"));
    let made = secret.creation_timestamp().unwrap().0;
    assert!(made <= web.status.as_ref().unwrap().history[0].started_at.0);
    agrees(&world, &web, "web-login").await;
    assert_idle(&world, &web);
    world.until_events("PasswordGenerated", 1).await;
    assert_eq!(create_calls(&world.sim), 1);
    assert_eq!(counts(&world, Verb::ModifyPassword, None), (0, 0));
    let writes = written(&world, "web", &crate::support::Mark::default()).await;
    assert!(writes.len() <= 3, "{writes:?}");
    let writes = secret_writes(&world).await;
    assert_eq!(writes.len(), 1, "{writes:?}");
    quiet_all(&world).await;
    let mut world = world;
    world.restart().await;
    world.ready("web").await;
    quiet_all(&world).await;
    // It is garbage-collected with its Instance: the operator deletes nothing in Kubernetes.
    world.delete("web").await;
    world.gone("web").await;
    eventually("the Secret is collected", async || {
        let found = insist("read it", async || {
            world.secrets().get_opt("web-login").await
        })
        .await
        .unwrap();
        found.map_or(Ok(()), |_| Err("it is there".to_owned()))
    })
    .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_a_secret_of_another_owner_is_neither_used_nor_changed() {
    let world = Setup::default().begin("foreign-login").await;
    // A Secret without an owner, and one of another Instance.
    let owner = |uid: &str| {
        json!([{
            "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance", "name": "theirs", "uid": uid,
            "controller": true,
        }])
    };
    let theirs = world
        .apply(&crate::support::instance_by_key("theirs"))
        .await;
    for (name, owners) in [
        ("ownerless", json!([])),
        ("theirs", owner(&theirs.uid().unwrap())),
    ] {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("{name}-login"), "ownerReferences": owners},
            "stringData": {"password": World::PASSWORD},
        });
        let secret: Secret = serde_json::from_value(secret).unwrap();
        let before = create(&world.secrets(), &secret).await;
        let mut manifest = generated("web");
        let secret_name = format!("{name}-login");
        manifest["spec"]["login"]["generate"]["secretName"] = json!(secret_name);
        world.apply(&manifest).await;
        let refused = world
            .until("web", "the Secret is named", |web| {
                condition(web, "Ready").is_some_and(|ready| {
                    ready.reason == "SecretNameConflict" && ready.message.contains(&secret_name)
                })
            })
            .await;
        let message = ready_message(&refused);
        assert!(
            message.contains("spec.login.generate.secretName"),
            "{message}"
        );
        assert!(condition(&refused, "Stalled").is_some());
        let after = insist("read it", async || world.secrets().get(&secret_name).await)
            .await
            .unwrap();
        assert_eq!(after.resource_version(), before.resource_version());
    }
    world.ready("theirs").await;
    assert_eq!(create_calls(&world.sim), 1, "that of the other Instance");
    delete(&world.secrets(), "theirs-login").await;
    let web = world.ready("web").await;
    agrees(&world, &web, "theirs-login").await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_an_edited_secret_changes_the_password_and_a_failure_keeps_the_old_one() {
    let world = Setup::default().begin("edited-login").await;
    world.apply(&generated("web")).await;
    let web = world.ready("web").await;
    let first = server_password(&world, &web);
    let fails = TaskScript::Fail {
        reason: "no such account".to_owned(),
    };
    let rule = Rule::on(path_of(Verb::ModifyPassword), Act::Task(fails));
    // Twice: after the second failure the operator waits a minute, which gives the test time to check.
    let rule = world.sim.fault(rule.times(2));
    edit(&world, "web-login", "password", World::NEW_PASSWORD).await;
    failed(&world, "web", "no such account").await;
    assert_eq!(server_password(&world, &web), first);
    assert!(world.sim.faults().hits(rule) >= 1);
    let held = read(&world, "web-login").await;
    assert_eq!(held["current"], first, "what the server has is not lost");
    // The operator retries.
    let web = world.ready("web").await;
    let held = agrees(&world, &web, "web-login").await;
    assert_eq!(held["password"], World::NEW_PASSWORD);
    assert_eq!(held["previous"], first);
    // By now the service has reported the name of the server's account.
    assert_eq!(held["username"], "root");
    // A password that violates the rules is reported, and the old one stays.
    edit(&world, "web-login", "password", "too short").await;
    let refused = world.until_reason("web", "LoginPasswordInvalid").await;
    let message = ready_message(&refused);
    assert!(message.contains("web-login"), "{message}");
    assert_eq!(server_password(&world, &web), World::NEW_PASSWORD);
    edit(&world, "web-login", "password", &first).await;
    let web = eventually("the first one is back", async || {
        let web = world.get("web").await;
        match is_ready(&web) && server_password(&world, &web) == first {
            true => Ok(web),
            false => Err(outline(&web)),
        }
    })
    .await;
    agrees(&world, &web, "web-login").await;
    quiet_all(&world).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_an_old_password_is_rotated_and_no_secret_leaks() {
    let mut world = Setup::default().filter("trace").begin("rotated").await;
    world.apply(&hourly("web")).await;
    let web = world.ready("web").await;
    let mut all = vec![server_password(&world, &web)];
    quiet_all(&world).await;
    for round in 0..2 {
        if round == 1 {
            // A process without memory.
            world.restart().await;
        }
        let before = mark(&world, "web").await;
        age(&world, "web-login", 2).await;
        let former = all.last().unwrap().clone();
        let web = rotated(&world, &former).await;
        let held = agrees(&world, &web, "web-login").await;
        assert_eq!(held["previous"], former);
        let stamp = rotated_at(&world, "web-login").await;
        assert!(stamp > Timestamp::now() - SignedDuration::from_mins(5));
        let calls = crate::support::posts(&world, before.seq);
        println!(
            "COST rotation: {calls:?}, {:?}",
            written(&world, "web", &before).await
        );
        assert_eq!(calls.len(), 1, "{calls:?}");
        all.push(held["password"].clone());
    }
    quiet_all(&world).await;
    for (place, text) in pages(&mut world).await {
        for form in all.iter().flat_map(|password| writings(password)) {
            assert!(!text.contains(&form), "a password is in {place}");
        }
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_by_key_sends_a_password_only_if_the_account_requires_it() {
    let world = Setup::default().begin("login-key").await;
    // A separate Account for each value separates concurrent requests of the operator.
    for (account, value) in [("empty", "Empty"), ("random", "Random")] {
        world.account(account, world.sim.url()).await;
        let field = json!({"keyLoginPassword": value});
        world.change_account(account, field).await;
        world.account_is_ready(account).await;
    }
    for (name, account) in [
        ("plain", "default"),
        ("with-empty", "empty"),
        ("with-random", "random"),
    ] {
        let manifest = with(name, |spec| {
            spec["accountRef"] = json!({"name": account});
            spec["login"] = json!({"sshKey": {"id": catalogue::example().key}});
        });
        world.apply(&manifest).await;
        world.ready(name).await;
    }
    let ledger = world.sim.ledger();
    let given = |name: &str| {
        let calls = ledger.calls("/instance/create").into_iter();
        let is_of = |call: &&Entry| call.request.to_string().contains(&format!("{name}-"));
        let calls: Vec<_> = calls.filter(is_of).collect();
        assert_eq!(calls.len(), 1, "{}", world.ledger_text());
        calls[0].request["packageConfig"]
            .get("passwordGiven")
            .is_some()
    };
    assert!(
        given("with-empty") && given("with-random") && !given("plain"),
        "{:?}",
        ledger.calls("/instance/create")
    );
    drop(ledger);
    // The simulator refuses a password that violates a rule.
    for (name, has_password) in [
        ("plain", false),
        ("with-empty", false),
        ("with-random", true),
    ] {
        let server = world.only_server(&world.get(name).await);
        assert_eq!(server.key.as_deref(), Some(catalogue::example().key));
        let kept = password_of(&world, &server.id);
        assert_eq!(kept.is_some(), has_password, "{name}");
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_password_with_several_special_characters_is_sent_if_the_account_allows_it() {
    const SEVERAL: &str = "Two1!specials?";
    let readings = Readings {
        password_specials: PasswordSpecials::AtLeastOne,
        ..Readings::default()
    };
    let world = Setup::default().readings(readings).begin("specials").await;
    world.secret("login", "password", SEVERAL).await;
    world.apply(&instance("web")).await;
    world.until_reason("web", "LoginPasswordInvalid").await;
    assert_eq!(create_calls(&world.sim), 0);

    let field = json!({"passwordSpecialCharacters": "AtLeastOne"});
    world.change_account("default", field).await;
    let ready = world.ready("web").await;
    let server = world.only_server(&ready);
    assert_eq!(password_of(&world, &server.id).as_deref(), Some(SEVERAL));
    quiet_all(&world).await;
    world.finish().await;
}
