//! `run`: starts the watches, the queues and the health endpoint, and ends them in order.

use super::args::RunArgs;
use super::controller::{self, BROKEN, Controller};
use super::elect::own_namespace;
use super::election::{self, Election};
use super::log::Log;
use super::parts::Parts;
use super::{keeping, memory};
use crate::api::names::MANAGER;
use crate::cloud::Http;
use crate::program::failed;
use crate::runtime::chain;
use crate::runtime::{Metrics, Shard, Term, health, kubernetes};
use crate::wiring::Process;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Runs until SIGTERM or SIGINT, or until the process must not act any more: the Lease is lost, or a watch has ended.
pub(super) fn run(args: RunArgs) -> ExitCode {
    let (runtime, lease_runtime, mut log) = match begin(args.log_filter_file.clone()) {
        Ok(begun) => begun,
        Err(error) => return failed(MANAGER, &error),
    };
    let metrics = Metrics::default();
    metrics.count_dropped_lines(log.dropped());
    let ended = runtime.block_on(serve(args, metrics, lease_runtime.handle().clone()));
    log.end_traces();
    // Tasks that still run are not needed any more.
    runtime.shutdown_background();
    lease_runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            log.write(&format!("{MANAGER}: {message}"));
            ExitCode::FAILURE
        }
    }
}

/// Two runtimes, one for all the work and one of a single thread for the Lease alone, and the log.
fn begin(log_filter_file: Option<PathBuf>) -> Result<(Runtime, Runtime, Log), String> {
    let build = |builder: &mut Builder| {
        let runtime = builder.enable_all().build();
        runtime.map_err(|error| format!("no runtime: {error}"))
    };
    let runtime = build(&mut Builder::new_multi_thread())?;
    let mut single = Builder::new_multi_thread();
    let lease_runtime = build(single.worker_threads(1).thread_name("lease"))?;
    let entered = runtime.enter();
    let log = Log::begin(log_filter_file)?;
    drop(entered);
    Ok((runtime, lease_runtime, log))
}

async fn serve(args: RunArgs, metrics: Metrics, lease_runtime: Handle) -> Result<(), String> {
    crate::runtime::tls::install_provider();
    let elect = args.elect.settings()?;
    let shard = elect
        .as_ref()
        .map_or(Shard::WHOLE, |settings| settings.shard);
    let stop = stop_signal().map_err(|error| format!("signals cannot be received: {error}"))?;
    let client = kubernetes::inferred_client().await?;
    let port = args.metrics.port(&client)?;
    let allowed = args.allowed_endpoints.clone();
    let http = Http::guarded(allowed.into()).map_err(|error| chain(&error))?;
    let memory_guard = memory::keep_within(http.budget().clone(), metrics.clone());
    let _memory_guard = AbortOnDropHandle::new(tokio::spawn(memory_guard));
    let cluster = match &args.cluster_id {
        Some(id) => id.clone(),
        None => cluster_id(&client, &stop).await?,
    };
    let term = match elect {
        Some(_) => Term::awaited(),
        None => Term::of_process(),
    };
    let over = CancellationToken::new();
    let process = Process {
        client: kubernetes::writes_within(client, term.clone()),
        cluster,
        http,
        metrics: metrics.clone(),
        shard,
        term: term.clone(),
        pod: std::env::var("POD_NAME").ok(),
    };
    let own_namespace = own_namespace(args.keep_tokens_namespace.as_deref());
    let scopes = controller::scopes(&args.namespaces);
    let (parts, requests) = Parts::new(process, scopes, own_namespace, &over);
    keeping::begin(&parts, args.keep_tokens);
    let heartbeats = parts.heartbeats.clone();
    for sibling in shard.siblings() {
        metrics.active.set([&sibling.to_string()], false);
    }
    let mut controller = Controller::watch(parts, requests, over);
    health::begin(
        args.listen,
        port,
        metrics,
        controller.synced.clone(),
        heartbeats.clone(),
        stop.clone(),
    )
    .await?;
    let election = match elect {
        None => Election::for_life(term),
        Some(settings) => tokio::select! {
            elected = election::stand_by(settings, term, &heartbeats, &lease_runtime) => elected?,
            () = &mut controller.watches => return Err(BROKEN.to_owned()),
            () = stop.cancelled() => return Ok(()),
        },
    };
    let grace = Duration::from_secs(args.grace_seconds);
    controller
        .act(election, args.concurrency, grace, stop)
        .await
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

/// The UID of namespace kube-system: stable for the life of a cluster. Waits for an apiserver that does not answer yet.
/// A stop during this wait is an error.
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
            Err(error) if error.is_want_of_right() => {
                return Err(format!(
                    "{error}: allow get of namespace kube-system (deploy/shared has the role), or set --cluster-id to its UID"
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
