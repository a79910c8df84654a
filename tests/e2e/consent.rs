//! A user who may create Accounts and Instances but may not read Secrets cannot make the operator send a Secret: a Secret
//! consents to its use, and names the endpoints for its content. The hostile service records every byte that it gets.

mod commands;
mod endpoints;
mod service;

use crate::secrets::writings;
use crate::support::{Setup, World, busy, eventually, instance, kubectl_of, stays};
use cloud_server_operator::api::Account;
use serde_json::{Value, json};
use service::Hostile;
use std::time::Duration;

/// The contents of Secrets that do not consent.
const CANARIES: [&str; 4] = [
    "canary-opaque-6f1c90",
    "canary-basic-2b77aa",
    "canary-labelled-with-something-else-51",
    "canary-bound-elsewhere-c4d2",
];
/// Long enough for two attempts at everything that is retried, except the checks of an idle Account every 30 s.
const WINDOW: Duration = Duration::from_secs(5);

/// A user who may only create Accounts and Instances in this namespace.
async fn attacker(world: &World) -> String {
    let role = json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "attacker"},
            "rules": [{"apiGroups": ["cloudserver.dev"], "resources": ["accounts", "instances"],
                       "verbs": ["get", "list", "create", "patch", "delete"]}],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "attacker"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "attacker"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "attacker"}],
        },
    ]});
    world.run(&["apply", "-f", "-"], &role.to_string()).await;
    let user = "--as=attacker".to_owned();
    let question = ["auth", "can-i", "get", "secrets", user.as_str()];
    let (may, text) = world.kubectl(&question, "").await;
    assert!(!may && text.starts_with("no"), "{text}");
    user
}

fn account(name: &str, endpoint: &str, secret: &str, key: &str) -> Value {
    json!({
        "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Account", "metadata": {"name": name},
        "spec": {
            "endpoint": endpoint, "tokenSecretRef": {"name": secret, "key": key}, "settleSeconds": 2,
            "requests": {"perSecond": 500, "burst": 500, "concurrent": 50},
        },
    })
}

fn secret(name: &str, kind: &str, labels: &Value, annotations: &Value, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": kind, "stringData": data,
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
    })
}

/// Applies a manifest as a user, once the user's permission has taken effect.
async fn apply_as(world: &World, user: &str, manifest: &Value) {
    eventually("it is applied", async || {
        let apply = ["-n", world.namespace.as_str(), user, "apply", "-f", "-"];
        let done = kubectl_of(&world.shared.cluster, &apply, &manifest.to_string()).await;
        match done.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
        }
    })
    .await;
}

/// Waits until an Account has this reason in a condition of this type. Returns the message of Ready.
async fn until_reported(world: &World, name: &str, kind: &str, reason: &str) -> String {
    let accounts = world.accounts();
    eventually(&format!("{kind} {reason} of Account {name}"), async || {
        let account: Account = accounts
            .get(name)
            .await
            .map_err(|error| error.to_string())?;
        let status = account.status.unwrap_or_default();
        let found = status.conditions.iter().find(|condition| {
            condition.type_ == kind && condition.status == "True" && condition.reason == reason
        });
        let is_current = Some(status.observed_generation) == account.metadata.generation;
        let ready = status.conditions.iter().find(|it| it.type_ == "Ready");
        match found.filter(|_| is_current).and(ready) {
            Some(ready) => Ok(ready.message.clone()),
            None => Err(format!("{:#?}", status.conditions)),
        }
    })
    .await
}

/// The command in a message.
fn command_in(message: &str) -> Vec<String> {
    let line = message.split_once("runs: kubectl ").expect(message).1;
    // Splits like a shell: quotation marks keep a word together.
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            _ => words.last_mut().unwrap().push(letter),
        }
    }
    words
}

/// Runs the command in the message.
async fn run_command_in(world: &World, message: &str) {
    let words = command_in(message);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    world.run(&words, "").await;
}

