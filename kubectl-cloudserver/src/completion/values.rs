//! Candidates that a cluster provides.
//!
//! The user waits at the keyboard and has not requested anything: values that do not arrive within [`PATIENCE`] are not offered, and
//! no error is shown.

use crate::command;
use crate::connection::ConnectionArgs;
use crate::service::{Cluster, ClusterArgs, ServiceArgs};
use clap::{ArgMatches, FromArgMatches};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use cloud_server_operator::api::{Account, Instance, PlaceInventory};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams};
use kube::config::Kubeconfig;
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::mpsc;
use std::time::Duration;

/// How long the user waits. A distant apiserver needs half a second for handshake and answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// More names than a user chooses from.
const MOST: u32 = 500;

/// Namespaces of the cluster.
pub(crate) fn namespaces() -> ArgValueCandidates {
    listed::<Namespace>(|cluster| Api::all(cluster.client))
}

/// Accounts of the namespace.
pub(crate) fn accounts() -> ArgValueCandidates {
    listed::<Account>(of_namespace)
}

/// Instances of the namespace.
pub(crate) fn instances() -> ArgValueCandidates {
    listed::<Instance>(of_namespace)
}

fn of_namespace<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(
    cluster: Cluster,
) -> Api<K> {
    Api::namespaced(cluster.client, &cluster.namespace)
}

/// The names of the objects of a kind.
fn listed<K: Resource + Clone + DeserializeOwned + Debug + 'static>(
    api: fn(Cluster) -> Api<K>,
) -> ArgValueCandidates {
    ArgValueCandidates::new(move || {
        of_cluster(async move |cluster| {
            let page = ListParams::default().limit(MOST);
            let listed = api(cluster).list_metadata(&page).await.ok()?.items;
            Some(listed.iter().map(|row| plain(row.name_any())).collect())
        })
    })
}

/// Contexts of the kubeconfig.
pub(crate) fn contexts() -> ArgValueCandidates {
    of_kubeconfig(|read| read.contexts.into_iter().map(|one| one.name).collect())
}

/// Clusters of the kubeconfig.
pub(crate) fn clusters() -> ArgValueCandidates {
    of_kubeconfig(|read| read.clusters.into_iter().map(|one| one.name).collect())
}

/// Users of the kubeconfig.
pub(crate) fn users() -> ArgValueCandidates {
    of_kubeconfig(|read| read.auth_infos.into_iter().map(|one| one.name).collect())
}

fn of_kubeconfig(names: fn(Kubeconfig) -> Vec<String>) -> ArgValueCandidates {
    ArgValueCandidates::new(move || {
        in_time(async move || {
            let (read, _) = of_line::<ConnectionArgs>()?.read().ok()?;
            Some(names(read).into_iter().map(plain).collect())
        })
    })
}

/// Unowned servers, from the Account's status.
pub(crate) fn unowned() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        of_account(|account| {
            let servers = account.status.unwrap_or_default().unowned.into_iter();
            let named = servers.map(|server| plain(server.id).help(server.name.map(Into::into)));
            named.collect()
        })
    })
}

/// Regions in which the Account's status counts servers.
pub(crate) fn regions() -> ArgValueCandidates {
    places(|place| place.region)
}

/// Zones in which the Account's status counts servers.
pub(crate) fn zones() -> ArgValueCandidates {
    places(|place| place.zone)
}

/// Each code once, also if several places have it.
fn places(code: fn(PlaceInventory) -> String) -> ArgValueCandidates {
    ArgValueCandidates::new(move || {
        of_account(move |account| {
            let places = account.status.unwrap_or_default().inventory.into_iter();
            let codes: BTreeSet<String> = places.map(code).collect();
            codes.into_iter().map(plain).collect()
        })
    })
}

/// Usual words; others are valid, too.
pub(crate) fn usual(words: &'static [&'static str]) -> ArgValueCandidates {
    ArgValueCandidates::new(|| words.iter().map(CompletionCandidate::new).collect())
}

fn plain(value: String) -> CompletionCandidate {
    CompletionCandidate::new(value)
}

/// Candidates from the cluster that the words so far name.
fn of_cluster(
    read: impl AsyncFnOnce(Cluster) -> Option<Vec<CompletionCandidate>> + Send + 'static,
) -> Vec<CompletionCandidate> {
    in_time(async || read(of_line::<ClusterArgs>()?.connect().ok()?).await)
}

/// Candidates from the Account that the words so far name.
fn of_account(
    candidates: impl FnOnce(Account) -> Vec<CompletionCandidate> + Send + 'static,
) -> Vec<CompletionCandidate> {
    in_time(async || {
        let (_, account) = of_line::<ServiceArgs>()?.account().await.ok()?;
        Some(candidates(account))
    })
}

/// The flags among the words so far. Unfinished and invalid words are ignored.
fn of_line<T: FromArgMatches>() -> Option<T> {
    let command = command().ignore_errors(true);
    let parsed = command.try_get_matches_from(super::words()).ok()?;
    let mut last: &ArgMatches = &parsed;
    while let Some((_, below)) = last.subcommand() {
        last = below;
    }
    T::from_arg_matches(last).ok()
}

/// Does the work in a separate thread and waits for [`PATIENCE`] at most: reading a file or running a credential plugin has no
/// deadline.
fn in_time(
    work: impl AsyncFnOnce() -> Option<Vec<CompletionCandidate>> + Send + 'static,
) -> Vec<CompletionCandidate> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        // The receiver may have stopped waiting.
        let _ = sender.send(crate::block_on(work()));
    });
    let values = receiver.recv_timeout(PATIENCE).ok();
    values.and_then(Result::ok).flatten().unwrap_or_default()
}
