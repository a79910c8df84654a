//! The commands read Accounts and Secrets with the permissions of their user, which may be far greater than those of the
//! Account's creator.

use super::service::Hostile;
use super::{CANARIES, account, others, secret};
use crate::support::{PLUGIN, Setup, World, instance, run};
use serde_json::{Value, json};
use tokio::process::Command;

/// Runs a command as an administrator of the cluster. Returns its status and its whole output.
async fn output_of(world: &World, arguments: &[&str], input: &str) -> (i32, String) {
    let mut command = Command::new(PLUGIN);
    command.args(arguments).args(["-n", &world.namespace]);
    command.arg("--kubeconfig");
    command.arg(world.shared.cluster.kubeconfig_path());
    let output = run(&mut command, input).await;
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code().unwrap(), text)
}

fn of_account(name: &str) -> Value {
    let mut web = instance("web");
    web["spec"]["accountRef"] = json!({"name": name});
    web
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_with_greater_rights_sends_no_secret_that_does_not_consent() {
    let setup = Setup::default().bare().without_operator().own_ids();
    let world = setup.begin("consent-commands").await;
    let hostile = Hostile::start().await;
    others(&world).await;
    let label = format!(
        "kubectl label secret app -n {} cloudserver.dev/use=token",
        world.namespace
    );
    for (name, secret, key, words) in [
        ("evil", "app", "password", label.as_str()),
        (
            "bound",
            "bound",
            "token",
            "is bound to https://cloud.example/api",
        ),
        (
            "read-on",
            "bound",
            "token",
            "spec.proxy.url is another endpoint",
        ),
    ] {
        let mut account = account(name, hostile.url(), secret, key);
        if name == "read-on" {
            account["spec"]["endpoint"] = json!("https://cloud.example/api");
            account["spec"]["proxy"] = json!({"url": hostile.url()});
        }
        world.kubectl_apply(&account).await.unwrap();
        for command in [
            &["catalog", "keys"][..],
            &["instances"],
            &["import", "ecs-1"],
        ] {
            let arguments = [command, &["--account", name]].concat();
            let (status, output) = output_of(&world, &arguments, "").await;
            assert_eq!(status, 1, "{arguments:?}: {output}");
            assert!(output.contains(words), "{arguments:?}: {output}");
        }
        let manifest = of_account(name).to_string();
        let (status, output) = output_of(&world, &["plan", "-f", "-"], &manifest).await;
        assert_ne!(status, 0, "{output}");
        assert!(output.contains(words), "{output}");
    }
    // A manifest that is not applied yet consents for its own content, but not for that of the cluster's Secret.
    let consent = json!({"cloudserver.dev/use": "token"});
    let labelled = secret("app", "Opaque", &consent, &json!({}), &json!({}));
    let files =
        json!({"apiVersion": "v1", "kind": "List", "items": [labelled, of_account("evil")]});
    let (_, output) = output_of(&world, &["plan", "-f", "-"], &files.to_string()).await;
    assert!(output.contains(&label), "{output}");
    assert_eq!(hostile.calls(), 0, "{}", hostile.bytes());

    // The hostile service would have recorded it: a Secret that does consent is sent there.
    world
        .run(&["label", "secret", "app", "cloudserver.dev/use=token"], "")
        .await;
    output_of(&world, &["catalog", "keys", "--account", "evil"], "").await;
    hostile.until_seen(CANARIES[0]).await;
    world.finish().await;
}
