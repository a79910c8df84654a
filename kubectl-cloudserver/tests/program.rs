//! The program, as kubectl runs it.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::process::Command;

#[test]
fn the_help_calls_the_program_as_users_of_kubectl_do() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-cloudserver"));
    let output = program.args(["plan", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{help}");
    assert!(help.contains("Usage: kubectl cloudserver plan"), "{help}");
}
