//! `run`: starts the watches, the queues and the health endpoint, and ends them in order.

use super::args::RunArgs;
use super::elect::own_namespace;
use super::election::{self, Call, Election};
use super::log::Log;
use super::shards::{BROKEN, Ends, Pace, Share, Shown};
use super::wiring::Parts;
use super::{keeping, memory};
use crate::api::names::MANAGER;
use crate::cloud::Http;
use crate::program::connection::ConnectionArgs;
use crate::program::failed;
use crate::runtime::chain;
use crate::runtime::lease::Holdings;
use crate::runtime::{Heartbeats, Metrics, Shard, Term, health, kubernetes};
use crate::wiring::Process;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt};
use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

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
            return failed(MANAGER, &error);
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
    crate::runtime::tls::install_provider();
    let elect = args.elect.settings()?;
    let count = elect.as_ref().map_or(1, |settings| settings.shards);
    let stop = stop_signal().map_err(|error| format!("signals cannot be received: {error}"))?;
    let connected = ConnectionArgs::default().connect();
    let (client, _) = connected.map_err(|error| chain(&error))?;
    let port = args.metrics.port(&client)?;
    let allowed = args.allowed_endpoints.clone();
    let http = Http::guarded(allowed.into()).map_err(|error| chain(&error))?;
    let within = memory::keep_within(http.budget().clone(), metrics.clone());
    let _within = AbortOnDropHandle::new(tokio::spawn(within));
    let cluster = match &args.cluster_id {
        Some(id) => id.clone(),
        None => cluster_id(&client, &stop).await?,
    };
    metrics.shards(Shard::all(count));
    let holdings = Holdings::default();
    let shown = Shown::new(count, holdings.clone());
    let surveyed = shown.clone();
    metrics.survey(move || surveyed.survey());

    let term = match elect {
        Some(_) => Term::awaited(),
        None => Term::of_process(),
    };
    let all = All {
        client,
        cluster,
        http,
        metrics: metrics.clone(),
        shown: shown.clone(),
        stop: stop.clone(),
        args,
    };
    // Whoever stands by for the whole is ready at once; a shard is read when its Lease is won, so that memory divides.
    let warm = (count == 1).then(|| all.share(Shard::WHOLE, &term));
    let heartbeats = Heartbeats::default();
    let (listen, signs) = (all.args.listen, Arc::new(shown));
    let served = health::begin(
        listen,
        port,
        metrics,
        signs,
        heartbeats.clone(),
        stop.clone(),
    )
    .await?;
    tell_where(&served);
    let calls = match elect {
        None => {
            let (tell, calls) = mpsc::channel(1);
            // There is room for one.
            let _ = tell.try_send(Ok(Call::Act(Election::for_life(term))));
            calls
        }
        Some(settings) => {
            let stop = stop.clone();
            election::stand_by(settings, holdings.clone(), term, &heartbeats, stop, &own)
        }
    };
    all.act(warm, calls, holdings).await
}

/// What all shards of the process have in common.
struct All {
    client: Client,
    cluster: String,
    http: Http,
    metrics: Metrics,
    shown: Shown,
    stop: CancellationToken,
    args: RunArgs,
}

impl All {
    /// A shard that is watched from now on.
    fn share(&self, shard: Shard, term: &Term) -> Share {
        let ends = Ends::new(&self.stop);
        let process = Process {
            client: kubernetes::writes_within(self.client.clone(), term.clone()),
            cluster: self.cluster.clone(),
            http: self.http.clone(),
            metrics: self.metrics.clone(),
            shard,
            term: term.clone(),
            pod: std::env::var("POD_NAME").ok(),
        };
        let mut parts = Parts::new(process, &ends.over);
        parts.own_namespace = own_namespace(self.args.keep_tokens_namespace.as_deref());
        keeping::begin(&parts, self.args.keep_tokens);
        Share::watch(parts, &self.args.namespaces, ends, &self.shown)
    }

    /// Acts on shards as it is told, until told to stop, or until the right to act on one is lost.
    async fn act(
        &self,
        mut warm: Option<Share>,
        mut calls: mpsc::Receiver<Result<Call, String>>,
        holdings: Holdings,
    ) -> Result<(), String> {
        let pace = Pace {
            concurrency: self.args.concurrency,
            grace: Duration::from_secs(self.args.grace_seconds),
        };
        let mut acting = FuturesUnordered::new();
        let mut tokens: HashMap<Shard, CancellationToken> = HashMap::new();
        // Who acts on the whole has no other Lease to wait for.
        let is_alone = warm.is_some();
        let why = loop {
            let call = tokio::select! {
                biased;
                () = self.stop.cancelled() => break Ok(()),
                Some(ended) = acting.next() => match ended {
                    Ok(shard) => {
                        tokens.remove(&shard);
                        holdings.left(shard);
                        continue;
                    }
                    Err(why) => break Err(why),
                },
                call = calls.recv(), if !(is_alone && warm.is_none()) => {
                    call.unwrap_or_else(|| Err("the task that asks for Leases broke".to_owned()))
                }
                () = broken(&mut warm) => Err(BROKEN.to_owned()),
            };
            match call {
                Err(why) => break Err(why),
                Ok(Call::Leave(shard)) => {
                    tracing::info!(%shard, "given up for a process that has fewer");
                    if let Some(told) = tokens.get(&shard) {
                        told.cancel();
                    }
                }
                Ok(Call::Act(election)) => {
                    let shard = election.shard;
                    if tokens.contains_key(&shard) {
                        break Err(format!(
                            "shard {shard} was won by the process that acts on it"
                        ));
                    }
                    let share = warm
                        .take()
                        .unwrap_or_else(|| self.share(shard, election.term()));
                    tokens.insert(shard, share.token());
                    let acts = tokio::spawn(share.act(election, pace, self.stop.clone()));
                    acting.push(ended(shard, AbortOnDropHandle::new(acts)));
                }
            }
        };
        // Whatever ends one shard ends the process, but cuts off nothing of the others. What was won just now is given back, and so is
        // what a write that was under way may have brought.
        self.stop.cancel();
        let all_end = async {
            let mut first = why;
            while let Some(ended) = acting.next().await {
                first = first.and(ended.map(drop));
            }
            first
        };
        let none_begins = async {
            while let Some(call) = calls.recv().await {
                if let Ok(Call::Act(election)) = call {
                    election.leave().await;
                }
            }
        };
        futures::join!(all_end, none_begins).0
    }
}

async fn ended(shard: Shard, acts: AbortOnDropHandle<Result<(), String>>) -> Result<Shard, String> {
    let ended = acts.await;
    ended.map_err(|_| format!("the task of shard {shard} broke"))??;
    Ok(shard)
}

async fn broken(warm: &mut Option<Share>) {
    match warm {
        Some(share) => share.broken().await,
        None => std::future::pending().await,
    }
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
            Err(error) if error.is_want_of_right() => {
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
