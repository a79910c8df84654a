//! The parts that watches, queues and the other tasks of the process share.

use crate::api::{Account, Instance};
use crate::instance::facts::Facts;
use crate::runtime::queue::{self, Priority, Requests, Trigger};
use crate::runtime::store::Store;
use crate::runtime::watch::ObjectKey;
use crate::runtime::{Heartbeats, Metrics, Shard};
use crate::wiring::feed::Feed;
use crate::wiring::{Contexts, Objects, Process};
use crate::{account, instance};
use kube::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_util::sync::CancellationToken;

/// The objects of all watched namespaces, and the triggers of their reconciles; cheap to clone.
#[derive(Clone)]
pub(super) struct Stores {
    pub(super) instances: Store<Instance>,
    pub(super) accounts: Store<Account>,
    wake_instance: Trigger,
    wake_account: Trigger,
    /// The watched namespaces, or a single `None` for all of them, and whether requests for reconciles pass.
    scopes: Arc<[(Option<String>, AtomicBool)]>,
}

/// The requests for reconciles, for the two queues.
pub(super) struct QueueRequests {
    pub(super) instances: Requests,
    pub(super) accounts: Requests,
}

/// The shared parts; cheap to clone.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) instances: instance::context::Context,
    pub(super) accounts: account::Context,
    pub(super) feed: Feed,
    pub(super) metrics: Metrics,
    pub(super) client: Client,
    pub(super) shard: Shard,
    /// The watched namespaces; a single `None` for all of them.
    pub(super) scopes: Arc<[Option<String>]>,
    pub(super) stores: Stores,
    pub(super) heartbeats: Heartbeats,
    /// The namespace of the operator's own Secrets.
    pub(super) own_namespace: Option<String>,
}

impl Parts {
    pub(super) fn new(
        process: Process,
        scopes: Vec<Option<String>>,
        own_namespace: Option<String>,
        stop: &CancellationToken,
    ) -> (Self, QueueRequests) {
        let (client, metrics) = (process.client.clone(), process.metrics.clone());
        let shard = process.shard;
        let (wake_instance, instance_requests) = queue::channel();
        let (wake_account, account_requests) = queue::channel();
        let stores = Stores {
            instances: Store::default(),
            accounts: Store::default(),
            wake_instance,
            wake_account,
            scopes: scopes
                .iter()
                .cloned()
                .map(|scope| (scope, AtomicBool::new(false)))
                .collect(),
        };
        let objects: Arc<dyn Objects> = Arc::new(stores.clone());
        let Contexts {
            instances,
            accounts,
            feed,
        } = Contexts::new(process, &objects, stop);
        let parts = Self {
            instances,
            accounts,
            feed,
            metrics,
            client,
            shard,
            scopes: scopes.into(),
            stores,
            heartbeats: Heartbeats::default(),
            own_namespace,
        };
        let requests = QueueRequests {
            instances: instance_requests,
            accounts: account_requests,
        };
        (parts, requests)
    }
}

impl Objects for Stores {
    fn wake_instance(&self, key: &ObjectKey, priority: Option<Priority>) {
        if self.is_open(&key.namespace) {
            self.wake_instance.wake_as(key, priority);
        }
    }

    fn wake_account(&self, key: &ObjectKey, priority: Option<Priority>) {
        if self.is_open(&key.namespace) {
            self.wake_account.wake_as(key, priority);
        }
    }

    fn facts(&self, key: &ObjectKey, cluster: &str) -> Option<Facts> {
        let object = self.instances.get(key)?;
        let instance = object.0.as_ref().ok()?;
        Some(Facts::of(cluster, instance))
    }

    fn has_instance(&self, key: &ObjectKey) -> bool {
        self.instances.brief(key, |_| ()).is_some()
    }

    fn has_account(&self, key: &ObjectKey) -> bool {
        self.accounts.brief(key, |_| ()).is_some()
    }
}

impl Stores {
    /// Lets requests for reconciles of this scope pass, and requests one of each of its objects. Earlier requests were dropped: a
    /// standby that runs for weeks must not accumulate them.
    pub(super) fn open(&self, scope: Option<&str>) {
        for (_, open) in self.scopes.iter().filter(|(it, _)| it.as_deref() == scope) {
            open.store(true, Ordering::SeqCst);
        }
        let wake = |trigger: &Trigger, key: &ObjectKey| {
            if scope.is_none_or(|scope| scope == key.namespace) {
                trigger.wake_as(key, None);
            }
        };
        self.accounts
            .for_each(|key, _| wake(&self.wake_account, key));
        self.instances
            .for_each(|key, _| wake(&self.wake_instance, key));
    }

    fn is_open(&self, namespace: &str) -> bool {
        self.scopes.iter().any(|(scope, open)| {
            scope.as_deref().is_none_or(|scope| scope == namespace) && open.load(Ordering::SeqCst)
        })
    }
}
