//! Values that a cluster tells, for whoever types a command line.
//!
//! Somebody waits at the keyboard, and for nothing that he asked for: what does not come in [`PATIENCE`] is not offered, and
//! nobody is told why.

use crate::api::{Account, Instance};
use crate::cli::command;
use crate::cli::service::{Cluster, ClusterArgs, ServiceArgs};
use crate::program::connection::ConnectionArgs;
use clap::{ArgMatches, Command, FromArgMatches};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams, ObjectList, PartialObjectMeta};
use kube::config::Kubeconfig;
use kube::{Resource, ResourceExt};
use std::sync::mpsc;
use std::time::Duration;

/// As long as a shell waits. An apiserver far away needs half a second for handshake and answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// More names than anybody chooses from.
const MOST: u32 = 500;

/// A command whose flags that name things of the cluster offer what is there.
pub(super) fn offered(command: Command) -> Command {
    let candidates = |id: &str| match id {
        "namespace" => Some(namespaces()),
        "context" => Some(of_kubeconfig(|read| {
            read.contexts.into_iter().map(|one| one.name).collect()
        })),
        "cluster" => Some(of_kubeconfig(|read| {
            read.clusters.into_iter().map(|one| one.name).collect()
        })),
        "user" => Some(of_kubeconfig(|read| {
            read.auth_infos.into_iter().map(|one| one.name).collect()
        })),
        "account" => Some(accounts()),
        _ => None,
    };
    let command = command.mut_args(|arg| match candidates(arg.get_id().as_str()) {
        Some(candidates) => arg.add(candidates),
        None => arg,
    });
    command.mut_subcommands(offered)
}

/// Namespaces.
fn namespaces() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        of_cluster(async |cluster: Cluster| {
            let api: Api<Namespace> = Api::all(cluster.client);
            names(api.list_metadata(&page()).await)
        })
    })
}

/// Instances of the namespace.
pub(in crate::cli) fn instances() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        of_cluster(async |cluster: Cluster| {
            let api: Api<Instance> = Api::namespaced(cluster.client, &cluster.namespace);
            names(api.list_metadata(&page()).await)
        })
    })
}

/// Accounts of the namespace.
fn accounts() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        of_cluster(async |cluster: Cluster| {
            let api: Api<Account> = Api::namespaced(cluster.client, &cluster.namespace);
            names(api.list_metadata(&page()).await)
        })
    })
}

/// Names of the kubeconfig.
fn of_kubeconfig(names: fn(Kubeconfig) -> Vec<String>) -> ArgValueCandidates {
    ArgValueCandidates::new(move || {
        in_time(async move || {
            let read = of_line::<ConnectionArgs>()?.read().ok()?;
            Some(names(read).into_iter().map(plain).collect())
        })
    })
}

/// Servers that no Instance has, as the Account's status names them.
pub(in crate::cli) fn unowned() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        of_account(|account| {
            let servers = account.status.unwrap_or_default().unowned.into_iter();
            let said = servers.map(|server| plain(server.id).help(server.name.map(Into::into)));
            said.collect()
        })
    })
}

/// Regions in which the Account's status counts servers.
pub(in crate::cli) fn regions() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        of_account(|account| {
            let places = account.status.unwrap_or_default().inventory.into_iter();
            places.map(|place| once(place.region)).collect()
        })
    })
}

/// Zones in which the Account's status counts servers.
pub(in crate::cli) fn zones() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        of_account(|account| {
            let places = account.status.unwrap_or_default().inventory.into_iter();
            places.map(|place| once(place.zone)).collect()
        })
    })
}

/// Words that are usual and not the only ones.
pub(in crate::cli) fn usual(words: &'static [&'static str]) -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        words
            .iter()
            .copied()
            .map(CompletionCandidate::new)
            .collect()
    })
}

fn plain(value: String) -> CompletionCandidate {
    CompletionCandidate::new(value)
}

/// A value that may come several times, and is offered once.
fn once(value: String) -> CompletionCandidate {
    plain(value.clone()).id(Some(value))
}

fn page() -> ListParams {
    ListParams::default().limit(MOST)
}

fn names<K: Clone + Resource>(
    listed: kube::Result<ObjectList<PartialObjectMeta<K>>>,
) -> Option<Vec<CompletionCandidate>> {
    let listed = listed.ok()?.items;
    Some(listed.iter().map(|row| plain(row.name_any())).collect())
}

/// What the cluster tells that the words so far name.
fn of_cluster(
    tell: impl AsyncFnOnce(Cluster) -> Option<Vec<CompletionCandidate>> + Send + 'static,
) -> Vec<CompletionCandidate> {
    in_time(async || tell(of_line::<ClusterArgs>()?.connect().ok()?).await)
}

/// What the Account tells that the words so far name.
fn of_account(
    tell: impl FnOnce(Account) -> Vec<CompletionCandidate> + Send + 'static,
) -> Vec<CompletionCandidate> {
    in_time(async || {
        let (_, account) = of_line::<ServiceArgs>()?.account().await.ok()?;
        Some(tell(account))
    })
}

/// The flags among the words so far. What is unfinished or wrong is passed over.
fn of_line<T: FromArgMatches>() -> Option<T> {
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let parsed = command().ignore_errors(true).try_get_matches_from(words);
    let parsed = parsed.ok()?;
    let mut last: &ArgMatches = &parsed;
    while let Some((_, below)) = last.subcommand() {
        last = below;
    }
    T::from_arg_matches(last).ok()
}

/// Does the work in a thread of its own, which is not waited for longer: reading a file or running a credential plugin has no
/// deadline.
fn in_time(
    work: impl AsyncFnOnce() -> Option<Vec<CompletionCandidate>> + Send + 'static,
) -> Vec<CompletionCandidate> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        crate::runtime::tls::install_provider();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let values = runtime.ok().and_then(|runtime| runtime.block_on(work()));
        // Who does not wait any more misses nothing.
        let _ = tell.send(values);
    });
    told.recv_timeout(PATIENCE)
        .ok()
        .flatten()
        .unwrap_or_default()
}
