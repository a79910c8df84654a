//! `status` and `describe`: the state of the cluster's objects, for people. They do not call the service.

mod describe;
mod next;
mod progress;
mod readiness;
mod tree;

use super::completion::values;
use super::lists;
use super::output::{note, print};
use super::parsers::object_name;
use super::run_and_print;
use super::service::ClusterArgs;
use clap::Args;
use cloud_server_operator::api::{Account, Instance};
use cloud_server_operator::runtime::KubeError;
use jiff::Timestamp;
use kube::ResourceExt;
use progress::Durations;
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

/// The objects of one or all namespaces.
struct Objects {
    accounts: Vec<Account>,
    instances: Vec<Instance>,
    /// Kind, namespace and name of the objects that this version cannot read.
    unreadable: Vec<[String; 3]>,
}

/// Prints the tree of Accounts and Instances.
pub(super) fn status(args: &StatusArgs) -> ExitCode {
    run_and_print(show_tree(args), |text| print(&text))
}

/// Explains the state of each of these Instances.
pub(super) fn describe(args: &DescribeArgs) -> ExitCode {
    run_and_print(show_each(args), |text| print(&text))
}

async fn show_tree(args: &StatusArgs) -> Result<String, String> {
    let cluster = args.cluster.connect()?;
    let namespace = (!args.all_namespaces).then_some(cluster.namespace.as_str());
    let failed = |error: KubeError| cluster.explain(&error);
    let accounts = lists::objects(&cluster, namespace).await.map_err(failed)?;
    let instances = lists::objects(&cluster, namespace).await.map_err(failed)?;
    if accounts.is_empty() && instances.is_empty() {
        let place = match namespace {
            None => "in any namespace".to_owned(),
            Some(name) => {
                format!("in namespace {name}: name another one with -n, or all with -A")
            }
        };
        note(&format!("there is no Account and no Instance {place}"));
        return Ok(String::new());
    }
    let (accounts, mut unreadable) = lists::readable(accounts);
    let (instances, others) = lists::readable(instances);
    unreadable.extend(others);
    let objects = Objects {
        accounts,
        instances,
        unreadable,
    };
    Ok(tree::tree(&objects, Timestamp::now()))
}

async fn show_each(args: &DescribeArgs) -> Result<String, String> {
    let cluster = args.cluster.connect()?;
    // All are listed, since the histories of the others show how long operations take.
    let listed = lists::objects(&cluster, Some(&cluster.namespace)).await;
    let listed = listed.map_err(|error| cluster.explain(&error))?;
    let (instances, unreadable) = lists::readable(listed);
    let durations = Durations::of(&instances);
    let now = Timestamp::now();
    let mut texts = Vec::new();
    for name in &args.names {
        let mut all = instances.iter();
        if let Some(instance) = all.find(|instance| instance.name_any() == *name) {
            texts.push(describe::describe(instance, &durations, now));
            continue;
        }
        let namespace = &cluster.namespace;
        return Err(match unreadable.iter().any(|[.., it]| it == name) {
            true => format!(
                "Instance {name}: this version of the command cannot read it: see kubectl get csinst {name} -n {namespace} -o yaml"
            ),
            false => format!(
                "Instance {name} does not exist in namespace {namespace}: check the name and -n"
            ),
        });
    }
    Ok(texts.join("\n"))
}

#[cfg(test)]
mod tests;
