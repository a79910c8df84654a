//! `run`: starts the watches, the queues and the health endpoint, and ends them in order.

mod fleet;
mod undecodable;
mod wiring;

use super::RunArgs;
use crate::api::names::MANAGER;
use crate::instance::facts::accounts;
use crate::runtime::watch::ObjectKey;
use crate::runtime::{Metrics, health, kubernetes};
use fleet::Fleet;
use futures::future::{join_all, select_all};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt};
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;
use wiring::Parts;

/// How often seats that nobody needs any more are dropped.
const SWEEP: Duration = Duration::from_secs(60);
/// Runs until SIGTERM or SIGINT.
pub(super) fn run(args: RunArgs) -> ExitCode {
    log();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("no runtime: {error}")),
    };
    match runtime.block_on(serve(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => fail(&message),
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("{MANAGER}: {message}");
    ExitCode::FAILURE
}

/// People read lines, machines read JSON. The client library logs whole bodies at WARN when one does not decode, which
/// may hold a Secret: only its errors are shown. What watches run into is told by our own line.
fn log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let directives = ["kube_client=error", "kube_runtime=error"];
    let filter = directives
        .iter()
        .filter_map(|directive| directive.parse().ok())
        .fold(filter, EnvFilter::add_directive);
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        builder.init();
    } else {
        builder.json().flatten_event(true).init();
    }
}

async fn serve(args: RunArgs) -> Result<(), String> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let stop = stop_signal().map_err(|error| format!("signals cannot be received: {error}"))?;
    let client = kubernetes::client().await.map_err(|error| chain(&error))?;
    let cluster = match args.cluster_id {
        Some(id) => id,
        None => cluster_id(&client, &stop).await?,
    };
    let metrics = Metrics::default();
    let scopes: BTreeSet<String> = args
        .namespaces
        .iter()
        .map(|n| n.trim().to_owned())
        .filter(|n| !n.is_empty())
        .collect();
    let parts = Parts::new(client, cluster, metrics.clone(), &stop)?;
    let mut fleets: Vec<Fleet> = if scopes.is_empty() {
        vec![Fleet::watch(&parts, None, &stop)]
    } else {
        scopes
            .iter()
            .map(|namespace| Fleet::watch(&parts, Some(namespace), &stop))
            .collect()
    };
    let synced = fleets
        .iter()
        .flat_map(|fleet| fleet.synced.clone())
        .collect();
    let stores = fleets.iter().map(|fleet| fleet.stores.clone()).collect();
    // Nobody reads it before the watches run; set once.
    let _ = parts.stores.set(stores);

    let address = health::serve(args.listen, metrics, synced, stop.clone())
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", args.listen))?;
    tracing::info!(%address, "serving /livez, /readyz and /metrics");

    let watches: Vec<_> = fleets.iter_mut().flat_map(Fleet::take_watches).collect();
    let sweeper = tokio::spawn(sweep(parts.clone(), stop.clone()));
    let queues = join_all(
        fleets
            .into_iter()
            .map(|fleet| fleet.run(parts.clone(), args.concurrency, stop.clone())),
    );
    tokio::pin!(queues);
    tokio::select! {
        // First: the signal ends the watches as well, and running turns must not be cut off by that.
        biased;
        () = stop.cancelled() => {
            tracing::info!("stopping: letting running turns end");
            if tokio::time::timeout(Duration::from_secs(args.grace_seconds), &mut queues).await.is_err() {
                tracing::warn!("some turns did not end in time; what they did is on record");
            }
        }
        _ = &mut queues => {}
        // A watch never ends before the process does: this one is broken, and a new process is the remedy.
        _ = select_all(watches), if !stop.is_cancelled() => {
            if !stop.is_cancelled() {
                return Err("a watch ended".to_owned());
            }
        }
    }
    sweeper.abort();
    Ok(())
}

/// An error and its causes, as one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

fn stop_signal() -> std::io::Result<CancellationToken> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut term, mut int) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        token.cancel();
    });
    Ok(stop)
}

/// The UID of namespace kube-system: stable for the life of a cluster. Waits for an apiserver that is not there yet.
async fn cluster_id(client: &Client, stop: &CancellationToken) -> Result<String, String> {
    let api: Api<Namespace> = Api::all(client.clone());
    let mut backoff = crate::runtime::Backoff::default();
    loop {
        match kubernetes::call(
            "read namespace kube-system",
            api.get_metadata("kube-system"),
        )
        .await
        {
            Ok(namespace) => {
                return namespace
                    .uid()
                    .ok_or_else(|| "namespace kube-system has no UID".to_owned());
            }
            Err(error) if error.category() == "forbidden" => {
                return Err(format!(
                    "{error}: allow get of namespace kube-system (deploy/ has the Role), or set --cluster-id"
                ));
            }
            Err(error) => {
                tracing::warn!(error = chain(&error), "waiting for the cluster");
                tokio::select! {
                    () = tokio::time::sleep(backoff.fail().min(Duration::from_secs(10))) => {}
                    () = stop.cancelled() => return Err("stopped before the cluster answered".to_owned()),
                }
            }
        }
    }
}

/// Drops seats of Accounts that are gone and that no Instance refers to any more.
async fn sweep(parts: Parts, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(SWEEP);
    loop {
        tokio::select! { _ = ticks.tick() => {}, () = stop.cancelled() => return }
        let Some(stores) = parts.stores.get() else {
            continue;
        };
        let mut needed = BTreeSet::new();
        for object in stores.iter().flat_map(|scope| scope.instances.state()) {
            if let Ok(instance) = &object.0 {
                let namespace = instance.namespace().unwrap_or_default();
                for name in accounts(instance) {
                    needed.insert(ObjectKey {
                        namespace: namespace.clone(),
                        name,
                    });
                }
            }
        }
        parts
            .accounts
            .sessions
            .sweep(|account| needed.contains(account));
    }
}
