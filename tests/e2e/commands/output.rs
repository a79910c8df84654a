//! Outputs that cannot be written: a pipe that its reader closed, and a full disk.

use super::{PLUGIN, program};
use crate::support::{Setup, instance};
use std::fs::File;
use std::process::{Output, Stdio};
use tokio::process::Command;

/// A disk without any space.
fn full() -> Stdio {
    File::options()
        .write(true)
        .open("/dev/full")
        .unwrap()
        .into()
}

/// A pipe whose reader is gone.
fn closed() -> Stdio {
    let (_, writer) = std::io::pipe().unwrap();
    writer.into()
}

async fn run(arguments: &[&str], out: Stdio, err: Stdio) -> (Option<i32>, String) {
    ran(Command::new(program(arguments)).args(arguments), out, err).await
}

async fn ran(command: &mut Command, out: Stdio, err: Stdio) -> (Option<i32>, String) {
    command.stdin(Stdio::null()).stdout(out).stderr(err);
    let child = command.spawn().unwrap();
    let Output { status, stderr, .. } = child.wait_with_output().await.unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[tokio::test]
async fn a_reader_that_closes_the_pipe_ends_a_command_quietly_and_a_full_disk_fails_it() {
    for arguments in [
        &["crds"][..],
        &["completion", "bash"],
        &["completion", "kubectl"],
        &["--help"],
        &["plan", "--help"],
        &["--version"],
        &["plan", "-f", "/dev/null", "-o", "json"],
        &["plan", "-f", "/dev/null"],
    ] {
        let (status, err) = run(arguments, closed(), Stdio::piped()).await;
        let err = err.replace("there is no Instance in the files\n", "");
        assert_eq!((status, err.as_str()), (Some(0), ""), "{arguments:?}");
        let (status, err) = run(arguments, full(), Stdio::piped()).await;
        assert_eq!(status, Some(1), "{arguments:?}: {err}");
        let why = "the output could not be written: No space left on device";
        assert!(err.contains(why), "{arguments:?}: {err}");
    }
}

#[tokio::test]
async fn a_message_that_cannot_be_written_does_not_end_a_command_by_a_panic() {
    for arguments in [
        &["plan", "-f", "/nowhere/web.yaml"][..],
        &["plan", "--no-such-flag"],
        &["instances", "--kubeconfig", "/nowhere/kubeconfig"],
        &[
            "run",
            "--log-filter-file",
            "/nowhere/filter",
            "--leader-elect=false",
            "--listen",
            "256.0.0.0:1",
        ],
        &["run", "--leader-elect=false", "--keep-tokens=false"],
    ] {
        for err in [full(), closed()] {
            let mut command = Command::new(program(arguments));
            command
                .env("KUBECONFIG", "/nowhere/kubeconfig")
                .env("HOME", "/nowhere");
            let (status, _) = ran(command.args(arguments), Stdio::null(), err).await;
            assert_eq!(status, Some(1), "{arguments:?}");
        }
    }
    let (status, _) = run(&["plan", "-f", "/dev/null"], Stdio::null(), full()).await;
    assert_eq!(status, Some(0), "a note is not the answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_whose_confirmation_finds_a_full_disk_is_made_and_reported_as_failed() {
    let world = Setup::default()
        .own_ids()
        .without_operator()
        .begin("full-disk")
        .await;
    world.apply(&instance("web")).await;
    let run_with = async |out: Stdio, arguments: &[&str]| {
        let mut command = Command::new(PLUGIN);
        command.args(arguments).args(["-n", &world.namespace]);
        command.arg("--kubeconfig");
        command.arg(world.shared.cluster.kubeconfig_path());
        ran(&mut command, out, Stdio::piped()).await
    };
    let (status, err) = run_with(full(), &["pause", "web"]).await;
    assert_eq!(status, Some(1), "{err}");
    assert!(err.contains("No space left on device"), "{err}");
    assert!(world.get("web").await.spec.pause.is_some());
    let (status, err) = run_with(closed(), &["resume", "web"]).await;
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert!(world.get("web").await.spec.pause.is_none());
    let (status, err) = run_with(closed(), &["describe", "web"]).await;
    assert_eq!((status, err.as_str()), (Some(0), ""));
    world.finish().await;
}
