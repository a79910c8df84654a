//! `completion`: the scripts by which shells complete the command line.
//!
//! The script contains no command and no flag. At each tab it runs this program with the words so far and [`ASKED`] in the
//! environment, and [`answer`] prints the candidates, including current values of the cluster: see [`values`].

pub(super) mod values;

use crate::PROGRAM;
use crate::output::print;
use clap::Args;
use clap_complete::engine::{CompletionCandidate, complete};
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};
use clap_complete::{CompleteEnv, env};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The environment variable in which a script names its shell to request candidates.
const ASKED: &str = "CSO_COMPLETE";

/// The separator of candidates if the script names none.
const SEPARATOR: &str = "\n";

/// Flags of `completion`.
#[derive(Debug, Args)]
pub(super) struct CompletionArgs {
    /// The shell, or kubectl for the program that completes `kubectl cloudserver …` in every shell in which kubectl is completed.
    #[arg(value_parser = ["bash", "zsh", "fish", "powershell", "elvish", "kubectl"], value_name = "SHELL")]
    shell: String,
}

const SHELLS: Shells<'_> = Shells(&[
    &Quiet(Bash),
    &Quiet(Zsh),
    &Quiet(Fish),
    &Quiet(Powershell),
    &Quiet(Elvish),
    &Kubectl,
]);

/// Prints the script.
pub(super) fn completion(args: &CompletionArgs) -> ExitCode {
    let Some(shell) = SHELLS.completer(&args.shell) else {
        return crate::output::failed(&format!("{} is no shell", args.shell));
    };
    let (name, program) = (PROGRAM, program());
    let mut script = Vec::new();
    match shell.write_registration(ASKED, name, name, &program, &mut script) {
        Ok(()) => print(String::from_utf8_lossy(&script).trim_end()),
        Err(error) => crate::output::failed(&format!("the script could not be written: {error}")),
    }
}

/// This program, as a script finds it from any working directory.
fn program() -> String {
    let called = PathBuf::from(std::env::args_os().next().unwrap_or_default());
    let is_path = called.components().count() > 1;
    let absolute = is_path.then(|| std::path::absolute(&called).ok()).flatten();
    absolute.unwrap_or(called).to_string_lossy().into_owned()
}

/// Prints the candidates if a shell requests them. Otherwise none, and the program runs as usual.
pub(super) fn answer(command: fn() -> clap::Command) -> Option<ExitCode> {
    let shell = std::env::var_os(ASKED)?;
    if shell.is_empty() || shell == "0" {
        return None;
    }
    // Error output of a credential plugin would appear in the line that the user types.
    let _ = std::fs::File::create("/dev/null").map(rustix::stdio::dup2_stderr);
    let env: CompleteEnv<'_, _> = env::CompleteEnv::with_factory(|| values::offered(command()));
    let here = std::env::current_dir().ok();
    let asked = env.var(ASKED).shells(SHELLS);
    match asked.try_complete(std::env::args_os(), here.as_deref()) {
        Ok(true) => Some(ExitCode::SUCCESS),
        Ok(false) => None,
        // No candidates are no error for the user.
        Err(_) => Some(ExitCode::FAILURE),
    }
}

/// Whether flags are requested: as with kubectl they are offered after a hyphen, and never instead of values.
fn asks_for_flags(words: &[OsString], index: usize) -> bool {
    let word = words.get(index).map(OsString::as_os_str);
    word.is_some_and(|word| word.as_encoded_bytes().starts_with(b"-"))
}

/// A shell that gets flags only on request.
struct Quiet<S>(S);

impl<S: EnvCompleter> EnvCompleter for Quiet<S> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn is(&self, name: &str) -> bool {
        self.0.is(name)
    }

    fn write_registration(
        &self,
        var: &str,
        name: &str,
        bin: &str,
        completer: &str,
        buf: &mut dyn Write,
    ) -> io::Result<()> {
        self.0.write_registration(var, name, bin, completer, buf)
    }

    fn write_complete(
        &self,
        cmd: &mut clap::Command,
        args: Vec<OsString>,
        current_dir: Option<&Path>,
        buf: &mut dyn Write,
    ) -> io::Result<()> {
        // Some shells name the word to complete, the others mean the last.
        let index = std::env::var("_CLAP_COMPLETE_INDEX").ok();
        let index = index.and_then(|index| index.parse().ok());
        let index = index.unwrap_or(args.len().saturating_sub(1));
        let wants_flags = asks_for_flags(&args, index);
        let mut all = Vec::new();
        self.0.write_complete(cmd, args, current_dir, &mut all)?;
        if wants_flags {
            return buf.write_all(&all);
        }
        let separator = std::env::var("_CLAP_IFS").unwrap_or_else(|_| SEPARATOR.to_owned());
        let all = String::from_utf8_lossy(&all);
        let values = all.split(separator.as_str());
        let values: Vec<&str> = values.filter(|value| !value.starts_with('-')).collect();
        buf.write_all(values.join(&separator).as_bytes())
    }
}

/// kubectl completes a plugin by running `kubectl_complete-<plugin>` with the words so far, the last of them unfinished: it
/// prints the candidates, one a line, and then a directive.
struct Kubectl;

/// No additional file names; no space after an unfinished candidate, such as a directory.
const NO_FILES: u8 = 4;
const NO_SPACE: u8 = 2;

impl EnvCompleter for Kubectl {
    fn name(&self) -> &'static str {
        "kubectl"
    }

    fn is(&self, name: &str) -> bool {
        name == self.name()
    }

    fn write_registration(
        &self,
        var: &str,
        _: &str,
        _: &str,
        completer: &str,
        buf: &mut dyn Write,
    ) -> io::Result<()> {
        let (shell, plugin) = (self.name(), PROGRAM);
        let program = completer.replace('\'', r"'\''");
        write!(
            buf,
            r#"#!/bin/sh
# Candidates for `kubectl cloudserver`: put this into PATH as kubectl_complete-cloudserver, executable.
export {var}={shell}
exec '{program}' -- {plugin} "$@"
"#
        )
    }

    fn write_complete(
        &self,
        cmd: &mut clap::Command,
        args: Vec<OsString>,
        current_dir: Option<&Path>,
        buf: &mut dyn Write,
    ) -> io::Result<()> {
        let index = args.len().saturating_sub(1);
        let wants_flags = asks_for_flags(&args, index);
        let all = complete(cmd, args, index, current_dir)?;
        let values = all.iter().map(CompletionCandidate::get_value);
        let values: Vec<_> = values.map(OsStr::to_string_lossy).collect();
        let mut directive = NO_FILES;
        for value in values
            .iter()
            .filter(|value| wants_flags || !value.starts_with('-'))
        {
            if value.ends_with('/') {
                directive = NO_FILES | NO_SPACE;
            }
            writeln!(buf, "{value}")?;
        }
        writeln!(buf, ":{directive}")
    }
}
