//! The watches and queues of the process.

use super::parts::{Parts, QueueRequests};
use super::undecodable;
use crate::api::names::BINDING;
use crate::api::{Account, Instance};
use crate::runtime::Shard;
use crate::runtime::queue::ObjectQueue;
use crate::runtime::watch::{self, Notice, ObjectKey, Synced, Watch};
use crate::runtime::{kubernetes, times, traces};
use crate::{account, instance};
use futures::future::join_all;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PartialObjectMeta;
use kube::core::DeserializeGuard;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

/// The operator reads no Secrets of these types, and a cluster has many.
const SECRET_FIELDS: &str = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token,\
                             type!=cloudserver.dev/token-copy";
/// Concurrent reconciles of Accounts. Most of them only wait for the answer of a service.
const ACCOUNT_RECONCILES: usize = 256;
/// Objects in a page of a list, if the apiserver does not stream it. A page is decoded as a whole before annotations are removed, and
/// those of one object may take 6 MB.
const PAGE: u32 = 10;

/// The watches of each scope.
const WATCHES: usize = 3;

/// Begins the watches of all scopes, one scope after another, each named after its kind and scope.
pub(super) fn watch(parts: &Parts, stop: &CancellationToken) -> Vec<(String, Watch)> {
    let scopes = parts.scopes.iter().map(|namespace| Scope {
        parts,
        namespace: namespace.as_deref(),
        stop,
    });
    let watches = scopes.flat_map(|scope| -> [_; WATCHES] {
        [scope.secrets(), scope.accounts(), scope.instances()]
    });
    watches.collect()
}

/// Runs both queues. The objects of a scope are reconciled once its watches have their initial lists: before that, an object that
/// is not listed may exist.
pub(super) async fn run(
    parts: Parts,
    requests: QueueRequests,
    synced: Vec<Synced>,
    concurrency: u16,
    stop: CancellationToken,
) {
    let scopes = parts.scopes.iter().zip(synced.chunks(WATCHES));
    let stores = &parts.stores;
    let opened = join_all(scopes.map(|(scope, synced)| async move {
        for synced in synced {
            let _ = synced.clone().wait_for(|done| *done).await;
        }
        stores.open(scope.as_deref());
    }));
    let heartbeat = |kind: &str| {
        let name = format!("queue of {kind}");
        parts.heartbeats.expect(name, times::QUEUE_SILENCE_MAX)
    };
    let context = parts.contexts.accounts.clone();
    let accounts = ObjectQueue {
        store: parts.stores.accounts.clone(),
        requests: requests.accounts,
        places: ACCOUNT_RECONCILES,
        // Each Account is a flow of its own, and is never reconciled twice at the same time.
        bound: Box::new(|_| 1),
        metrics: context.metrics.clone(),
        heartbeat: heartbeat("Accounts"),
    };
    let accounts = accounts.run(stop.clone(), move |object| {
        Box::pin(reconcile_account(context.clone(), object))
    });
    let context = parts.contexts.instances.clone();
    let sessions = context.sessions.clone();
    let instances = ObjectQueue {
        store: parts.stores.instances.clone(),
        requests: requests.instances,
        places: concurrency.into(),
        bound: Box::new(move |flow| instance::bound(&sessions, flow)),
        metrics: context.metrics.clone(),
        heartbeat: heartbeat("Instances"),
    };
    let instances = instances.run(stop.clone(), move |object| {
        Box::pin(reconcile_instance(context.clone(), object))
    });
    futures::join!(accounts, instances, stop.run_until_cancelled(opened));
}

/// One scope while its watches begin: a namespace, or all.
struct Scope<'a> {
    parts: &'a Parts,
    namespace: Option<&'a str>,
    stop: &'a CancellationToken,
}

