//! `plan`: Secrets in the same files as their Instances.

use super::output_of;
use crate::support::{Setup, World, done, instance, mark, posts, with};
use cloud_server_operator::api::Verb;
use serde_json::{Value, json};

/// The verdict, the exit status and the whole output for the only Instance of these manifests.
async fn verdict(world: &World, manifests: &[Value]) -> (String, i32, String) {
    let text: String = manifests
        .iter()
        .map(|one| format!("---\n{one}\n"))
        .collect();
    let output = output_of(
        world,
        &["plan", "-f", "-", "-o", "json", "--field-manager", "user"],
        &text,
    )
    .await;
    let report = output.json();
    let verdict = report["instances"][0]["verdict"]
        .as_str()
        .unwrap()
        .to_owned();
    (verdict, output.status, format!("{report}\n{}", output.err))
}

fn secret(name: &str, password: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "stringData": {"password": password},
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_in_the_files_counts_as_it_would_once_applied() {
    let world = Setup::default().own_ids().begin("plan-secrets").await;
    let mut web = instance("web");
    web["spec"]["login"] = json!({"passwordSecretRef": {"name": "web-login", "key": "password"}});
    let (good, bad) = ("Correct4horse!", "short");

    // Neither of the two is applied yet.
    let (word, status, text) = verdict(&world, &[web.clone()]).await;
    assert_eq!((word.as_str(), status), ("waits", 4), "{text}");
    assert!(text.contains("LoginSecretNotFound"), "{text}");
    let (word, status, text) = verdict(&world, &[web.clone(), secret("web-login", good)]).await;
    assert_eq!((word.as_str(), status), ("newServer", 3), "{text}");
    let (word, status, text) = verdict(&world, &[web.clone(), secret("web-login", bad)]).await;
    assert_eq!((word.as_str(), status), ("waits", 4), "{text}");
    assert!(text.contains("LoginPasswordInvalid"), "{text}");

    // Both are applied, and one of them differs in the files.
    let apply = ["apply", "--server-side", "-f", "-"];
    world
        .run(&apply, &secret("web-login", good).to_string())
        .await;
    world.apply(&web).await;
    world.ready("web").await;
    let before = mark(&world, "web").await;
    let (word, status, text) = verdict(&world, &[web.clone(), secret("web-login", good)]).await;
    assert_eq!((word.as_str(), status), ("nothing", 0), "{text}");
    let other = "Another5horse!";
    let (word, status, text) = verdict(&world, &[web.clone(), secret("web-login", other)]).await;
    assert_eq!((word.as_str(), status), ("inPlace", 2), "{text}");
    assert!(text.contains("password") && !text.contains(other), "{text}");

    // The command cannot decrypt a Secret that is encrypted for its pipeline. It uses the Secret in the cluster instead, with a
    // note about that.
    let mut sealed = secret("web-login", "ENC[AES256_GCM,data:..]");
    sealed["sops"] = json!({"version": "3.9.0"});
    let (word, status, text) = verdict(&world, &[web.clone(), sealed]).await;
    assert_eq!((word.as_str(), status), ("nothing", 0), "{text}");
    assert!(text.contains("is encrypted"), "{text}");
    assert_eq!(posts(&world, before.seq), Vec::<String>::new());

    // The predicted operation happens.
    world
        .run(&apply, &secret("web-login", other).to_string())
        .await;
    done(&world, "web", &before, &[Verb::ModifyPassword]).await;
    assert_eq!(posts(&world, before.seq), ["modifyInstancePassword"]);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plan_uses_an_account_whose_token_is_in_the_files() {
    let world = Setup::default().own_ids().begin("plan-token").await;
    let account = json!({
        "apiVersion": "cloudserver.dev/v1alpha1",
        "kind": "Account",
        "metadata": {"name": "new"},
        "spec": {"endpoint": world.sim.url(), "tokenSecretRef": {"name": "new-token", "key": "token"}},
    });
    let token = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "cloudserver.dev/token",
        "metadata": {"name": "new-token"},
        "stringData": {"token": World::TOKEN},
    });
    let web = with("web", |spec| spec["accountRef"] = json!({"name": "new"}));
    let (word, status, text) = verdict(&world, &[account, token, web]).await;
    assert_eq!((word.as_str(), status), ("newServer", 3), "{text}");
    assert!(!text.contains(World::TOKEN), "{text}");
    // An Account in the cluster counts with the change of the file: its new endpoint does not answer.
    let moved = json!({
        "apiVersion": "cloudserver.dev/v1alpha1",
        "kind": "Account",
        "metadata": {"name": "default"},
        "spec": {"endpoint": "http://127.0.0.1:1"},
    });
    let (.., text) = verdict(&world, &[moved, instance("web")]).await;
    for words in ["default is used as in", "could not reach the service"] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
    assert!(
        world.sim.live_servers().is_empty(),
        "{}",
        world.ledger_text()
    );
    world.finish().await;
}
