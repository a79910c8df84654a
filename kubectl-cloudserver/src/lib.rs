//! `kubectl cloudserver`: the commands that people and pipelines use, built on the operator's library.

mod catalog;
mod completion;
mod connection;
mod import;
mod instances;
mod lists;
mod offers;
mod output;
mod overview;
mod owners;
mod parsers;
mod plan;
mod progress;
mod servers;
mod service;
mod support;
mod verbs;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use cloud_server_operator::catalog::Unread;
use cloud_server_operator::cloud::Client;
use cloud_server_operator::program::keep_private;
use cloud_server_operator::runtime::{chain, tls};
use std::process::ExitCode;

/// Name of the executable, under which kubectl finds it as a plugin.
const PROGRAM: &str = "kubectl-cloudserver";

/// Cloud servers and the Instances that own them: offers of the service, the state of Instances, and the effects of a manifest.
#[derive(Debug, Parser)]
#[command(name = PROGRAM, bin_name = "kubectl cloudserver", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the offers of the service: regions, packages, images, security groups, key pairs.
    Catalog(catalog::CatalogArgs),
    /// Show the servers of an account, each with the Instance that owns it.
    Instances(instances::InstancesArgs),
    /// Show Accounts and their Instances as a tree: their state, and the progress of open operations.
    Status(overview::StatusArgs),
    /// Explain the state of Instances: conditions, next step, history.
    Describe(overview::DescribeArgs),
    /// Write an archive for a person who helps you: objects, Events, metrics and versions, without Secrets.
    Support(support::SupportArgs),
    /// Print the manifest of an Instance that imports an existing server.
    Import(import::ImportArgs),
    /// Show the effects that applying manifests would have on servers: nothing, in place, restart, erase the disk, buy.
    #[command(after_long_help = plan::EXIT_STATUS)]
    Plan(plan::PlanArgs),
    #[command(flatten)]
    Verb(verbs::VerbCommand),
    /// Print the script by which a shell completes the command line.
    Completion(completion::CompletionArgs),
}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    keep_private(PROGRAM);
    if let Some(code) = completion::answer(command()) {
        return code;
    }
    let parsed = command().try_get_matches();
    match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => run(&cli.command),
        Err(error) => misused(&error),
    }
}

fn run(command: &Command) -> ExitCode {
    match command {
        Command::Catalog(args) => catalog::catalog(args),
        Command::Instances(args) => instances::instances(args),
        Command::Status(args) => overview::status(args),
        Command::Describe(args) => overview::describe(args),
        Command::Support(args) => support::support(args),
        Command::Import(args) => import::import(args),
        Command::Plan(args) => plan::plan(args),
        Command::Verb(command) => verbs::verb(command),
        Command::Completion(args) => completion::completion(args),
    }
}

/// The command line.
pub fn command() -> clap::Command {
    connection::shared(Cli::command())
}

/// Prints requested help, or the error of a command line. An error ends with status 1, as other failures do: 2 is an answer of `plan`.
fn misused(error: &clap::Error) -> ExitCode {
    let text = error.render().ansi().to_string();
    if error.use_stderr() {
        output::note(&text);
        return ExitCode::FAILURE;
    }
    output::print(&text)
}

/// Does the work on this thread, and prints its result, or why it failed.
fn run_and_print<T>(
    work: impl Future<Output = Result<T, String>>,
    print: impl FnOnce(T) -> ExitCode,
) -> ExitCode {
    match block_on(work).and_then(|done| done) {
        Ok(answer) => print(answer),
        Err(why) => output::failed(&why),
    }
}

/// Does asynchronous work on this thread.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, String> {
    tls::install_provider();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    Ok(runtime.block_on(work))
}

/// The message for a failed read at the service: the cause and the remedy.
fn unreadable(client: &Client, what: &str, unread: impl Into<Unread>) -> String {
    let unread = unread.into();
    let token_place = "the Account's Secret or into --token-file";
    let remedy = remedy(client, unread.unauthorized, token_place);
    format!("the {what} could not be read: {}: {remedy}", unread.why)
}

/// The remedy if the service does not answer, or rejects the token.
fn remedy(client: &Client, unauthorized: bool, token_place: &str) -> String {
    if unauthorized {
        format!("put a valid token into {token_place}")
    } else {
        let endpoint = client.endpoint();
        format!("check the endpoint {endpoint}, the network and the service")
    }
}

#[cfg(test)]
mod tests;
