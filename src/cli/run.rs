//! `run`: starts the watches, the queues and the health endpoint, and ends them in order.

mod briefs;
mod changes;
mod election;
mod fleet;
mod keeping;
mod memory;
mod referrers;
mod survey;
mod undecodable;
mod wiring;

use super::RunArgs;
use super::elect::own_namespace;
use super::log::Log;
use crate::api::Instance;
use crate::api::names::MANAGER;
use crate::cloud::Http;
use crate::runtime::chain;
use crate::runtime::rights::{self, Trial};
use crate::runtime::watch::Synced;
use crate::runtime::{Metrics, Term, health, kubernetes};
use crate::wiring::Process;
use election::Election;
use fleet::Fleet;
use futures::future::{join_all, select_all};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use wiring::Parts;

const BROKEN: &str = "a watch ended";

/// Runs until SIGTERM or SIGINT.
pub(super) fn run(args: RunArgs) -> ExitCode {
    let begun = runtimes()
        .map_err(|error| format!("no runtime: {error}"))
        .and_then(|(runtime, own)| {
            let entered = runtime.enter();
            let log = Log::begin(args.log_filter_file.clone())?;
            drop(entered);
            Ok((runtime, own, log))
        });
    let (runtime, own, mut log) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            eprintln!("{MANAGER}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let metrics = Metrics::default();
    metrics.count_dropped_lines(log.dropped());
    let ended = runtime.block_on(serve(args, metrics, own.handle().clone()));
    log.end_traces();
    // Whatever still runs has no business any more.
    runtime.shutdown_background();
    own.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            log.say(&format!("{MANAGER}: {message}"));
            ExitCode::FAILURE
        }
    }
}

/// One for all the work, and one of a single thread for the Lease alone.
fn runtimes() -> std::io::Result<(Runtime, Runtime)> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let own = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("lease")
        .enable_all()
        .build()?;
    Ok((runtime, own))
}

async fn serve(args: RunArgs, metrics: Metrics, own: Handle) -> Result<(), String> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let elect = args.elect.settings()?;
    let stop = stop_signal().map_err(|error| format!("signals cannot be received: {error}"))?;
    let client = kubernetes::client().await.map_err(|error| chain(&error))?;
    let port = args.metrics.port(&client)?;
    let term = match elect {
        Some(_) => Term::awaited(),
        None => Term::of_process(),
    };
    let allowed = args.allowed_endpoints.clone();
    let http = Http::guarded(allowed.into()).map_err(|error| chain(&error))?;
    let within = memory::keep_within(http.budget().clone(), metrics.clone());
    let _within = AbortOnDropHandle::new(tokio::spawn(within));
    let parts = parts(&args, client, http, &metrics, &term, &stop).await?;
    let mut fleets: Vec<Fleet> = scopes(&args.namespaces)
        .iter()
        .map(|scope| Fleet::watch(&parts, scope.as_deref(), &stop))
        .collect();
    let synced = fleets
        .iter()
        .flat_map(|fleet| fleet.synced.clone())
        .collect();
    let stores = fleets.iter().map(|fleet| fleet.stores.clone()).collect();
    // Nobody reads it before the watches run; set once.
    let _ = parts.stores.set(stores);
    let surveyed = parts.clone();
    metrics.survey(move || survey::survey(&surveyed));

    let heartbeats = parts.heartbeats.clone();
    let (listen, shown) = (args.listen, metrics.clone());
    let served = health::begin(
        listen,
        port,
        shown,
        synced,
        heartbeats.clone(),
        stop.clone(),
    )
    .await?;
    tell_where(&served);
    let mut watches = Box::pin(first_to_end(&mut fleets, stop.clone()));
    let election = match elect {
        None => Election::for_life(term),
        Some(settings) => tokio::select! {
            won = Election::win(settings, term, &heartbeats, &stop, own) => match won? {
                Some(election) => election,
                None => return Ok(()), // told to stop while standing by
            },
            () = &mut watches => return Err(BROKEN.to_owned()),
        },
    };
    metrics.active(true);
    let trial = trial(&parts, &fleets, metrics);
    let is_tried = trial.begin().await;
    let _tried = AbortOnDropHandle::new(tokio::spawn(trial.go_on(is_tried, stop.clone())));
    let grace = Duration::from_secs(args.grace_seconds);
    act(
        &parts,
        fleets,
        election,
        watches,
        (args.concurrency, grace),
        &stop,
    )
    .await
}

/// What every reconciler of the process shares.
async fn parts(
    args: &RunArgs,
    client: Client,
    http: Http,
    metrics: &Metrics,
    term: &Term,
    stop: &CancellationToken,
) -> Result<Parts, String> {
    let cluster = match &args.cluster_id {
        Some(id) => id.clone(),
        None => cluster_id(&client, stop).await?,
    };
    let process = Process {
        client: kubernetes::writes_within(client, term.clone()),
        cluster,
        http,
        metrics: metrics.clone(),
        term: term.clone(),
        pod: std::env::var("POD_NAME").ok(),
    };
    let mut parts = Parts::new(process, stop);
    parts.own_namespace = own_namespace(args.keep_tokens_namespace.as_deref());
    keeping::begin(&parts, args.keep_tokens);
    Ok(parts)
}

