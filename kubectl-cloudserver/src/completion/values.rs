//! Candidates for the values of flags and arguments, most of them from the cluster or the kubeconfig.
//!
//! The user waits at the keyboard and has not run a command: values that do not arrive within [`PATIENCE`] are not offered, and no
//! error is shown.

use crate::command;
use crate::connection::ConnectionArgs;
use crate::service::{Cluster, ClusterArgs, ServiceArgs};
use clap::{ArgMatches, Command, FromArgMatches};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use cloud_server_operator::api::{Account, AccountStatus, Instance};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams};
use kube::config::Kubeconfig;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Debug;
use std::sync::mpsc;
use std::time::Duration;

/// The deadline for the candidates: four times the half second that a distant apiserver needs for handshake and answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most names that are requested and offered. No user chooses from more.
const MAX_NAMES: u32 = 500;

/// The command with candidates for the flags that choose the cluster and its objects.
pub(super) fn offered(command: Command) -> Command {
    let candidates = |id: &str| match id {
        "namespace" => Some(listed::<Namespace>(|cluster| Api::all(cluster.client))),
        "account" => Some(listed::<Account>(|cluster| {
            Api::namespaced(cluster.client, &cluster.namespace)
        })),
        "context" => Some(of_kubeconfig(|read| {
            read.contexts.into_iter().map(|one| one.name).collect()
        })),
        "cluster" => Some(of_kubeconfig(|read| {
            read.clusters.into_iter().map(|one| one.name).collect()
        })),
        "user" => Some(of_kubeconfig(|read| {
            read.auth_infos.into_iter().map(|one| one.name).collect()
        })),
        _ => None,
    };
    let command = command.mut_args(|arg| match candidates(arg.get_id().as_str()) {
        Some(candidates) => arg.add(candidates),
        None => arg,
    });
    command.mut_subcommands(offered)
}

/// The Instances of the namespace.
pub(crate) fn instances() -> ArgValueCandidates {
    listed::<Instance>(|cluster| Api::namespaced(cluster.client, &cluster.namespace))
}

/// The names of the objects of a kind.
fn listed<K: Resource + Clone + DeserializeOwned + Debug + 'static>(
    api: fn(Cluster) -> Api<K>,
) -> ArgValueCandidates {
    from_flags(async move |flags: ClusterArgs| {
        let page = ListParams::default().limit(MAX_NAMES);
        let listed = api(flags.connect().ok()?).list_metadata(&page).await;
        let names = listed.ok()?.items.into_iter();
        let candidates = names.map(|row| CompletionCandidate::new(row.name_any()));
        Some(candidates.collect())
    })
}

fn of_kubeconfig(names: fn(Kubeconfig) -> Vec<String>) -> ArgValueCandidates {
    from_flags(async move |flags: ConnectionArgs| {
        let (read, _) = flags.read().ok()?;
        let candidates = names(read).into_iter().map(CompletionCandidate::new);
        Some(candidates.collect())
    })
}

/// The unowned servers that the Account's status names.
pub(crate) fn unowned() -> ArgValueCandidates {
    of_account(|status| {
        let servers = status.unowned.into_iter();
        let named = servers
            .map(|server| CompletionCandidate::new(server.id).help(server.name.map(Into::into)));
        named.collect()
    })
}

/// The regions of the zones in the Account's status.
pub(crate) fn regions() -> ArgValueCandidates {
    of_account(|status| once_each(status.inventory.into_iter().map(|place| place.region)))
}

/// The zones in the Account's status.
pub(crate) fn zones() -> ArgValueCandidates {
    of_account(|status| once_each(status.inventory.into_iter().map(|place| place.zone)))
}

fn once_each(codes: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    let codes: BTreeSet<String> = codes.collect();
    codes.into_iter().map(CompletionCandidate::new).collect()
}

/// Candidates from the Account that the flags name in the cluster, even if the command would call the service of `--endpoint`.
fn of_account(candidates: fn(AccountStatus) -> Vec<CompletionCandidate>) -> ArgValueCandidates {
    from_flags(async move |flags: ServiceArgs| {
        let (_, account) = flags.account().await.ok()?;
        Some(candidates(account.status.unwrap_or_default()))
    })
}

/// Usual words; others are valid, too.
pub(crate) fn usual(words: &'static [&'static str]) -> ArgValueCandidates {
    ArgValueCandidates::new(|| words.iter().map(CompletionCandidate::new).collect())
}

/// Candidates that are read with the flags among the words so far, within [`PATIENCE`]. A separate thread reads them, since
/// reading a file or running a credential plugin has no deadline.
fn from_flags<T: FromArgMatches + 'static>(
    read: impl AsyncFn(T) -> Option<Vec<CompletionCandidate>> + Copy + Send + Sync + 'static,
) -> ArgValueCandidates {
    ArgValueCandidates::new(move || {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let values = of_line().map(|flags| crate::block_on(read(flags)));
            // The receiver may have stopped waiting.
            let _ = sender.send(values.and_then(Result::ok).flatten());
        });
        let values = receiver.recv_timeout(PATIENCE).ok();
        values.flatten().unwrap_or_default()
    })
}

/// The words so far, which a script passes after `--`.
pub(super) fn words() -> Vec<OsString> {
    let after = std::env::args_os().skip_while(|word| word != "--");
    after.skip(1).collect()
}

/// The flags among the words so far. Unfinished and invalid words are ignored.
fn of_line<T: FromArgMatches>() -> Option<T> {
    let command = command().ignore_errors(true);
    let parsed = command.try_get_matches_from(words()).ok()?;
    let mut last: &ArgMatches = &parsed;
    while let Some((_, below)) = last.subcommand() {
        last = below;
    }
    T::from_arg_matches(last).ok()
}
