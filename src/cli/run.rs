//! `run`: starts the watches, the queues and the health endpoint, and ends them in order.

use super::RunArgs;
use crate::api::names::MANAGER;
use crate::api::{Account, Instance};
use crate::cloud::Http;
use crate::inventory::{Settings as ListingSettings, Subject};
use crate::runtime::events::{Events, News};
use crate::runtime::queue::{self, Requests, Trigger};
use crate::runtime::watch::{self, Change, Notice, ObjectKey, Synced};
use crate::runtime::{Metrics, Term, health, kubernetes};
use crate::session::{SecretVersions, Sessions};
use crate::{account, instance};
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{ObjectMeta, PartialObjectMeta};
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// One object that does not decode must not stop the others.
type Guarded<K> = DeserializeGuard<K>;

/// Secrets of these types are of no interest and often many.
const SECRET_FIELDS: &str = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token";
/// How often seats that nobody needs any more are dropped.
const SWEEP: Duration = Duration::from_secs(60);
/// Turns of Accounts at the same time.
const ACCOUNT_TURNS: u16 = 16;

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
/// may hold a Secret: only its errors are shown.
fn log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let quiet = |filter: EnvFilter| match "kube_client=error".parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(quiet(filter))
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
    let fleets = if scopes.is_empty() {
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

    let sweeper = tokio::spawn(sweep(parts.clone(), stop.clone()));
    let queues = join_all(
        fleets
            .into_iter()
            .map(|fleet| fleet.run(parts.clone(), args.concurrency, stop.clone())),
    );
    tokio::pin!(queues);
    tokio::select! {
        _ = &mut queues => {}
        () = stop.cancelled() => {
            tracing::info!("stopping: letting running turns end");
            if tokio::time::timeout(Duration::from_secs(args.grace_seconds), queues).await.is_err() {
                tracing::warn!("some turns did not end in time; what they did is on record");
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

/// The stores of one scope (a namespace, or all).
#[derive(Clone)]
struct Stores {
    namespace: Option<String>,
    instances: Store<Guarded<Instance>>,
    accounts: Store<Guarded<Account>>,
    wake_instance: Trigger<Guarded<Instance>>,
    wake_account: Trigger<Guarded<Account>>,
}

/// What all scopes share; cheap to clone.
#[derive(Clone)]
struct Parts {
    instances: instance::Context,
    accounts: account::Context,
    secrets: SecretVersions,
    metrics: Metrics,
    client: Client,
    stores: Arc<OnceLock<Vec<Stores>>>,
}

impl Parts {
    fn new(
        client: Client,
        cluster: String,
        metrics: Metrics,
        stop: &CancellationToken,
    ) -> Result<Self, String> {
        let http = Http::new().map_err(|error| chain(&error))?;
        let stores: Arc<OnceLock<Vec<Stores>>> = Arc::default();
        let memories = instance::memory::Memories::default();
        let wake = {
            let (stores, memories) = (stores.clone(), memories.clone());
            move |subject: Subject| {
                if let Some(key) = memories.key_of(&subject) {
                    scopes_of(&stores, &key.namespace)
                        .for_each(|scope| scope.wake_instance.wake(&key));
                }
            }
        };
        let sessions = Sessions::new(
            http,
            ListingSettings::default(),
            metrics.clone(),
            wake,
            stop.child_token(),
        );
        let events = Events::new(client.clone(), std::env::var("POD_NAME").ok());
        // Running turns may end what they began after the stop signal: the term ends with the process.
        let term = Term::begin(CancellationToken::new());
        let account_memories = account::Memories::default();
        let doubt_account = {
            let (stores, memories) = (stores.clone(), account_memories.clone());
            move |key: &ObjectKey| {
                memories.doubt(key);
                scopes_of(&stores, &key.namespace).for_each(|scope| scope.wake_account.wake(key));
            }
        };
        let wake_instances = {
            let stores = stores.clone();
            move |account: &ObjectKey| {
                for scope in scopes_of(&stores, &account.namespace) {
                    scope.wake_where(&account.namespace, |instance| {
                        instance.spec.account_ref.name == account.name
                    });
                }
            }
        };
        let secrets = SecretVersions::default();
        Ok(Self {
            instances: instance::Context {
                client: client.clone(),
                sessions: sessions.clone(),
                settings: instance::Settings { cluster },
                memories,
                pace: instance::pace::Pace::default(),
                events: events.clone(),
                metrics: metrics.clone(),
                term: term.clone(),
                highest_version: Arc::new(AtomicU64::new(0)),
                doubt_account: Arc::new(doubt_account),
            },
            accounts: account::Context {
                client: client.clone(),
                sessions,
                secrets: secrets.clone(),
                events,
                metrics: metrics.clone(),
                term,
                memories: account_memories,
                wake_instances: Arc::new(wake_instances),
            },
            secrets,
            metrics,
            client,
            stores,
        })
    }
}

fn scopes_of<'a>(
    stores: &'a Arc<OnceLock<Vec<Stores>>>,
    namespace: &'a str,
) -> impl Iterator<Item = &'a Stores> {
    stores.get().into_iter().flatten().filter(move |scope| {
        scope
            .namespace
            .as_deref()
            .is_none_or(|own| own == namespace)
    })
}

impl Stores {
    fn wake_where(&self, namespace: &str, wanted: impl Fn(&Instance) -> bool) {
        for object in self.instances.state() {
            let Ok(instance) = &object.0 else { continue };
            if instance.namespace().as_deref() == Some(namespace) && wanted(instance) {
                self.wake_instance.wake(&ObjectKey::of(instance));
            }
        }
    }

    /// Wakes what refers to a Secret that changed.
    fn secret_changed(&self, secret: &ObjectKey) {
        for object in self.accounts.state() {
            let Ok(found) = &object.0 else { continue };
            if account::token_secret(found) == *secret {
                self.wake_account.wake(&ObjectKey::of(found));
            }
        }
        self.wake_where(&secret.namespace, |instance| {
            let reference = instance.spec.login.password_secret_ref.as_ref();
            reference.is_some_and(|reference| reference.name == secret.name)
        });
    }
}

/// The watches and queues of one scope.
struct Fleet {
    stores: Stores,
    synced: Vec<(String, Synced)>,
    instance_requests: Requests<Guarded<Instance>>,
    account_requests: Requests<Guarded<Account>>,
}

impl Fleet {
    fn watch(parts: &Parts, namespace: Option<&str>, stop: &CancellationToken) -> Self {
        let (wake_instance, instance_requests) = queue::channel();
        let (wake_account, account_requests) = queue::channel();
        let (instances, instance_writer) = reflector::store();
        let (accounts, account_writer) = reflector::store();
        let stores = Stores {
            namespace: namespace.map(ToOwned::to_owned),
            instances,
            accounts,
            wake_instance,
            wake_account,
        };
        let told_of_secret = {
            let (secrets, stores) = (parts.secrets.clone(), stores.clone());
            move |notice: Notice| {
                secrets.note(&notice);
                stores.secret_changed(&notice.key);
            }
        };
        let secret_config = watcher::Config::default().fields(SECRET_FIELDS);
        let (metrics, client) = (&parts.metrics, &parts.client);
        let watches = [
            watch::spawn(
                api::<PartialObjectMeta<Secret>>(client, namespace),
                secret_config,
                |secret| prune(secret.meta_mut()),
                None,
                metrics.clone(),
                told_of_secret,
                stop.clone(),
            ),
            watch::spawn(
                api::<Guarded<Account>>(client, namespace),
                watcher::Config::default(),
                |account| prune(account.meta_mut()),
                Some(account_writer),
                metrics.clone(),
                told_of_account(parts, &stores),
                stop.clone(),
            ),
            watch::spawn(
                api::<Guarded<Instance>>(client, namespace),
                watcher::Config::default(),
                |instance| prune(instance.meta_mut()),
                Some(instance_writer),
                metrics.clone(),
                told_of_instance(parts, &stores),
                stop.clone(),
            ),
        ];
        let scope = namespace.unwrap_or("all namespaces");
        let synced = ["Secrets", "Accounts", "Instances"]
            .into_iter()
            .zip(watches)
            .map(|(kind, watch)| (format!("{kind} of {scope}"), watch.synced))
            .collect();
        Self {
            stores,
            synced,
            instance_requests,
            account_requests,
        }
    }

    /// Runs both queues, once the first listings are there: nothing is taken for missing before.
    async fn run(self, parts: Parts, concurrency: u16, stop: CancellationToken) {
        for (_, mut synced) in self.synced {
            tokio::select! {
                _ = synced.wait_for(|done| *done) => {}
                () = stop.cancelled() => return,
            }
        }
        let accounts = {
            let context = parts.accounts.clone();
            queue::run(
                self.stores.accounts,
                self.account_requests,
                ACCOUNT_TURNS,
                parts.metrics.clone(),
                stop.clone(),
                move |object: Arc<Guarded<Account>>| {
                    let context = context.clone();
                    Box::pin(async move {
                        match &object.0 {
                            Ok(account) => account::turn(context, account).await,
                            Err(invalid) => {
                                undecodable(&context.events, &*object, &invalid.error).await
                            }
                        }
                    })
                },
            )
        };
        let instances = {
            let context = parts.instances.clone();
            queue::run(
                self.stores.instances,
                self.instance_requests,
                concurrency,
                parts.metrics,
                stop,
                move |object: Arc<Guarded<Instance>>| {
                    let context = context.clone();
                    Box::pin(async move {
                        match &object.0 {
                            Ok(instance) => instance::turn(&context, instance).await,
                            Err(invalid) => {
                                undecodable(&context.events, &*object, &invalid.error).await
                            }
                        }
                    })
                },
            )
        };
        futures::join!(accounts, instances);
    }
}

fn api<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + DeserializeOwned
        + Clone
        + Debug,
{
    namespace.map_or_else(
        || Api::all(client.clone()),
        |namespace| Api::namespaced(client.clone(), namespace),
    )
}

fn told_of_account(parts: &Parts, stores: &Stores) -> impl FnMut(Notice) + Send + use<> {
    let (sessions, memories, stores) = (
        parts.accounts.sessions.clone(),
        parts.accounts.memories.clone(),
        stores.clone(),
    );
    let wake_instances = parts.accounts.wake_instances.clone();
    move |notice| {
        if notice.change == Change::Gone {
            sessions.depart(&notice.key);
            memories.forget(&notice.key);
            wake_instances(&notice.key);
        } else {
            sessions.announce(&notice.key);
            stores.wake_account.wake(&notice.key);
        }
    }
}

fn told_of_instance(parts: &Parts, stores: &Stores) -> impl FnMut(Notice) + Send + use<> {
    let (sessions, memories, stores) = (
        parts.accounts.sessions.clone(),
        parts.instances.memories.clone(),
        stores.clone(),
    );
    let highest = parts.instances.highest_version.clone();
    move |notice| {
        if let Ok(version) = notice.version.parse() {
            highest.fetch_max(version, Ordering::SeqCst);
        }
        if notice.change == Change::Gone {
            memories.forget(&notice.uid);
            sessions.leave(&Subject::from(notice.uid.as_str()));
        } else {
            memories.saw(&notice.uid, &notice.key, notice.change == Change::Applied);
            stores.wake_instance.wake(&notice.key);
        }
    }
}

/// Drops what nobody here reads.
fn prune(meta: &mut ObjectMeta) {
    meta.managed_fields = None;
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

/// An object that does not decode is told about and left alone; the next version of it is looked at again.
async fn undecodable<K: Resource<DynamicType = ()>>(
    events: &Events,
    object: &K,
    why: &str,
) -> Duration {
    let reference = object.object_ref(&());
    tracing::error!(
        name = reference.name,
        namespace = reference.namespace,
        why,
        "the object cannot be read"
    );
    let note = format!("the object cannot be read by this version of the operator: {why}");
    events
        .tell(&reference, &News::warning("Undecodable", note))
        .await;
    Duration::from_secs(600)
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
                needed.insert(ObjectKey {
                    namespace,
                    name: instance.spec.account_ref.name.clone(),
                });
            }
        }
        parts
            .accounts
            .sessions
            .sweep(|account| needed.contains(account));
    }
}
