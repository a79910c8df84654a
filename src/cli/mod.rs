//! The commands.

mod catalog;
mod completion;
mod import;
mod instances;
mod lists;
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

use crate::api::names::MANAGER;
use crate::catalog::Unread;
use crate::cloud::Client;
use crate::operator::{self, RunArgs};
use crate::program::{failed, keep_private, note, print};
use crate::runtime::chain;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::path::Path;
use std::process::ExitCode;

/// Cloud servers as Kubernetes objects: exactly one server for each Instance.
#[derive(Debug, Parser)]
#[command(name = "cloud-server-operator", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Name of the executable under which kubectl finds it as a plugin.
const PLUGIN: &str = "kubectl-cloudserver";

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch Accounts and Instances, and make the service follow them.
    Run(RunArgs),
    /// Print the CustomResourceDefinitions, ready for kubectl apply.
    Crds,
    /// Show what the service offers: regions, packages, images, security groups, key pairs.
    Catalog(catalog::CatalogArgs),
    /// Show the servers of an account, and which Instance has each.
    Instances(instances::InstancesArgs),
    /// Show Accounts and their Instances as a tree: how each stands, and how far what is being done is.
    Status(overview::StatusArgs),
    /// Tell in sentences how Instances stand, what comes next, and what was done.
    Describe(overview::DescribeArgs),
    /// Write an archive for whoever is to help: objects, Events, metrics and versions, without Secrets.
    Support(support::SupportArgs),
    /// Print the manifest of an Instance that takes over a server which exists.
    Import(import::ImportArgs),
    /// Show what applying manifests would do to servers: nothing, in place, restart, erase the disk, buy.
    #[command(after_long_help = plan::EXIT_STATUS)]
    Plan(plan::PlanArgs),
    #[command(flatten)]
    Verb(verbs::VerbCommand),
    /// Print what a shell needs to complete the command line.
    Completion(completion::CompletionArgs),
}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    if let Err(error) = keep_private() {
        note(&format!(
            "{MANAGER}: core dumps could not be turned off: {error}"
        ));
    }
    if let Some(code) = completion::answer(command) {
        return code;
    }
    let parsed = command().try_get_matches();
    let parsed = parsed.and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return misused(&error),
    };
    match cli.command {
        Command::Run(args) => operator::run(args),
        Command::Crds => crds(),
        Command::Catalog(args) => catalog::catalog(&args),
        Command::Instances(args) => instances::instances(&args),
        Command::Status(args) => overview::status(&args),
        Command::Describe(args) => overview::describe(&args),
        Command::Support(args) => support::support(&args),
        Command::Import(args) => import::import(&args),
        Command::Plan(args) => plan::plan(&args),
        Command::Verb(command) => verbs::verb(&command),
        Command::Completion(args) => completion::completion(&args, &command()),
    }
}

/// Help that was asked for, or what is wrong with the command line: 1 as any other failure, since 2 is an answer of `plan`.
fn misused(error: &clap::Error) -> ExitCode {
    let text = error.render().ansi().to_string();
    if error.use_stderr() {
        note(&text);
        return ExitCode::FAILURE;
    }
    print(&text)
}

/// The command line. As a kubectl plugin it is called what the user types.
pub(crate) fn command() -> clap::Command {
    let called = std::env::args_os().next().unwrap_or_default();
    let called = Path::new(&called).file_stem().unwrap_or_default();
    if called == PLUGIN {
        Cli::command().bin_name("kubectl cloudserver")
    } else {
        Cli::command()
    }
}

/// Runs a command that only asks and prints: one thread, and no log.
fn asked<T>(
    asking: impl Future<Output = Result<T, String>>,
    print: impl FnOnce(T) -> ExitCode,
) -> ExitCode {
    crate::runtime::tls::install_provider();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("no runtime: {error}")),
    };
    match runtime.block_on(asking) {
        Ok(answer) => print(answer),
        Err(why) => failed(&why),
    }
}

/// What could not be read at the service, and what to do about it.
fn unreadable(client: &Client, what: &str, unread: impl Into<Unread>) -> String {
    let unread = unread.into();
    let tokens = "the Account's Secret or into --token-file";
    let remedy = remedy(client, unread.unauthorized, tokens);
    format!("the {what} could not be read: {}: {remedy}", unread.why)
}

/// What to do about a service that does not answer, or does not take the token, which stands in `tokens`.
fn remedy(client: &Client, unauthorized: bool, tokens: &str) -> String {
    if unauthorized {
        format!("put a valid token into {tokens}")
    } else {
        let endpoint = client.endpoint();
        format!("check the endpoint {endpoint}, the network and the service")
    }
}

fn crds() -> ExitCode {
    match crate::crds_yaml() {
        Ok(text) => print(&text),
        Err(error) => failed(&format!(
            "the CustomResourceDefinitions could not be written: {error}"
        )),
    }
}