impl Scope<'_> {
    fn secrets(&self) -> (String, Watch) {
        let feed = self.parts.contexts.feed.clone();
        self.watch::<PartialObjectMeta<Secret>>(
            "Secrets",
            watcher::Config::default().fields(SECRET_FIELDS),
            (self.parts.contexts.feed.shard(), &[]),
            |_, _, _| {},
            move |notice| feed.secret(&notice),
        )
    }

    fn accounts(&self) -> (String, Watch) {
        let store = self.parts.stores.accounts.clone();
        let [feed, notified] = [(); 2].map(|()| self.parts.contexts.feed.clone());
        self.watch::<DeserializeGuard<Account>>(
            "Accounts",
            watcher::Config::default(),
            (self.parts.contexts.feed.shard(), &[]),
            move |key, _, account| match account {
                Some(account) => {
                    feed.account_shown(key, account);
                    store.put(key, account);
                }
                None => store.remove(key),
            },
            move |notice| notified.account(&notice),
        )
    }

    /// Instances of all shards: no server may belong to two Instances.
    fn instances(&self) -> (String, Watch) {
        let store = self.parts.stores.instances.clone();
        let [feed, notified] = [(); 2].map(|()| self.parts.contexts.feed.clone());
        self.watch::<DeserializeGuard<Instance>>(
            "Instances",
            watcher::Config::default(),
            (Shard::WHOLE, &[BINDING]),
            move |key, uid, instance| match instance {
                Some(instance) if feed.instance_shown(key, uid, instance) => {
                    store.put(key, instance);
                }
                Some(_) => {}
                None => store.remove(key),
            },
            move |notice| notified.instance(&notice),
        )
    }

    /// Begins a watch, which is named after its kind and scope.
    fn watch<K>(
        &self,
        kind: &str,
        config: watcher::Config,
        (shard, annotations): (Shard, &'static [&'static str]),
        keep: impl FnMut(&ObjectKey, &Arc<str>, Option<&K>) + Send + 'static,
        notify: impl FnMut(Notice) + Send + 'static,
    ) -> (String, Watch)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + DeserializeOwned
            + Clone
            + Debug
            + Send
            + 'static,
    {
        let name = format!("{kind} of {}", self.namespace.unwrap_or("all namespaces"));
        let expected = format!("watch of {name}");
        let heartbeats = &self.parts.heartbeats;
        let heartbeat = heartbeats.expect(expected, times::WATCH_SILENCE_MAX);
        let client = kubernetes::watching(
            self.parts.contexts.accounts.client.clone(),
            heartbeat.clone(),
        );
        let subject = watch::WatchSubject {
            api: api(&client, self.namespace),
            config: config.page_size(PAGE),
            shard,
            annotations,
        };
        let metrics = self.parts.contexts.accounts.metrics.clone();
        let watch = watch::spawn(subject, keep, metrics, heartbeat, notify, self.stop.clone());
        (name, watch)
    }
}

async fn reconcile_account(
    context: account::AccountContext,
    object: Arc<DeserializeGuard<Account>>,
) -> Duration {
    let reconcile = async {
        let (client, events) = (&context.client, &context.events);
        match &object.0 {
            Ok(account) => account::reconcile(&context, account).await,
            Err(_) => undecodable::report::<Account>(client, events, &*object).await,
        }
    };
    reconcile.instrument(span(&object)).await
}

async fn reconcile_instance(
    context: instance::context::Context,
    object: Arc<DeserializeGuard<Instance>>,
) -> Duration {
    let reconcile = async {
        let (client, events) = (&context.client, &context.events);
        match &object.0 {
            Ok(instance) => instance::reconcile(&context, instance).await,
            Err(_) => undecodable::report::<Instance>(client, events, &*object).await,
        }
    };
    reconcile.instrument(span(&object)).await
}

/// The trace of one reconcile.
fn span<K: Resource<DynamicType = ()>>(object: &DeserializeGuard<K>) -> Span {
    let meta = object.meta();
    traces::reconcile(
        &K::kind(&()),
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

pub(super) fn api<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + DeserializeOwned
        + Clone
        + Debug,
{
    namespace.map_or_else(
        || Api::all(client.clone()),
        |namespace| Api::namespaced(client.clone(), namespace),
    )
}
