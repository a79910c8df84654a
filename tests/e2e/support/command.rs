//! Our programs as commands that are run once.

use std::io::ErrorKind;
use std::process::{Output, Stdio};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// The operator.
pub const EXECUTABLE: &str = env!("CARGO_BIN_EXE_operator-under-test");

/// The plugin of kubectl.
pub const PLUGIN: &str = env!("CARGO_BIN_EXE_plugin-under-test");

/// Runs a command until it exits, with this input.
pub async fn run(command: &mut Command, input: &str) -> Output {
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A program that exits before it has read all its input has already printed the reason.
    match stdin.write_all(input.as_bytes()).await {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        written => written.unwrap(),
    }
    drop(stdin);
    child.wait_with_output().await.unwrap()
}