fn tell_where(served: &health::Addresses) {
    let address = served.probes;
    match served.metrics {
        None => tracing::info!(%address, "serving /livez, /readyz and /metrics"),
        Some(metrics) => {
            tracing::info!(%address, %metrics, "serving /livez and /readyz, and /metrics elsewhere");
        }
    }
}

/// Ends when a watch does. They end with the process as well: that is nothing to tell of.
fn first_to_end(fleets: &mut [Fleet], stop: CancellationToken) -> impl Future<Output = ()> + use<> {
    let watches: Vec<_> = fleets.iter_mut().flat_map(Fleet::take_watches).collect();
    async move {
        let _ = select_all(watches).await;
        if stop.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }
}

/// The trial of the operator's rights, where it watches and where its own Secrets stand.
fn trial(parts: &Parts, fleets: &[Fleet], metrics: Metrics) -> Trial {
    let scopes: Vec<_> = fleets
        .iter()
        .map(|fleet| fleet.stores.namespace.clone())
        .collect();
    Trial {
        client: parts.client.clone(),
        namespaces: rights::namespaces(parts.own_namespace.clone(), &scopes),
        rights: parts.accounts.rights.clone(),
        metrics,
    }
}

/// Runs the queues until told to stop, or until the right to act is lost.
async fn act(
    parts: &Parts,
    fleets: Vec<Fleet>,
    mut election: Election,
    watches: impl Future<Output = ()>,
    (concurrency, grace): (u16, Duration),
    stop: &CancellationToken,
) -> Result<(), String> {
    let _begun = election.is_elected().then(|| begin_term(parts, &fleets));
    let synced = fleets.iter().flat_map(|fleet| fleet.synced.clone());
    let synced: Vec<Synced> = synced.map(|(_, synced)| synced).collect();
    // Before any reconcile: what is being deleted may need a token that only a copy has, and all account sessions are made under
    // one key.
    let is_restored = tokio::select! {
        restored = async {
            keeping::find_key(parts).await;
            keeping::restore(parts).await
        } => restored.is_ok(),
        lost = election.lost() => return Err(lost),
        () = stop.cancelled() => false,
    };
    let keep = keeping::keep(parts.clone(), synced, is_restored, stop.clone());
    let _keeper = AbortOnDropHandle::new(tokio::spawn(keep));
    let mut queues =
        Box::pin(join_all(fleets.into_iter().map(|fleet| {
            fleet.run(parts.clone(), concurrency, stop.clone())
        })));
    let is_drained = tokio::select! {
        // First: the signal ends the watches as well, and running reconciles must not be cut off by that.
        biased;
        () = stop.cancelled() => {
            tracing::info!("stopping: letting running reconciles end");
            tokio::select! {
                lost = election.lost() => return Err(lost),
                drained = tokio::time::timeout(grace, &mut queues) => drained.is_ok(),
            }
        }
        lost = election.lost() => return Err(lost),
        _ = &mut queues => true,
        // A watch never ends before the process does: this one is broken, and a new process is the remedy.
        () = watches => return Err(BROKEN.to_owned()),
    };
    if is_drained {
        election.leave().await;
    } else {
        // A call may still be on its way: whoever comes next waits until the Lease is stale.
        tracing::warn!(
            "some reconciles did not end in time; what they did is on record, and the Lease is not released"
        );
    }
    Ok(())
}

/// What this process saw while it stood by is not its own: see [`election::find_births`].
fn begin_term(parts: &Parts, fleets: &[Fleet]) -> AbortOnDropHandle<()> {
    parts.instances.memories.begin_term();
    parts.instances.sessions.begin_term();
    let namespace = fleets
        .first()
        .and_then(|fleet| fleet.stores.namespace.clone());
    let api = fleet::api::<Instance>(&parts.client, namespace.as_deref());
    let born_after = parts.born_after.clone();
    AbortOnDropHandle::new(tokio::spawn(async move {
        election::find_births(api, &born_after).await;
    }))
}

/// The namespaces to watch; a single "all" when none is named.
fn scopes(namespaces: &[String]) -> Vec<Option<String>> {
    let named: BTreeSet<String> = namespaces
        .iter()
        .map(|namespace| namespace.trim().to_owned())
        .filter(|namespace| !namespace.is_empty())
        .collect();
    if named.is_empty() {
        vec![None]
    } else {
        named.into_iter().map(Some).collect()
    }
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
                    "{error}: allow get of namespace kube-system (deploy/shared has the role), or set --cluster-id"
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
