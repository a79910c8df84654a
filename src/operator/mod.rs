//! The operator as a program: its command line, its log, and `run`, which starts the watches, queues and reconciles.

mod args;
mod briefs;
mod controller;
mod elect;
mod election;
mod fleet;
mod keeping;
mod log;
mod memory;
mod metrics;
mod parts;
mod run;
mod survey;
mod undecodable;

use crate::api::names::MANAGER;
use crate::program::{failed, keep_private, note, print};
use args::RunArgs;
use clap::{CommandFactory, Parser};
use std::process::ExitCode;

/// Cloud servers as Kubernetes objects: exactly one server for each Instance.
#[derive(Debug, Parser)]
#[command(name = MANAGER, version, about)]
enum Command {
    /// Watch Accounts and Instances, and make the service follow them.
    Run(Box<RunArgs>),
    /// Print the CustomResourceDefinitions, ready for kubectl apply.
    Crds,
}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    keep_private(MANAGER);
    match Command::try_parse() {
        Ok(Command::Run(args)) => run::run(*args),
        Ok(Command::Crds) => crds(),
        Err(error) if error.use_stderr() => {
            note(&error.to_string());
            ExitCode::FAILURE
        }
        // Help or the version was requested.
        Err(help) => print(MANAGER, &help.to_string()),
    }
}

/// The command line.
pub fn command() -> clap::Command {
    <Command as CommandFactory>::command()
}

fn crds() -> ExitCode {
    match crate::crds_yaml() {
        Ok(text) => print(MANAGER, &text),
        Err(error) => failed(
            MANAGER,
            &format!("the CustomResourceDefinitions could not be written: {error}"),
        ),
    }
}