/// Secrets of a namespace with more than an Account: the Secret, and the key that is requested.
async fn others(world: &World) -> Vec<(&'static str, &'static str)> {
    let elsewhere = json!({"cloudserver.dev/endpoint": "https://cloud.example/api"});
    let none = json!({});
    for manifest in [
        secret(
            "app",
            "Opaque",
            &none,
            &none,
            &json!({"password": CANARIES[0]}),
        ),
        secret(
            "registry",
            "kubernetes.io/basic-auth",
            &none,
            &none,
            &json!({"username": "u", "password": CANARIES[1]}),
        ),
        secret(
            "certificate",
            "Opaque",
            &json!({"cloudserver.dev/use": "client-certificate"}),
            &none,
            &json!({"tls.key": CANARIES[2]}),
        ),
        secret(
            "bound",
            "cloudserver.dev/token",
            &none,
            &elsewhere,
            &json!({"token": CANARIES[3]}),
        ),
    ] {
        world
            .run(&["apply", "-f", "-"], &manifest.to_string())
            .await;
    }
    // A Secret as cert-manager creates it.
    let pair = rcgen::generate_simple_self_signed(["web.example".to_owned()]).unwrap();
    let tls = secret(
        "web-tls",
        "kubernetes.io/tls",
        &none,
        &none,
        &json!({"tls.crt": pair.cert.pem(), "tls.key": pair.signing_key.serialize_pem()}),
    );
    world.run(&["apply", "-f", "-"], &tls.to_string()).await;
    vec![
        ("app", "password"),
        ("registry", "password"),
        ("certificate", "tls.key"),
        ("web-tls", "tls.crt"),
        ("web-tls", "no-such-key"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_creates_accounts_gets_nothing_of_any_secret_and_reads_which_label_is_missing() {
    let world = Setup::default().bare().begin("consent").await;
    let hostile = Hostile::start().await;
    let user = attacker(&world).await;
    let mut wrong = others(&world).await;
    for (number, (name, key)) in wrong.iter().enumerate() {
        let account = account(&format!("evil-{number}"), hostile.url(), name, key);
        apply_as(&world, &user, &account).await;
        let mut web = instance(&format!("web-{number}"));
        web["spec"]["accountRef"] = json!({"name": format!("evil-{number}")});
        web["spec"]["login"] = json!({"passwordSecretRef": {"name": "app", "key": "password"}});
        apply_as(&world, &user, &web).await;
    }
    let mut messages = Vec::new();
    for (number, (name, _)) in wrong.iter().enumerate() {
        let evil = format!("evil-{number}");
        let message = until_reported(&world, &evil, "Reconciling", "SecretUseNotAllowed").await;
        // The message does not reveal the Secret's keys.
        assert!(message.contains(&format!("Secret {name} ")), "{message}");
        assert!(!message.contains("key "), "{message}");
        messages.push(message);
        world
            .until_reason(&format!("web-{number}"), "SecretUseNotAllowed")
            .await;
    }
    let line = format!(
        "kubectl label secret app -n {} cloudserver.dev/use=token",
        world.namespace
    );
    assert!(messages[0].ends_with(&line), "{}", messages[0]);
    wrong.push(("bound", "token"));
    let bound = account("evil-bound", hostile.url(), "bound", "token");
    apply_as(&world, &user, &bound).await;
    let message = until_reported(
        &world,
        "evil-bound",
        "Reconciling",
        "SecretEndpointMismatch",
    )
    .await;
    assert!(message.contains("https://cloud.example/api"), "{message}");
    stays("no call arrives", WINDOW, async || match hostile.calls() {
        0 => Ok(()),
        calls => Err(format!("{calls} calls")),
    })
    .await;

    // To show that the hostile service would record a Secret, one Secret is labelled by the command in the message, and is sent there.
    run_command_in(&world, &messages[0]).await;
    hostile.until_seen(CANARIES[0]).await;
    let bytes = hostile.bytes();
    let key = world.secrets().get("web-tls").await.unwrap().data.unwrap();
    let key = String::from_utf8(key["tls.key"].0.clone()).unwrap();
    let lines = key.lines().filter(|line| !line.starts_with("-----"));
    for canary in CANARIES[1..].iter().copied().chain(lines) {
        for form in writings(canary) {
            assert!(!bytes.contains(&form), "{form}: {bytes}");
        }
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_with_the_label_from_the_message_is_used_without_a_restart() {
    let world = Setup::default().bare().begin("consent-label").await;
    let endpoint = world.sim.url().to_owned();
    let none = json!({});
    let mut messages = Vec::new();
    for (name, kind, labels) in [
        ("plain", "Opaque", &none),
        // A Secret with a different label value needs another command.
        (
            "odd",
            "Opaque",
            &json!({"cloudserver.dev/use": "client-certificate"}),
        ),
    ] {
        let manifest = secret(name, kind, labels, &none, &json!({"token": World::TOKEN}));
        world
            .run(&["apply", "-f", "-"], &manifest.to_string())
            .await;
        let account = account(name, &endpoint, name, "token");
        world.kubectl_apply(&account).await.unwrap();
        let message = until_reported(&world, name, "Reconciling", "SecretUseNotAllowed").await;
        assert!(world.calls_since(0).is_empty(), "{}", world.ledger_text());
        messages.push((name, message));
    }
    for (name, message) in messages {
        run_command_in(&world, &message).await;
        world.account_is_ready(name).await;
    }
    // The type is equivalent to the label, and exists from the beginning.
    let manifest = secret(
        "typed",
        "cloudserver.dev/token",
        &none,
        &json!({"cloudserver.dev/endpoint": endpoint}),
        &json!({"token": World::TOKEN}),
    );
    world
        .run(&["apply", "-f", "-"], &manifest.to_string())
        .await;
    let typed = account("typed", &endpoint, "typed", "token");
    world.kubectl_apply(&typed).await.unwrap();
    world.account_is_ready("typed").await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consent_that_is_withdrawn_ends_the_use_of_the_token_but_for_deletions() {
    let world = Setup::default().begin("withdrawn").await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    // An Instance that keeps the listing and its task polled.
    busy(&world).await;
    let unlabel = ["label", "secret", "cloud-token", "cloudserver.dev/use-"];
    world.run(&unlabel, "").await;
    let message = until_reported(&world, "default", "Reconciling", "SecretUseNotAllowed").await;
    let seq = quiet(&world).await;
    // Longer than the interval of listings during an operation (5 s), and than the pauses between two polls.
    stays(
        "no call arrives",
        Duration::from_secs(20),
        async || match world.calls_since(seq).len() {
            0 => Ok(()),
            _ => Err(world.ledger_text()),
        },
    )
    .await;
    // Servers can still be released.
    world.delete("web").await;
    world.gone("web").await;
    let busy = world.get("busy").await;
    world.only_server(&busy);
    run_command_in(&world, &message).await;
    world.account_is_ready("default").await;
    let seq = world.sim.ledger().last_seq();
    eventually("the other one is requested again", async || {
        match world.calls_since(seq).len() {
            0 => Err(world.ledger_text()),
            _ => Ok(()),
        }
    })
    .await;
    world.finish().await;
}

/// Waits until no call is in progress. Returns the last number in the ledger.
async fn quiet(world: &World) -> u64 {
    let mut last = world.sim.ledger().last_seq();
    eventually("calls that were under way have ended", async || {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = world.sim.ledger().last_seq();
        match std::mem::replace(&mut last, now) == now {
            true => Ok(now),
            false => Err("one more".to_owned()),
        }
    })
    .await
}
