//! `status` and `describe`: the state of the cluster's objects, for people. They do not call the service.

mod describe;
mod next;
mod objects;
mod progress;
mod readiness;
mod tree;

use super::asked;
use super::completion::values;
use super::output::{note, print};
use super::parsers::object_name;
use super::service::ClusterArgs;
use clap::Args;
use cloud_server_operator::api::Instance;
use jiff::Timestamp;
use kube::ResourceExt;
use objects::Objects;
use progress::Durations;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Flags of `status`.
#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    cluster: ClusterArgs,

    /// All namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
}

/// Flags of `describe`.
#[derive(Debug, Args)]
pub(super) struct DescribeArgs {
    /// The Instances, by name.
    #[arg(required = true, value_name = "NAME", value_parser = object_name, add = values::instances())]
    names: Vec<String>,

    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Prints the tree of Accounts and Instances.
pub(super) fn status(args: &StatusArgs) -> ExitCode {
    asked(show_tree(args), |text| print(&text))
}

/// Explains the state of each of these Instances.
pub(super) fn describe(args: &DescribeArgs) -> ExitCode {
    asked(show_each(args), |text| print(&text))
}

async fn show_tree(args: &StatusArgs) -> Result<String, String> {
    let cluster = args.cluster.connect()?;
    let objects = Objects::read(&cluster, args.all_namespaces).await?;
    if objects.is_empty() {
        let place = match args.all_namespaces {
            true => "in any namespace".to_owned(),
            false => format!(
                "in namespace {}: name another one with -n, or all with -A",
                cluster.namespace
            ),
        };
        note(&format!("there is no Account and no Instance {place}"));
        return Ok(String::new());
    }
    Ok(tree::tree(&objects, Timestamp::now()))
}

async fn show_each(args: &DescribeArgs) -> Result<String, String> {
    let cluster = args.cluster.connect()?;
    // The histories of the others show how long operations take.
    let (instances, unreadable) = objects::list::<Instance>(&cluster, false).await?;
    let durations = Durations::of(&instances);
    let by_name: BTreeMap<String, &Instance> = instances
        .iter()
        .map(|instance| (instance.name_any(), instance))
        .collect();
    let now = Timestamp::now();
    let mut told = Vec::new();
    for name in &args.names {
        let Some(instance) = by_name.get(name) else {
            let is_there = unreadable.iter().any(|object| object.name == *name);
            return Err(match is_there {
                true => format!(
                    "Instance {name}: this version of the command cannot read it; kubectl get instances.cloudserver.dev {name} -o yaml shows it"
                ),
                false => format!(
                    "Instance {name} does not exist in namespace {}: check the name and -n",
                    cluster.namespace
                ),
            });
        };
        told.push(describe::describe(instance, &durations, now));
    }
    Ok(told.join("\n"))
}

#[cfg(test)]
mod tests;
