//! The watches and queues of one scope.

use super::briefs::{AccountBrief, InstanceBrief};
use super::undecodable;
use super::wiring::{Parts, Stores};
use crate::api::names::BINDING;
use crate::api::{Account, Instance};
use crate::runtime::Shard;
use crate::runtime::queue::{self, Requests, Rules};
use crate::runtime::store::{self, Writer};
use crate::runtime::watch::{self, Synced, Watch};
use crate::runtime::{kubernetes, times, traces};
use crate::{account, instance};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PartialObjectMeta;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

/// Secrets of these types are of no interest and often many.
const SECRET_FIELDS: &str = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token,\
                             type!=cloudserver.dev/token-copy";
/// Reconciles of Accounts at the same time. Most of them wait for the answer of a service, and cost no more than that.
const ACCOUNT_TURNS: usize = 256;
/// Objects in a page of a list. A page is decoded as a whole before annotations are removed, and those of one object may take 6 MB.
const PAGE: u32 = 10;

/// The watches and queues of one scope.
pub(super) struct Fleet {
    pub(super) stores: Stores,
    pub(super) synced: Vec<(String, Synced)>,
    watches: Vec<JoinHandle<()>>,
    instance_requests: Requests,
    account_requests: Requests,
}

impl Fleet {
    pub(super) fn watch(parts: &Parts, namespace: Option<&str>, stop: &CancellationToken) -> Self {
        let (wake_instance, instance_requests) = queue::channel();
        let (wake_account, account_requests) = queue::channel();
        let (instances, instance_writer) = store::store();
        let (accounts, account_writer) = store::store();
        let stores = Stores {
            namespace: namespace.map(ToOwned::to_owned),
            instances,
            accounts,
            wake_instance,
            wake_account,
        };
        let watches = watches(parts, namespace, account_writer, instance_writer, stop);
        let (synced, watches) = watches
            .map(|(kind, watch)| ((kind, watch.synced), watch.task))
            .into_iter()
            .unzip();
        Self {
            stores,
            synced,
            watches,
            instance_requests,
            account_requests,
        }
    }

    /// The watches, to see whether one of them ends.
    pub(super) fn take_watches(&mut self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut self.watches)
    }

    /// Runs both queues, once the first listings are there: nothing is taken for missing before.
    pub(super) async fn run(self, parts: Parts, concurrency: u16, stop: CancellationToken) {
        for (_, mut synced) in self.synced {
            tokio::select! {
                _ = synced.wait_for(|done| *done) => {}
                () = stop.cancelled() => return,
            }
        }
        self.stores.open();
        let scope = self.stores.namespace.clone();
        let scope = scope.as_deref().unwrap_or("all namespaces");
        let heartbeat = |kind: &str| {
            let name = format!("queue of {kind} of {scope}");
            parts.heartbeats.expect(name, times::QUEUE_SILENCE_MAX)
        };
        let (account_heartbeat, instance_heartbeat) =
            (heartbeat("Accounts"), heartbeat("Instances"));
        let accounts = {
            let context = parts.accounts.clone();
            queue::run(
                self.stores.accounts,
                self.account_requests,
                Rules {
                    places: ACCOUNT_TURNS,
                    // Each is a flow of its own, and never reconciled twice at the same time.
                    bound: Box::new(|_| 1),
                    describe: AccountBrief::whose,
                },
                parts.metrics.clone(),
                account_heartbeat,
                stop.clone(),
                move |object| Box::pin(account_turn(context.clone(), object)),
            )
        };
        let instances = {
            let context = parts.instances.clone();
            let sessions = context.sessions.clone();
            queue::run(
                self.stores.instances,
                self.instance_requests,
                Rules {
                    places: concurrency.into(),
                    bound: Box::new(move |flow| instance::bound(&sessions, flow)),
                    describe: InstanceBrief::whose,
                },
                parts.metrics,
                instance_heartbeat,
                stop,
                move |object| Box::pin(instance_turn(context.clone(), object)),
            )
        };
        futures::join!(accounts, instances);
    }
}

