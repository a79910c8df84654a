//! `completion`: the scripts by which shells complete the command line.
//!
//! The script contains no command and no flag. At each tab it runs this program with the words so far and [`SHELL`] in the
//! environment, and [`answer`] prints the candidates, including current values of the cluster: see [`values`].

pub(super) mod values;

use crate::PROGRAM;
use crate::output::{failed, print};
use clap::{Args, Command};
use clap_complete::engine::complete;
use clap_complete::env::{Bash, Elvish, Fish, Powershell, Shells, Zsh};
use cloud_server_operator::program;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The environment variable in which a script names its shell to request candidates.
const SHELL: &str = "CSO_COMPLETE";

/// Flags of `completion`.
#[derive(Debug, Args)]
pub(super) struct CompletionArgs {
    /// The shell, or kubectl for the program that completes `kubectl cloudserver …` in every shell in which kubectl is completed.
    #[arg(value_parser = ["bash", "zsh", "fish", "powershell", "elvish", "kubectl"], value_name = "SHELL")]
    shell: String,
}

const SHELLS: Shells<'_> = Shells(&[&Bash, &Zsh, &Fish, &Powershell, &Elvish]);

/// kubectl completes a plugin by running `kubectl_complete-<plugin>` with the words so far, the last of them unfinished.
const KUBECTL: &str = "kubectl";

/// Prints the script.
pub(super) fn completion(args: &CompletionArgs) -> ExitCode {
    let (name, program) = (PROGRAM, executable());
    if args.shell == KUBECTL {
        let program = program.replace('\'', r"'\''");
        return print(&format!(
            r#"#!/bin/sh
# Candidates for `kubectl cloudserver`: put this into PATH as kubectl_complete-cloudserver, executable.
export {SHELL}={KUBECTL}
exec '{program}' -- {PROGRAM} "$@""#
        ));
    }
    let mut script = Vec::new();
    let written = SHELLS
        .completer(&args.shell)
        .map(|shell| shell.write_registration(SHELL, name, name, &program, &mut script));
    match written {
        Some(Ok(())) => print(String::from_utf8_lossy(&script).trim_end()),
        _ => failed(&format!("there is no script for {}", args.shell)),
    }
}

/// This program, as a script finds it from any working directory.
fn executable() -> String {
    let called = PathBuf::from(std::env::args_os().next().unwrap_or_default());
    let is_path = called.components().count() > 1;
    let absolute = is_path.then(|| std::path::absolute(&called).ok()).flatten();
    absolute.unwrap_or(called).to_string_lossy().into_owned()
}

/// Prints the candidates if a shell requests them. As with kubectl, flags are candidates only after a hyphen. Returns `None` if no
/// shell requests candidates: the program then runs as usual.
pub(super) fn answer(command: Command) -> Option<ExitCode> {
    let shell = std::env::var(SHELL).ok()?;
    let completer = SHELLS.completer(&shell);
    if completer.is_none() && shell != KUBECTL {
        return None;
    }
    // Error output of a credential plugin would appear in the line that the user types.
    let _ = std::fs::File::create("/dev/null").map(rustix::stdio::dup2_stderr);
    let (mut command, words) = (values::offered(command), values::words());
    // Some shells give the index of the word to complete; for the others it is the last word.
    let index = std::env::var("_CLAP_COMPLETE_INDEX").ok();
    let index = index.and_then(|index| index.parse().ok());
    let index = index.unwrap_or(words.len().saturating_sub(1));
    let word = words.get(index).map(OsString::as_os_str);
    let wants_flags = word.is_some_and(|word| word.as_encoded_bytes().starts_with(b"-"));
    let (here, mut all) = (std::env::current_dir().ok(), Vec::new());
    let written = match completer {
        Some(shell) => shell.write_complete(&mut command, words, here.as_deref(), &mut all),
        None => for_kubectl(&mut command, words, here.as_deref(), &mut all),
    };
    if written.is_err() {
        return Some(ExitCode::FAILURE); // no message: the shell offers nothing
    }
    let separator = std::env::var("_CLAP_IFS").unwrap_or_else(|_| "\n".to_owned());
    let all = String::from_utf8_lossy(&all);
    let fits = |value: &&str| wants_flags || !value.starts_with('-');
    let all: Vec<&str> = all.split(separator.as_str()).filter(fits).collect();
    match all.join(&separator).trim_end_matches('\n') {
        "" => Some(ExitCode::SUCCESS),
        all => Some(program::print(PROGRAM, all)),
    }
}

/// The directives of kubectl: no additional file names; no space after an unfinished candidate, such as a directory.
const NO_FILES: u8 = 4;
const NO_SPACE: u8 = 2;

/// Writes the candidates, one a line, and then the directive for kubectl.
fn for_kubectl(
    command: &mut Command,
    words: Vec<OsString>,
    here: Option<&Path>,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let index = words.len().saturating_sub(1);
    let mut directive = NO_FILES;
    for candidate in complete(command, words, index, here)? {
        let value = candidate.get_value().to_string_lossy();
        if value.ends_with('/') {
            directive = NO_FILES | NO_SPACE;
        }
        writeln!(out, "{value}")?;
    }
    writeln!(out, ":{directive}")
}
