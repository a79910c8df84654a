//! `completion`: what a shell needs to complete the command line.
//!
//! The script that a shell reads knows no command and no flag. At each tab it runs this program with the words so far and
//! [`ASKED`] in the environment, and [`answer`] tells the candidates: so that values of now are offered too, see [`values`].

pub(super) mod values;

use crate::program::print;
use clap::{Args, ValueEnum};
use clap_complete::engine::{CompletionCandidate, complete};
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};
use clap_complete::{CompleteEnv, env};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The environment variable in which a script names the shell that asks for candidates.
const ASKED: &str = "CSO_COMPLETE";

/// What separates candidates, where the script does not say it.
const SEPARATOR: &str = "\n";

/// Flags of `completion`.
#[derive(Debug, Args)]
pub(super) struct CompletionArgs {
    /// The shell, or kubectl: what completes `kubectl cloudserver …`, in whatever shell kubectl itself is completed.
    #[arg(value_enum, value_name = "SHELL")]
    shell: Target,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Target {
    Bash,
    Zsh,
    Fish,
    #[value(name = "powershell")]
    PowerShell,
    Elvish,
    Kubectl,
}

const BASH: Quiet<Bash> = Quiet(Bash);
const ZSH: Quiet<Zsh> = Quiet(Zsh);
const FISH: Quiet<Fish> = Quiet(Fish);
const POWERSHELL: Quiet<Powershell> = Quiet(Powershell);
const ELVISH: Quiet<Elvish> = Quiet(Elvish);

/// Prints the script. `command` is the command line as the user calls it.
pub(super) fn completion(args: &CompletionArgs, command: &clap::Command) -> ExitCode {
    let shell: &dyn EnvCompleter = match args.shell {
        Target::Bash => &BASH,
        Target::Zsh => &ZSH,
        Target::Fish => &FISH,
        Target::PowerShell => &POWERSHELL,
        Target::Elvish => &ELVISH,
        Target::Kubectl => &Kubectl,
    };
    let (name, program) = (command.get_name(), program());
    let mut script = Vec::new();
    match shell.write_registration(ASKED, name, name, &program, &mut script) {
        Ok(()) => print(String::from_utf8_lossy(&script).trim_end()),
        Err(error) => crate::program::failed(&format!("the script could not be written: {error}")),
    }
}

/// This program, as a script finds it from wherever it runs.
fn program() -> String {
    let called = PathBuf::from(std::env::args_os().next().unwrap_or_default());
    let is_path = called.components().count() > 1;
    let absolute = is_path.then(|| std::path::absolute(&called).ok()).flatten();
    absolute.unwrap_or(called).to_string_lossy().into_owned()
}

/// Tells a shell its candidates, if a shell asks. None where nobody does: the program is run as any other.
pub(super) fn answer(command: fn() -> clap::Command) -> Option<ExitCode> {
    let shell = std::env::var_os(ASKED)?;
    if shell.is_empty() || shell == "0" {
        return None;
    }
    // Whatever a credential plugin complains about would stand in the line that somebody types.
    let _ = std::fs::File::create("/dev/null").map(rustix::stdio::dup2_stderr);
    let shells = Shells(&[&BASH, &ZSH, &FISH, &POWERSHELL, &ELVISH, &Kubectl]);
    let env: CompleteEnv<'_, _> = env::CompleteEnv::with_factory(|| values::offered(command()));
    let here = std::env::current_dir().ok();
    let asked = env.var(ASKED).shells(shells);
    match asked.try_complete(std::env::args_os(), here.as_deref()) {
        Ok(true) => Some(ExitCode::SUCCESS),
        Ok(false) => None,
        // That there is nothing to offer is no trouble of whoever types.
        Err(_) => Some(ExitCode::FAILURE),
    }
}

/// Whether flags are asked for: as with kubectl they are offered once a hyphen is typed, and never in the place of a value.
fn asks_for_flags(words: &[OsString], index: usize) -> bool {
    let word = words.get(index).map(OsString::as_os_str);
    word.is_some_and(|word| word.as_encoded_bytes().starts_with(b"-"))
}

/// A shell that is offered flags only when it asks for them.
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
        // Some shells say which word it is, the others mean the last.
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

/// No file names besides; and no space after what goes on, as a directory does.
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
        let (shell, plugin) = (self.name(), super::PLUGIN);
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
