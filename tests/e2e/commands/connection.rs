//! The flags of kubectl for the connection to the cluster.

use super::{CommandOutput, PLUGIN, eventually, run};
use crate::support::{PATIENCE, Setup, World, instance, is_for_now};
use std::net::TcpListener;
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::Command;

/// Runs `status` with these flags and this `KUBECONFIG` until it gets an answer.
async fn status(world: &World, kubeconfig: &str, flags: &[&str]) -> CommandOutput {
    eventually("the command is answered", async || {
        let mut command = Command::new(PLUGIN);
        command.args(["status", "-n", &world.namespace]).args(flags);
        command
            .env("KUBECONFIG", kubeconfig)
            .env("HOME", "/nowhere");
        let output = run(&mut command, "").await;
        let is_for_now = is_for_now(&output.err) && !output.err.contains("certificate");
        match output.status == 1 && is_for_now {
            true => Err(output.err),
            false => Ok(output),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubeconfig_lists_and_connection_flags_are_those_of_kubectl() {
    let world = Setup::default()
        .own_ids()
        .without_operator()
        .begin("connection")
        .await;
    world.apply(&instance("web")).await;
    let directory = TempDir::new().unwrap();
    let file = world.shared.cluster.kubeconfig_path().display().to_string();
    let empty = directory.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    let (server, ca) = world.apiserver();
    let authority = directory.path().join("ca.pem");
    std::fs::write(&authority, ca).unwrap();
    let authority = format!("--certificate-authority={}", authority.display());
    let at = ["-s", server];
    let token = format!("--token={}", world.operator_token());

    let list = format!("/nowhere/config::{}:{file}", empty.display());
    for (kubeconfig, flags) in [
        (list.as_str(), &[][..]),
        (&list, &["--as=system:admin", "--as-group=system:masters"]),
        (
            &list,
            &[
                "--user=devcluster",
                "--cluster=devcluster",
                "--request-timeout=1m",
            ],
        ),
        (&list, &["--request-timeout=0"]),
        ("", &[&at[..], &[&token, &authority]].concat()),
        (
            "",
            &[&at[..], &[&token, "--insecure-skip-tls-verify"]].concat(),
        ),
        (
            "",
            &[
                &at[..],
                &[&token, &authority, "--tls-server-name=localhost"],
            ]
            .concat(),
        ),
    ] {
        let output = status(&world, kubeconfig, flags).await;
        assert_eq!(output.status, 0, "{kubeconfig} {flags:?}: {}", output.err);
        assert!(output.out.contains("web"), "{flags:?}: {}", output.out);
    }
    // Without trust in the server, or as a user without permissions.
    for (kubeconfig, flags, words) in [
        ("", &[&at[..], &[&token]].concat()[..], "certificate"),
        (&file, &["--as=eve"], "User \"eve\" cannot list"),
        (
            &file,
            &["--as=eve", "--as-group=a", "--as-group=b"],
            "User \"eve\" cannot list",
        ),
        (&file, &["--token=wrong"], "Unauthorized"),
    ] {
        let output = status(&world, kubeconfig, flags).await;
        assert_eq!(output.status, 1, "{flags:?}: {}", output.out);
        assert!(output.err.contains(words), "{flags:?}: {}", output.err);
    }
    world.finish().await;
}

#[tokio::test]
async fn a_request_ends_after_the_time_of_its_flag() {
    // It accepts connections and never answers.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", mute.local_addr().unwrap());
    let mut command = Command::new(PLUGIN);
    command.args(["status", "-s", &server, "--request-timeout=300ms"]);
    command.env("KUBECONFIG", "").env("HOME", "/nowhere");
    let output = tokio::time::timeout(PATIENCE, run(&mut command, ""));
    let output = output.await.unwrap();
    let words = format!(
        "no answer from the apiserver within {} s",
        Duration::from_millis(300).as_secs_f32()
    );
    assert!(output.err.contains(&words), "{}", output.err);
}
