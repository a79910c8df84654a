//! Commands on a terminal show colours and progress; elsewhere they do not.

use super::{CommandOutput, PLUGIN};
use crate::support::{Setup, World, eventually, instance, is_for_now};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

/// Which of a command's streams are terminals; the others are pipes.
#[derive(Clone, Copy)]
pub(super) struct Terminals {
    out: bool,
    err: bool,
}

/// A pseudo-terminal: the user's end and the command's end.
pub(super) fn terminal() -> (File, File) {
    let user: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&user).unwrap();
    unlockpt(&user).unwrap();
    let path = ptsname(&user, Vec::new()).unwrap().into_string().unwrap();
    let command = OpenOptions::new().read(true).write(true).open(path);
    (File::from(user), command.unwrap())
}

/// Reads until no writer is left, which a terminal reports as an error.
pub(super) fn read(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let (mut all, mut some) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = from.read(&mut some) {
            all.extend_from_slice(&some[..count]);
        }
        String::from_utf8(all).unwrap()
    })
}

fn seen(mut command: Command, terminals: Terminals) -> CommandOutput {
    let stream = |is_terminal: bool| match is_terminal {
        true => {
            let (user, command) = terminal();
            (Some(user), Stdio::from(command))
        }
        false => (None, Stdio::piped()),
    };
    let ((out, of_out), (err, of_err)) = (stream(terminals.out), stream(terminals.err));
    command.stdin(Stdio::null()).stdout(of_out).stderr(of_err);
    command.env("TERM", "xterm-256color");
    let mut child = command.spawn().unwrap();
    drop(command); // this closes the command's ends of the terminals
    let out = out.map_or_else(|| read(child.stdout.take().unwrap()), read);
    let err = err.map_or_else(|| read(child.stderr.take().unwrap()), read);
    let status = child.wait().unwrap().code().unwrap();
    let (out, err) = (out.join().unwrap(), err.join().unwrap());
    CommandOutput { status, out, err }
}

/// Runs a command on terminals until it gets an answer.
pub(super) async fn shown(
    world: &World,
    terminals: Terminals,
    environment: &[(&str, &str)],
    arguments: &[&str],
) -> CommandOutput {
    eventually("the command is answered", async || {
        let mut command = Command::new(PLUGIN);
        command.args(arguments).args(["-n", &world.namespace]);
        command.arg("--kubeconfig");
        command.arg(world.shared.cluster.kubeconfig_path());
        command.env_remove("NO_COLOR").envs(environment.to_vec());
        let output = tokio::task::spawn_blocking(move || seen(command, terminals));
        let output = output.await.unwrap();
        match output.status == 1 && is_for_now(&output.err) {
            true => Err(output.err),
            false => Ok(output),
        }
    })
    .await
}

/// Whether a text has sequences that set colours, which end in m; those for progress end in other letters.
fn is_coloured(text: &str) -> bool {
    let mut sequences = text.split("\u{1b}[").skip(1);
    sequences.any(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';');
        end.is_some_and(|end| rest[end..].starts_with('m'))
    })
}

pub(super) const BOTH: Terminals = Terminals {
    out: true,
    err: true,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn colours_and_progress_are_on_a_terminal_and_nowhere_else() {
    let world = Setup::default().without_operator().begin("terminal").await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("web.yaml");
    std::fs::write(&file, instance("web").to_string()).unwrap();
    let plan = ["plan", "-f", file.to_str().unwrap()];

    let output = shown(&world, BOTH, &[], &plan).await;
    assert_eq!(output.status, 3, "{}{}", output.out, output.err);
    assert!(is_coloured(&output.out), "{:?}", output.out);
    assert!(
        output.err.contains("asking the cluster"),
        "{:?}",
        output.err
    );

    // The user disables colours. Progress is shown all the same.
    let output = shown(&world, BOTH, &[("NO_COLOR", "1")], &plan).await;
    assert!(!is_coloured(&output.out), "{:?}", output.out);
    assert!(!is_coloured(&output.err), "{:?}", output.err);
    assert!(output.out.contains("web: new server"), "{:?}", output.out);
    assert!(
        output.err.contains("asking the cluster"),
        "{:?}",
        output.err
    );

    // Standard output goes into a file or a pipe, and the user watches standard error.
    let only_errors = Terminals { out: false, ..BOTH };
    let output = shown(&world, only_errors, &[], &plan).await;
    assert!(!output.out.contains('\u{1b}'), "{:?}", output.out);
    assert!(
        output.err.contains("asking the cluster"),
        "{:?}",
        output.err
    );

    // The user watches standard output, and standard error goes elsewhere.
    let only_output = Terminals { err: false, ..BOTH };
    let output = shown(&world, only_output, &[], &plan).await;
    assert!(is_coloured(&output.out), "{:?}", output.out);
    assert_eq!(output.err, "");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_leaves_nothing_behind_and_spoils_no_note() {
    let world = Setup::default()
        .own_ids()
        .without_operator()
        .begin("terminal-notes")
        .await;
    for arguments in [
        &["instances", "--region", "Atlantis"][..],
        &["catalog", "keys", "--name", "no such name"],
    ] {
        let output = shown(&world, BOTH, &[], arguments).await;
        assert!(output.err.contains("asking the"), "{:?}", output.err);
        // The text that stays on the screen: each line after its last erasure.
        let stays = output.err.replace("\u{1b}[?25h", "");
        let last = stays.trim_end().rsplit("\u{1b}[2K").next().unwrap();
        assert!(!last.contains("asking"), "{arguments:?}: {:?}", output.err);
        assert!(
            last.contains("Atlantis") || last.contains("nothing that fits"),
            "{arguments:?}: {:?}",
            output.err
        );
    }
    world.finish().await;
}

#[test]
fn help_is_coloured_on_a_terminal_unless_the_user_asks_for_none() {
    let help = |environment: &[(&str, &str)], terminals| {
        let mut command = Command::new(PLUGIN);
        command.args(["plan", "--help"]).env_remove("NO_COLOR");
        command.envs(environment.to_vec());
        let output = seen(command, terminals);
        assert!(output.status == 0 && output.out.contains("Exit status"));
        is_coloured(&output.out)
    };
    let piped = Terminals {
        out: false,
        err: false,
    };
    assert!(help(&[], BOTH));
    assert!(!help(&[("NO_COLOR", "1")], BOTH));
    assert!(!help(&[], piped));
}
