//! `completion`: what a shell needs to complete the command line.

use super::output::print;
use clap::{Args, ValueEnum};
use clap_complete::{Generator, Shell, generate};
use std::process::ExitCode;

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

/// Prints the script. `command` is the command line as the user calls it.
pub(super) fn completion(args: &CompletionArgs, command: &mut clap::Command) -> ExitCode {
    let shell = match args.shell {
        Target::Bash => Shell::Bash,
        Target::Zsh => Shell::Zsh,
        Target::Fish => Shell::Fish,
        Target::PowerShell => Shell::PowerShell,
        Target::Elvish => Shell::Elvish,
        Target::Kubectl => {
            command.build(); // which tells every command the flags of those above it
            return print(&of_plugin(command));
        }
    };
    let name = command.get_name().to_owned();
    print(&script(shell, command, &name))
}

fn script(shell: impl Generator, command: &mut clap::Command, name: &str) -> String {
    let mut written = Vec::new();
    generate(shell, command, name, &mut written);
    String::from_utf8_lossy(&written).into_owned()
}

/// kubectl completes a plugin by running `kubectl_complete-<plugin>` with the words so far, the last of them unfinished: it
/// prints the candidates, one a line, and then a directive (4: no file names; 0: file names too).
fn of_plugin(command: &clap::Command) -> String {
    let mut known = Vec::new();
    let mut cases = String::new();
    describe(command, "", &mut known, &mut cases);
    let known = known.join("|");
    format!(
        r##"#!/bin/sh
# Candidates for `kubectl cloudserver`: put this into PATH as kubectl_complete-cloudserver, executable.
path=""
previous=""
last=""
for word in "$@"; do
  case "$path $last" in
    {known}) path="$path $last" ;;
  esac
  previous="$last"
  last="$word"
done
candidates=""
directive=":4"
case "$previous" in
  -f|--filename|--kubeconfig|--token-file) directive=":0" ;;
  *) case "$path" in
{cases}  esac ;;
esac
for candidate in $candidates; do
  case "$candidate" in
    "$last"*) printf '%s\n' "$candidate" ;;
  esac
done
echo "$directive"
"##
    )
}

/// A case for each command: the commands below it, and its flags.
fn describe(command: &clap::Command, path: &str, known: &mut Vec<String>, cases: &mut String) {
    let mut words = Vec::new();
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
    {
        let name = below.get_name();
        let path = format!("{path} {name}");
        known.push(format!("\"{path}\""));
        describe(below, &path, known, cases);
        words.push(name.to_owned());
    }
    for argument in command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set())
    {
        words.extend(argument.get_long().map(|long| format!("--{long}")));
        if argument.is_positional() {
            let values = argument.get_possible_values().into_iter();
            words.extend(values.map(|value| value.get_name().to_owned()));
        }
    }
    let words = words.join(" ");
    cases.push_str(&format!("  \"{path}\") candidates=\"{words}\" ;;\n"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn each_shell_gets_a_script_that_knows_every_command() {
        for shell in [
            Shell::Bash,
            Shell::Zsh,
            Shell::Fish,
            Shell::PowerShell,
            Shell::Elvish,
        ] {
            let text = script(
                shell,
                &mut super::super::Cli::command(),
                "cloud-server-operator",
            );
            for word in ["catalog", "instances", "import", "plan", "completion"] {
                assert!(text.contains(word), "{shell}: {word}");
            }
        }
    }

    #[test]
    fn kubectl_is_told_the_commands_and_flags_of_what_was_typed() {
        let mut command = super::super::Cli::command();
        command.build();
        let text = of_plugin(&command);
        for line in [
            "\" catalog regions\"",
            "\" catalog\") candidates=\"regions packages images",
            "--unowned",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
