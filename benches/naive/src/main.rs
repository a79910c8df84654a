//! A controller of Instances in the style of the kube-rs documentation, for comparison with the operator in benchmarks.
//!
//! It works only if nothing fails. It keeps no record of a purchase before the call, so a crash between the call and the write
//! of its answer buys a second server. It polls each server separately and does not limit its requests. It supports neither
//! selectors, imports, restarts, changed passwords nor policies, and uses only the endpoint and the token of an Account.

mod reconcile;
mod service;

use axum::Router;
use axum::routing::get;
use clap::Parser;
use cloud_server_operator::api::Instance;
use futures::{StreamExt, future};
use kube::runtime::reflector::Store;
use kube::runtime::{Config, Controller, watcher};
use kube::{Api, Client};
use reconcile::{Context, reconcile, retry};
use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

/// How long one call to the service may take.
const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// A naive controller of Instances, for comparison.
#[derive(Parser)]
enum Command {
    /// Watch Instances, and manage their servers.
    Run(RunArgs),
}

#[derive(clap::Args)]
struct RunArgs {
    /// Address for /livez, /readyz and /metrics; port 0 lets the system choose.
    #[arg(long, default_value = "0.0.0.0:8080")]
    listen: SocketAddr,

    /// Watch only this namespace; may be given several times. All namespaces when absent.
    #[arg(long = "namespace")]
    namespaces: Vec<String>,

    /// Concurrent reconciles.
    #[arg(long, default_value_t = 20)]
    concurrency: u16,

    /// Flags of the operator that have no effect here, so that the same command line starts both.
    #[arg(long = "leader-elect", hide = true, num_args = 0..=1, default_missing_value = "true", aliases = [
        "leader-elect-lease-duration", "leader-elect-renew-deadline", "leader-elect-retry-period",
        "leader-elect-resource-name", "leader-elect-resource-namespace",
        "keep-tokens", "keep-tokens-namespace", "grace-seconds", "allowed-endpoint", "cluster-id",
    ])]
    ignored: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Command::Run(args) = Command::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().json().flatten_event(true);
    log.with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    match run(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = chain(&*error), "it cannot run");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: RunArgs) -> Result<(), Box<dyn Error>> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    tracing::debug!(ignored = ?args.ignored, "flags without a meaning here");
    let client = Client::try_default().await?;
    let http = reqwest::Client::builder().timeout(CALL_DEADLINE).build()?;
    let context = Arc::new(Context::new(client.clone(), http));
    let apis = match args.namespaces.is_empty() {
        true => vec![Api::all(client)],
        false => {
            let namespaces = args.namespaces.iter();
            let api = |namespace: &String| Api::namespaced(client.clone(), namespace);
            namespaces.map(api).collect()
        }
    };
    let (mut stores, mut controllers) = (Vec::new(), Vec::new());
    for api in apis {
        let controller = Controller::new(api, watcher::Config::default())
            .with_config(Config::default().concurrency(args.concurrency))
            .shutdown_on_signal();
        stores.push(controller.store());
        let reconciles = controller.run(reconcile, retry, context.clone());
        controllers.push(reconciles.for_each(async |done| {
            if let Err(error) = done {
                tracing::warn!(error = chain(&error), "it is tried again");
            }
        }));
    }
    let listener = TcpListener::bind(args.listen).await?;
    let address = listener.local_addr()?;
    tracing::info!(%address, "serving /livez, /readyz and /metrics");
    tokio::select! {
        served = axum::serve(listener, pages(stores)).into_future() => Ok(served?),
        _ = future::join_all(controllers) => Ok(()),
    }
}

/// The pages for metrics and probes. It is ready as soon as it serves.
fn pages(stores: Vec<Store<Instance>>) -> Router {
    let metrics = move || future::ready(metrics(&stores));
    Router::new()
        .route("/livez", get("ok\n"))
        .route("/readyz", get("ok\n"))
        .route("/metrics", get(metrics))
}

/// How many Instances are ready, according to their status.
fn metrics(stores: &[Store<Instance>]) -> String {
    let all: Vec<_> = stores.iter().flat_map(Store::state).collect();
    let ready = all.iter().filter(|instance| is_ready(instance)).count();
    let name = "cloud_server_operator_instances";
    let waiting = all.len() - ready;
    format!(
        "# TYPE {name} gauge\n{name}{{state=\"ready\"}} {ready}\n{name}{{state=\"reconciling\"}} {waiting}\n"
    )
}

fn is_ready(instance: &Instance) -> bool {
    instance.status.as_ref().is_some_and(|status| {
        let is_current = Some(status.observed_generation) == instance.metadata.generation;
        let mut conditions = status.conditions.iter();
        is_current && conditions.any(|it| it.type_ == "Ready" && it.status == "True")
    })
}

/// An error and its causes, in one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    let errors = std::iter::successors(Some(error), |&error| error.source());
    let words: Vec<String> = errors.map(ToString::to_string).collect();
    words.join(": ")
}