/// Begins the watches of a scope, each named after what it watches.
fn watches(
    parts: &Parts,
    namespace: Option<&str>,
    mut account_writer: Writer<Account>,
    mut instance_writer: Writer<Instance>,
    stop: &CancellationToken,
) -> [(String, Watch); 3] {
    let scope = namespace.unwrap_or("all namespaces");
    let kinds = ["Secrets", "Accounts", "Instances"].map(|kind| format!("{kind} of {scope}"));
    let heartbeats = kinds.each_ref().map(|kind| {
        parts
            .heartbeats
            .expect(format!("watch of {kind}"), times::WATCH_SILENCE_MAX)
    });
    let [secret_client, account_client, instance_client] = heartbeats
        .each_ref()
        .map(|heartbeat| kubernetes::watching(parts.client.clone(), heartbeat.clone()));
    let [secret_heartbeat, account_heartbeat, instance_heartbeat] = heartbeats;
    let [secrets, accounts, instances] = kinds;
    let (metrics, shard) = (&parts.metrics, parts.shard);
    let feeds = [(); 3].map(|()| parts.feed.clone());
    let [secret_feed, account_feed, instance_feed] = feeds;
    let secret_watch = watch::spawn(
        watch::Subject {
            api: api::<PartialObjectMeta<Secret>>(&secret_client, namespace),
            config: pages().fields(SECRET_FIELDS),
            shard,
            annotations: &[],
        },
        |_, _, _| {},
        metrics.clone(),
        secret_heartbeat,
        move |notice| secret_feed.secret(&notice),
        stop.clone(),
    );
    let account_watch = watch::spawn(
        watch::Subject {
            api: api::<DeserializeGuard<Account>>(&account_client, namespace),
            config: pages(),
            shard,
            annotations: &[],
        },
        {
            let feed = account_feed.clone();
            move |event, key, _| {
                if let Some(account) = shown(event) {
                    feed.account_shown(key, account);
                }
                account_writer.take(event, key);
            }
        },
        metrics.clone(),
        account_heartbeat,
        move |notice| account_feed.account(&notice),
        stop.clone(),
    );
    let instance_watch = watch::spawn(
        watch::Subject {
            api: api::<DeserializeGuard<Instance>>(&instance_client, namespace),
            config: pages(),
            shard: Shard::WHOLE,
            annotations: &[BINDING],
        },
        {
            let feed = instance_feed.clone();
            move |event, key, uid| {
                if shown(event).is_none_or(|instance| feed.instance_shown(key, uid, instance)) {
                    instance_writer.take(event, key);
                }
            }
        },
        metrics.clone(),
        instance_heartbeat,
        move |notice| instance_feed.instance(&notice),
        stop.clone(),
    );
    [
        (secrets, secret_watch),
        (accounts, account_watch),
        (instances, instance_watch),
    ]
}

/// The object that an event shows.
fn shown<K>(event: &Event<K>) -> Option<&K> {
    match event {
        Event::InitApply(object) | Event::Apply(object) => Some(object),
        Event::Delete(_) | Event::Init | Event::InitDone => None,
    }
}

async fn account_turn(
    context: account::Context,
    object: Arc<DeserializeGuard<Account>>,
) -> Duration {
    let span = span::<Account>(&*object);
    let turn = async {
        match &object.0 {
            Ok(account) => account::reconcile(&context, account).await,
            Err(invalid) => {
                let (client, events) = (&context.client, &context.events);
                undecodable::tell::<Account>(client, events, &*object, &invalid.error).await
            }
        }
    };
    turn.instrument(span).await
}

async fn instance_turn(
    context: instance::context::Context,
    object: Arc<DeserializeGuard<Instance>>,
) -> Duration {
    let span = span::<Instance>(&*object);
    let turn = async {
        match &object.0 {
            Ok(instance) => instance::reconcile(&context, instance).await,
            Err(invalid) => {
                let (client, events) = (&context.client, &context.events);
                undecodable::tell::<Instance>(client, events, &*object, &invalid.error).await
            }
        }
    };
    turn.instrument(span).await
}

/// The trace of one reconcile.
fn span<K: Resource<DynamicType = ()>>(object: &impl Resource) -> Span {
    let meta = object.meta();
    traces::reconcile(
        &K::kind(&()),
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

pub(super) fn api<K>(client: &Client, namespace: Option<&str>) -> Api<K>
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

/// The size of pages, for an apiserver that does not stream the initial list.
fn pages() -> watcher::Config {
    watcher::Config::default().page_size(PAGE)
}
