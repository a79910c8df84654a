//! The commands.

mod run;

use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::process::ExitCode;

/// Cloud servers as Kubernetes objects: exactly one server for each Instance.
#[derive(Debug, Parser)]
#[command(name = "cloud-server-operator", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch Accounts and Instances, and make the service follow them.
    Run(RunArgs),
    /// Print the CustomResourceDefinitions, ready for kubectl apply.
    Crds,
}

/// Flags of `run`; each is also an environment variable.
#[derive(Debug, Args)]
struct RunArgs {
    /// Address for /livez, /readyz and /metrics; port 0 lets the system choose.
    #[arg(
        long,
        env = "CSO_LISTEN",
        default_value = "0.0.0.0:8080",
        value_name = "ADDR"
    )]
    listen: SocketAddr,

    /// Watch only this namespace; may be given several times. All namespaces when absent.
    #[arg(
        long = "namespace",
        env = "CSO_NAMESPACES",
        value_delimiter = ',',
        value_name = "NAME"
    )]
    namespaces: Vec<String>,

    /// Turns of Instances at the same time.
    #[arg(long, env = "CSO_CONCURRENCY", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    concurrency: u16,

    /// Identity of this cluster in the records of what was bought; read from the UID of namespace kube-system when absent.
    #[arg(long, env = "CSO_CLUSTER_ID", value_name = "ID")]
    cluster_id: Option<String>,

    /// Seconds that running turns get to end on SIGTERM.
    #[arg(long, env = "CSO_GRACE_SECONDS", default_value_t = 25)]
    grace_seconds: u64,
}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        Command::Run(args) => run::run(args),
        Command::Crds => crds(),
    }
}

fn crds() -> ExitCode {
    match crate::crds_yaml() {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("the CustomResourceDefinitions could not be written: {error}");
            ExitCode::FAILURE
        }
    }
}
