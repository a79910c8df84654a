//! Runs a control plane in the foreground.

use std::{
    error::Error,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use devcluster::{Cluster, Executables};
use tokio::signal::unix::{SignalKind, signal};

/// A real etcd and kube-apiserver on loopback, until Ctrl-C.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Subcommands>,

    /// Write the administrator's kubeconfig here as well
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,

    /// Keep all files in this directory, and continue with the objects in it
    #[arg(long, value_name = "PATH")]
    data_dir: Option<PathBuf>,

    /// Let etcd wait for the disk
    #[arg(long)]
    fsync: bool,

    /// Leave out kube-controller-manager: nothing is garbage-collected, and deleted namespaces never disappear
    #[arg(long, global = true)]
    without_controllers: bool,
}

#[derive(Subcommand)]
enum Subcommands {
    /// Build the missing executables, and print the directory that contains them
    Build,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "devcluster: {}", chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    // Before the runtime starts: a signal then simply ends the program.
    let executables = Executables::find_or_build_with(!arguments.without_controllers)?;
    match arguments.command {
        Some(Subcommands::Build) => {
            writeln!(io::stdout(), "{}", executables.directory().display())?;
            Ok(())
        }
        None => tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?
            .block_on(serve(arguments)),
    }
}

async fn serve(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let mut builder = Cluster::builder()
        .fsync(arguments.fsync)
        .controllers(!arguments.without_controllers);
    if let Some(directory) = arguments.data_dir {
        builder = builder.data_dir(directory);
    }
    let cluster = builder.start().await?;
    if let Some(path) = &arguments.kubeconfig {
        cluster.write_admin_kubeconfig(path)?;
    }
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    writeln!(
        io::stdout(),
        "\
kubeconfig  {}
kubectl     {}
audit log   {}
server      {}
Ready. Ctrl-C stops it.",
        arguments
            .kubeconfig
            .as_deref()
            .unwrap_or(cluster.kubeconfig_path())
            .display(),
        cluster.kubectl_path().display(),
        cluster.audit_log_path().display(),
        cluster.url(),
    )?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    cluster.stop().await;
    Ok(())
}

/// An error and its causes, in one line.
fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        line.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    line
}
