//! The reference of the command lines, made from their definitions.

use crate::connection::HEADING;
use clap::{Arg, ArgAction, Command};
use cloud_server_operator::operator;

/// The whole page.
pub(super) fn page() -> String {
    let mut page = String::from(
        "# Command line\n\n\
         All commands and flags; `--help` shows the same text. `kubectl cloudserver` is the\n\
         [plugin](operations/install.md#the-plugin) for people and pipelines: [what its commands are for](features/commands.md). The\n\
         operator itself has `run` and `crds`: [running](operations/running.md). Generated from `kubectl-cloudserver/src/` and\n\
         `src/operator/`.\n",
    );
    let mut plugin = crate::command();
    plugin.build();
    let mut operator = operator::command();
    operator.build();
    below(&mut page, &operator);
    below(&mut page, &plugin);
    let status = plugin.find_subcommand("status").unwrap();
    let shared = status.get_arguments().filter(|one| is_shared(one));
    page.push_str("\n## Connection to the cluster\n\nThe flags of kubectl, for every command that connects to a cluster.\n");
    table(&mut page, shared);
    page
}

/// Whether a flag belongs to the connection to the cluster; the page lists these flags once.
fn is_shared(argument: &Arg) -> bool {
    argument.get_help_heading() == Some(HEADING)
}

fn table<'a>(page: &mut String, arguments: impl Iterator<Item = &'a Arg>) {
    page.push_str("\n| Flag | Variable | Default | Meaning |\n|---|---|---|---|\n");
    arguments.for_each(|argument| page.push_str(&row(argument)));
}

/// A section for each command below this one that does something.
fn below(page: &mut String, parent: &Command) {
    for command in parent.get_subcommands() {
        if command.is_hide_set() || command.get_name() == "help" {
            continue;
        }
        if command.has_subcommands() {
            below(page, command);
        } else {
            section(page, command);
        }
    }
}

fn section(page: &mut String, command: &Command) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let name = name.strip_prefix("cloud-server-operator ").unwrap_or(name);
    let name = name.strip_prefix("kubectl cloudserver ").unwrap_or(name);
    let about = command.get_long_about().or_else(|| command.get_about());
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    page.push_str(&format!(
        "\n## {name}\n\n{}\n\n    {usage}\n",
        line(&about.map(ToString::to_string).unwrap_or_default())
    ));
    let arguments = command.get_arguments();
    let arguments: Vec<&Arg> = arguments.filter(|one| is_listed(one)).collect();
    let (shared, own): (Vec<&Arg>, Vec<&Arg>) =
        arguments.into_iter().partition(|one| is_shared(one));
    if !own.is_empty() {
        table(page, own.into_iter());
    }
    if !shared.is_empty() {
        page.push_str(
            "\nAnd those of the [connection to the cluster](#connection-to-the-cluster).\n",
        );
    }
    if let Some(more) = command.get_after_long_help() {
        page.push_str(&format!("\n```text\n{}\n```\n", more.to_string().trim()));
    }
}

/// Flags that every command has are not listed.
fn is_listed(argument: &Arg) -> bool {
    let is_of_all = matches!(
        argument.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    );
    !argument.is_hide_set() && !is_of_all
}

fn row(argument: &Arg) -> String {
    let takes_value = argument.get_action().takes_values();
    let values = argument.get_value_names().unwrap_or_default();
    let value = values.first().map_or("VALUE", |value| value.as_str());
    let mut names = Vec::new();
    if argument.is_positional() {
        names.push(format!("`{value}`"));
    }
    if let Some(short) = argument.get_short() {
        names.push(format!("`-{short}`"));
    }
    if let Some(long) = argument.get_long() {
        let value = if takes_value {
            format!(" {value}")
        } else {
            String::new()
        };
        names.push(format!("`--{long}{value}`"));
    }
    let quoted = |text: &std::ffi::OsStr| format!("`{}`", text.to_string_lossy());
    let variable = argument.get_env().map(quoted).unwrap_or_default();
    let defaults: Vec<String> = argument
        .get_default_values()
        .iter()
        .filter(|_| takes_value)
        .map(|value| quoted(value))
        .collect();
    let help = argument.get_long_help().or_else(|| argument.get_help());
    let mut help = line(&help.map(ToString::to_string).unwrap_or_default());
    let possible = argument.get_possible_values();
    // The values of a switch need no list.
    let is_switch = possible
        .iter()
        .all(|one| one.get_name() == "true" || one.get_name() == "false");
    if takes_value && !is_switch {
        let words = possible.iter().filter(|one| !one.is_hide_set());
        let words: Vec<String> = words.map(|one| format!("`{}`", one.get_name())).collect();
        help.push_str(&format!(" One of {}.", words.join(", ")));
    }
    format!(
        "| {} | {variable} | {} | {} |\n",
        names.join(", "),
        defaults.join(", "),
        help.trim()
    )
}

/// A sentence in a cell of a table, where a `<` would begin a tag and a `*` emphasis.
fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ").replace('|', "\\|").replace('*', "\\*");
    let end = if text.is_empty() || text.ends_with('.') {
        ""
    } else {
        "."
    };
    format!("{}{end}", text.replace('<', "&lt;"))
}
