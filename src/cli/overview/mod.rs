//! `status` and `describe`: what the cluster's objects tell, for people. The service is not asked.

mod describe;
mod progress;
mod tree;

#[cfg(test)]
mod tests;

use super::asked;
use super::completion::values;
use super::output::print;
use super::service::ClusterArgs;
use crate::api::valid;
use crate::api::{Account, Instance};
use crate::cli::chain;
use crate::cli::service::Cluster;
use crate::runtime::kubernetes::call;
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use kube::api::{Api, ListParams};
use kube::core::{DeserializeGuard, NamespaceResourceScope};
use kube::{Resource, ResourceExt};
use progress::Durations;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::process::ExitCode;

/// Objects in one answer of the apiserver.
const PAGE: u32 = 500;

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

fn object_name(text: &str) -> Result<String, String> {
    let checked = valid::object_name(text);
    checked.map_err(|problem| problem.to_string())?;
    Ok(text.to_owned())
}

/// Prints the tree of Accounts and Instances.
pub(super) fn status(args: &StatusArgs) -> ExitCode {
    asked(show_tree(args), |text| print(&text))
}

/// Prints what there is to say of each of these Instances.
pub(super) fn describe(args: &DescribeArgs) -> ExitCode {
    asked(show_each(args), |text| print(&text))
}

/// What is shown: the objects of some namespaces, with the names of those that this version cannot read.
#[derive(Default)]
struct Objects {
    accounts: Vec<Account>,
    instances: Vec<Instance>,
    unreadable: Vec<String>,
}

impl Objects {
    async fn read(cluster: &Cluster, all_namespaces: bool) -> Result<Self, String> {
        let mut objects = Self::default();
        let (accounts, unreadable) = list::<Account>(cluster, all_namespaces).await?;
        objects.accounts = accounts;
        objects.unreadable = unreadable;
        let (instances, unreadable) = list::<Instance>(cluster, all_namespaces).await?;
        objects.instances = instances;
        objects.unreadable.extend(unreadable);
        Ok(objects)
    }
}

async fn show_tree(args: &StatusArgs) -> Result<String, String> {
    let cluster = args.cluster.connect().await;
    let cluster = cluster.map_err(|error| chain(&error))?;
    let objects = Objects::read(&cluster, args.all_namespaces).await?;
    if objects.accounts.is_empty() && objects.instances.is_empty() && objects.unreadable.is_empty()
    {
        let place = match args.all_namespaces {
            true => "in any namespace".to_owned(),
            false => format!(
                "in namespace {}: name another one with -n, or all with -A",
                cluster.namespace
            ),
        };
        eprintln!("there is no Account and no Instance {place}");
        return Ok(String::new());
    }
    Ok(tree::tree(&objects, Timestamp::now()))
}

async fn show_each(args: &DescribeArgs) -> Result<String, String> {
    let cluster = args.cluster.connect().await;
    let cluster = cluster.map_err(|error| chain(&error))?;
    // The others tell how long such operations take here.
    let objects = Objects::read(&cluster, false).await?;
    let durations = Durations::of(&objects.instances);
    let by_name: BTreeMap<String, &Instance> = objects
        .instances
        .iter()
        .map(|instance| (instance.name_any(), instance))
        .collect();
    let now = Timestamp::now();
    let mut told = Vec::new();
    for name in &args.names {
        let Some(instance) = by_name.get(name) else {
            let is_there = objects
                .unreadable
                .contains(&format!("{}/{name}", cluster.namespace));
            return Err(match is_there {
                true => format!(
                    "Instance {name}: this version of the command cannot read it; kubectl get instance {name} -o yaml shows it"
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

/// All objects of a kind; those that cannot be read by namespace and name.
async fn list<K>(cluster: &Cluster, all_namespaces: bool) -> Result<(Vec<K>, Vec<String>), String>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + DeserializeOwned
        + Clone
        + Debug,
{
    let api: Api<DeserializeGuard<K>> = match all_namespaces {
        true => Api::all(cluster.client.clone()),
        false => Api::namespaced(cluster.client.clone(), &cluster.namespace),
    };
    let (mut read, mut unreadable) = (Vec::new(), Vec::new());
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = call("list what there is", api.list(&params)).await;
        let page = page.map_err(|error| cluster.told(&error))?;
        for object in page.items {
            let place = format!(
                "{}/{}",
                object.namespace().unwrap_or_default(),
                object.name_any()
            );
            match object.0 {
                Ok(object) => read.push(object),
                Err(_) => unreadable.push(place),
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok((read, unreadable)),
        }
    }
}

/// How long ago, or for how long, in the unit that matters.
fn about(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}
