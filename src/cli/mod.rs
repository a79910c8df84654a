//! The commands.

mod catalog;
mod completion;
mod connection;
mod elect;
mod import;
mod instances;
mod lists;
mod log;
mod memory;
mod metrics;
mod output;
mod overview;
mod owners;
mod parsers;
mod plan;
mod progress;
mod run;
mod servers;
mod service;
mod support;
mod verbs;

use crate::api::names::MANAGER;
use crate::api::printable;
use crate::catalog::Unread;
use crate::cloud::{Client, EndpointPattern};
use crate::runtime::chain;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
#[cfg(test)]
pub(crate) use connection::HEADING;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
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

/// Flags of `run`; each is also an environment variable.
#[derive(Debug, Args)]
struct RunArgs {
    /// Address for /livez and /readyz, and for /metrics where --metrics-listen is not given. [::] is every address of both
    /// families, or of IPv4 where the machine has no IPv6; port 0 lets the system choose.
    #[arg(
        long,
        env = "CSO_LISTEN",
        default_value = "[::]:8080",
        value_name = "ADDR"
    )]
    listen: SocketAddr,

    #[command(flatten)]
    metrics: metrics::MetricsArgs,

    /// Watch only this namespace; may be given several times. All namespaces when absent.
    #[arg(
        long = "namespace",
        env = "CSO_NAMESPACES",
        value_delimiter = ',',
        value_name = "NAME"
    )]
    namespaces: Vec<String>,

    /// Send requests only to this endpoint, for all Accounts; may be given several times. A URL and what lies below it, such as
    /// https://cloud.example/api, or hosts, such as *.cloud.example (https, every host below cloud.example); a port of * is any.
    /// Any endpoint to which the Account's Secret consents when absent.
    #[arg(
        long = "allowed-endpoint",
        env = "CSO_ALLOWED_ENDPOINTS",
        value_delimiter = ',',
        value_name = "ENDPOINT"
    )]
    allowed_endpoints: Vec<EndpointPattern>,

    /// Reconciles of Instances at the same time.
    #[arg(long, env = "CSO_CONCURRENCY", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    concurrency: u16,

    /// Identity of this cluster in the records of what was bought; read from the UID of namespace kube-system when absent.
    #[arg(long, env = "CSO_CLUSTER_ID", value_name = "ID")]
    cluster_id: Option<String>,

    /// Seconds that running reconciles get to end on SIGTERM.
    #[arg(long, env = "CSO_GRACE_SECONDS", default_value_t = 25)]
    grace_seconds: u64,

    /// Keep a copy of each token that an Instance needs in the operator's own namespace, so that a namespace can be deleted
    /// although the operator restarts meanwhile; --keep-tokens=false to keep none.
    #[arg(long, env = "CSO_KEEP_TOKENS", default_value_t = true, action = ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    keep_tokens: bool,

    /// Namespace of these copies, and of the key under which records name tokens; nobody else may read Secrets there. The Pod's
    /// own when absent.
    #[arg(long, env = "CSO_KEEP_TOKENS_NAMESPACE", value_name = "NAME")]
    keep_tokens_namespace: Option<String>,

    /// File with what RUST_LOG would say, such as a key of a mounted ConfigMap; read again when it changes. RUST_LOG counts while
    /// there is no such file, or nothing in it.
    #[arg(long, env = "CSO_LOG_FILTER_FILE", value_name = "FILE")]
    log_filter_file: Option<PathBuf>,

    #[command(flatten)]
    elect: elect::ElectArgs,
}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    if let Err(error) = memory::keep_private() {
        output::note(&format!(
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
        Command::Run(args) => run::run(args),
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
        output::note(&text);
        return ExitCode::FAILURE;
    }
    output::print(&text)
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

/// Reports on standard error why a command failed.
fn failed(why: &str) -> ExitCode {
    output::note(&format!("{MANAGER}: {}", printable(why)));
    ExitCode::FAILURE
}

fn crds() -> ExitCode {
    match crate::crds_yaml() {
        Ok(text) => output::print(&text),
        Err(error) => failed(&format!(
            "the CustomResourceDefinitions could not be written: {error}"
        )),
    }
}
