//! The watches and queues of the process.

use super::parts::{Parts, QueueRequests};
use super::undecodable;
use crate::api::{Account, Instance};
use crate::runtime::Shard;
use crate::runtime::queue::ObjectQueue;
use crate::runtime::watch::{self, Notice, ObjectKey, Synced, Watch};
use crate::runtime::{kubernetes, times};
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
use tokio_util::sync::CancellationToken;

/// The watch leaves out Secrets of these types, since a cluster has many of them. A change of one triggers no reconcile.
const SECRET_FIELDS: &str = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token,\
                             type!=cloudserver.dev/token-copy";
/// Concurrent reconciles of Accounts. Most of them only wait for the answer of a service.
const ACCOUNT_RECONCILES: usize = 256;
/// Objects in a page of a list, if the apiserver does not stream it. A page is decoded as a whole before annotations are removed,
/// and the decoded annotations of one object may take 6 MB.
const PAGE: u32 = 10;

/// Number of watches of each scope.
const WATCHES: usize = 3;

/// Begins the watches of all scopes, each named after its kind and scope. Those of one scope are adjacent in the result.
pub(super) fn watch(parts: &Parts) -> Vec<(String, Watch)> {
    let scopes = parts.scopes.iter().map(Option::as_deref);
    let watches = scopes.flat_map(|scope| -> [_; WATCHES] {
        [
            secrets(parts, scope),
            accounts(parts, scope),
            instances(parts, scope),
        ]
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
        workers: ACCOUNT_RECONCILES,
        // Each Account is a flow of its own, and is never reconciled twice at the same time.
        bound: Box::new(|_| 1),
        metrics: context.metrics.clone(),
        heartbeat: heartbeat("Accounts"),
    };
    let accounts = accounts.run(stop.clone(), move |object| {
        let context = context.clone();
        Box::pin(async move {
            match &object.0 {
                Ok(account) => account::reconcile(&context, account).await,
                Err(_) => undecodable::report(&context.client, &context.events, &*object).await,
            }
        })
    });
    let context = parts.contexts.instances.clone();
    let sessions = context.sessions.clone();
    let instances = ObjectQueue {
        store: parts.stores.instances.clone(),
        requests: requests.instances,
        workers: concurrency.into(),
        bound: Box::new(move |flow| instance::bound(&sessions, flow)),
        metrics: context.metrics.clone(),
        heartbeat: heartbeat("Instances"),
    };
    let instances = instances.run(stop.clone(), move |object| {
        let context = context.clone();
        Box::pin(async move {
            match &object.0 {
                Ok(instance) => instance::reconcile(&context, instance).await,
                Err(_) => undecodable::report(&context.client, &context.events, &*object).await,
            }
        })
    });
    futures::join!(accounts, instances, stop.run_until_cancelled(opened));
}

fn secrets(parts: &Parts, namespace: Option<&str>) -> (String, Watch) {
    let feed = parts.contexts.feed.clone();
    watch_kind::<PartialObjectMeta<Secret>>(
        parts,
        namespace,
        "Secrets",
        watcher::Config::default().fields(SECRET_FIELDS),
        parts.contexts.feed.shard(),
        |_, _, _| {},
        move |notice| feed.secret(&notice),
    )
}

fn accounts(parts: &Parts, namespace: Option<&str>) -> (String, Watch) {
    let store = parts.stores.accounts.clone();
    let [feed, notified] = [(); 2].map(|()| parts.contexts.feed.clone());
    watch_kind::<DeserializeGuard<Account>>(
        parts,
        namespace,
        "Accounts",
        watcher::Config::default(),
        parts.contexts.feed.shard(),
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
fn instances(parts: &Parts, namespace: Option<&str>) -> (String, Watch) {
    let store = parts.stores.instances.clone();
    let [feed, notified] = [(); 2].map(|()| parts.contexts.feed.clone());
    watch_kind::<DeserializeGuard<Instance>>(
        parts,
        namespace,
        "Instances",
        watcher::Config::default(),
        Shard::WHOLE,
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
fn watch_kind<K>(
    parts: &Parts,
    namespace: Option<&str>,
    kind: &str,
    config: watcher::Config,
    shard: Shard,
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
    let name = format!("{kind} of {}", namespace.unwrap_or("all namespaces"));
    let expected = format!("watch of {name}");
    let heartbeats = &parts.heartbeats;
    let heartbeat = heartbeats.expect(expected, times::WATCH_SILENCE_MAX);
    let client = kubernetes::watching(parts.contexts.accounts.client.clone(), heartbeat.clone());
    let (api, config) = (api(&client, namespace), config.page_size(PAGE));
    let metrics = parts.contexts.accounts.metrics.clone();
    let watch = watch::spawn(api, config, shard, keep, metrics, heartbeat, notify);
    (name, watch)
}

pub(super) fn api<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    namespace.map_or_else(
        || Api::all(client.clone()),
        |namespace| Api::namespaced(client.clone(), namespace),
    )
}
