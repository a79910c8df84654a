//! The watches and queues of one scope.

use super::briefs::{AccountBrief, InstanceBrief};
use super::changes::Changes;
use super::referrers::Referrers;
use super::undecodable;
use super::wiring::{Parts, Stores};
use crate::api::names::BINDING;
use crate::api::{Account, Instance};
use crate::runtime::Shard;
use crate::runtime::queue::{self, Requests, Rules};
use crate::runtime::store::{self, Writer};
use crate::runtime::watch::{self, Change, Notice, Synced, Watch};
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
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

/// Secrets of these types are of no interest and often many.
const SECRET_FIELDS: &str = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token,\
                             type!=cloudserver.dev/token-copy,type!=cloudserver.dev/credential-key";
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
            by_account: Referrers::default(),
            by_secret: Referrers::default(),
            accounts_by_secret: Referrers::default(),
        };
        let watches = watches(parts, &stores, account_writer, instance_writer, stop);
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
    stores: &Stores,
    mut account_writer: Writer<Account>,
    mut instance_writer: Writer<Instance>,
    stop: &CancellationToken,
) -> [(String, Watch); 3] {
    let namespace = stores.namespace.as_deref();
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
        told_of_secret(parts, stores),
        stop.clone(),
    );
    let account_watch = watch::spawn(
        watch::Subject {
            api: api::<DeserializeGuard<Account>>(&account_client, namespace),
            config: pages(),
            shard: Shard::WHOLE,
            annotations: &[],
        },
        {
            let (sessions, stores) = (parts.accounts.sessions.clone(), stores.clone());
            move |event, key, _| {
                if let Some(account) = shown(event) {
                    // Of another shard's it is kept where its service is.
                    if !shard.owns(&key.namespace) {
                        sessions.see_elsewhere(key, endpoint(account));
                        return;
                    }
                    stores.account_refers(key, account);
                }
                account_writer.take(event, key);
            }
        },
        metrics.clone(),
        account_heartbeat,
        told_of_account(parts, stores),
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
            let reservations = parts.accounts.sessions.reservations().clone();
            let stores = stores.clone();
            move |event, key, uid| {
                if let Some(instance) = shown(event) {
                    // Also one of another shard: no server may be taken over by two. What of it cannot be read counts by its
                    // record.
                    crate::wiring::enrol_as(&reservations, (key.clone(), uid.clone()), instance);
                    if !shard.owns(&key.namespace) {
                        return;
                    }
                    stores.instance_refers(key, instance);
                }
                instance_writer.take(event, key);
            }
        },
        metrics.clone(),
        instance_heartbeat,
        told_of_instance(parts, stores),
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

fn endpoint(account: &DeserializeGuard<Account>) -> Option<&str> {
    let account = account.0.as_ref().ok()?;
    Some(&account.spec.endpoint)
}

async fn account_turn(
    context: account::Context,
    object: Arc<DeserializeGuard<Account>>,
) -> Duration {
    let span = span::<Account>(&*object);
    let turn = async {
        match &object.0 {
            Ok(account) => account::reconcile(&context, account).await,
            Err(_) => {
                undecodable::tell::<Account>(&context.client, &context.events, &*object).await
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
            Err(_) => {
                undecodable::tell::<Instance>(&context.client, &context.events, &*object).await
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

fn told_of_secret(parts: &Parts, stores: &Stores) -> impl FnMut(Notice) + Send + use<> {
    let (secrets, stores) = (parts.secrets.clone(), stores.clone());
    move |notice| {
        if secrets.note(&notice) {
            stores.secret_changed(&notice.key);
        }
    }
}

fn told_of_account(parts: &Parts, stores: &Stores) -> impl FnMut(Notice) + Send + use<> {
    let (sessions, memories, stores) = (
        parts.accounts.sessions.clone(),
        parts.accounts.memories.clone(),
        stores.clone(),
    );
    let wake_instances = parts.accounts.wake_instances.clone();
    let mut changes = Changes::default();
    let shard = parts.shard;
    move |notice| {
        if !shard.owns(&notice.key.namespace) {
            if notice.change == Change::Gone {
                sessions.see_elsewhere(&notice.key, None);
            }
            return;
        }
        let priority = changes.priority(&notice);
        if notice.change == Change::Gone {
            stores.account_went(&notice.key);
            sessions.depart(&notice.key);
            memories.forget(&notice.key);
            wake_instances(&notice.key);
        } else {
            sessions.announce(&notice.key);
            stores.wake_account.wake_as(&notice.key, priority);
        }
    }
}

fn told_of_instance(parts: &Parts, stores: &Stores) -> impl FnMut(Notice) + Send + use<> {
    let (sessions, memories, stores) = (
        parts.accounts.sessions.clone(),
        parts.instances.memories.clone(),
        stores.clone(),
    );
    let context = parts.instances.clone();
    let highest = parts.instances.highest_version.clone();
    let born_after = parts.born_after.clone();
    let shard = parts.shard;
    let mut changes = Changes::default();
    move |notice| {
        let version = notice.version.parse().unwrap_or_default();
        highest.fetch_max(version, Ordering::SeqCst);
        if !shard.owns(&notice.key.namespace) {
            if notice.change == Change::Gone {
                sessions.reservations().gone_elsewhere(&notice.uid);
            }
            return;
        }
        let priority = changes.priority(&notice);
        if notice.change == Change::Gone {
            instance::orphan::gone(&context, &notice.key, &notice.uid);
            sessions.leave(&notice.uid);
            sessions.reservations().gone(&notice.uid);
            stores.instance_went(&notice.key);
        } else {
            // The first that is told of an object is its creation, unless a listing told it.
            let is_newborn =
                notice.change == Change::Applied && version > born_after.load(Ordering::SeqCst);
            memories.saw(notice.uid.clone(), &notice.key, is_newborn);
            memories.shown(&notice.uid, version);
            if let Some(generation) = notice.generation {
                memories.shown_spec(&notice.uid, generation);
            }
            stores.wake_instance.wake_as(&notice.key, priority);
        }
    }
}

/// The size of pages, for an apiserver that does not stream the initial list.
fn pages() -> watcher::Config {
    watcher::Config::default().page_size(PAGE)
}
