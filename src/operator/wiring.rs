//! The stores of each watched scope, and the state that all scopes share.

use crate::api::{Account, Instance};
use crate::instance::facts::Facts;
use crate::runtime::queue::{Priority, Trigger};
use crate::runtime::store::Store;
use crate::runtime::watch::ObjectKey;
use crate::runtime::{Heartbeats, Metrics, Shard};
use crate::wiring::feed::Feed;
use crate::wiring::{Contexts, Objects, Process};
use crate::{account, instance};
use kube::Client;
use std::sync::{Arc, OnceLock};
use tokio_util::sync::CancellationToken;

/// The stores of one scope (a namespace, or all).
#[derive(Clone)]
pub(super) struct Stores {
    pub(super) namespace: Option<String>,
    pub(super) instances: Store<Instance>,
    pub(super) accounts: Store<Account>,
    pub(super) wake_instance: Trigger,
    pub(super) wake_account: Trigger,
}

/// The parts that all scopes share; cheap to clone.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) instances: instance::context::Context,
    pub(super) accounts: account::Context,
    pub(super) feed: Feed,
    pub(super) metrics: Metrics,
    pub(super) client: Client,
    pub(super) shard: Shard,
    pub(super) stores: Arc<OnceLock<Vec<Stores>>>,
    pub(super) heartbeats: Heartbeats,
    /// The namespace of the operator's own Secrets.
    pub(super) own_namespace: Option<String>,
}

impl Parts {
    pub(super) fn new(process: Process, stop: &CancellationToken) -> Self {
        let (client, metrics) = (process.client.clone(), process.metrics.clone());
        let shard = process.shard;
        let scopes = Scopes::default();
        let objects: Arc<dyn Objects> = Arc::new(scopes.clone());
        let Contexts {
            instances,
            accounts,
            feed,
        } = Contexts::new(process, &objects, stop);
        Self {
            instances,
            accounts,
            feed,
            metrics,
            client,
            shard,
            stores: scopes.0,
            heartbeats: Heartbeats::default(),
            own_namespace: None,
        }
    }
}

/// The stores of all scopes, once they are there.
#[derive(Clone, Default)]
struct Scopes(Arc<OnceLock<Vec<Stores>>>);

impl Scopes {
    fn of<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Stores> {
        self.0.get().into_iter().flatten().filter(move |scope| {
            scope
                .namespace
                .as_deref()
                .is_none_or(|own| own == namespace)
        })
    }
}

impl Objects for Scopes {
    fn wake_instance(&self, key: &ObjectKey, priority: Option<Priority>) {
        self.of(&key.namespace)
            .for_each(|scope| scope.wake_instance.wake_as(key, priority));
    }

    fn wake_account(&self, key: &ObjectKey, priority: Option<Priority>) {
        self.of(&key.namespace)
            .for_each(|scope| scope.wake_account.wake_as(key, priority));
    }

    fn facts(&self, key: &ObjectKey, cluster: &str) -> Option<Facts> {
        let mut scopes = self.of(&key.namespace);
        let object = scopes.find_map(|scope| scope.instances.get(key))?;
        let instance = object.0.as_ref().ok()?;
        Some(Facts::of(cluster, instance))
    }

    fn has_instance(&self, key: &ObjectKey) -> bool {
        let mut scopes = self.of(&key.namespace);
        scopes.any(|scope| scope.instances.brief(key, |_| ()).is_some())
    }

    fn has_account(&self, key: &ObjectKey) -> bool {
        let mut scopes = self.of(&key.namespace);
        scopes.any(|scope| scope.accounts.brief(key, |_| ()).is_some())
    }
}

impl Stores {
    /// Lets requests for reconciles through, and asks for one of every object that is there.
    pub(super) fn open(&self) {
        self.wake_account.open();
        self.wake_instance.open();
        self.accounts.for_each(|key, _| self.wake_account.wake(key));
        self.instances
            .for_each(|key, _| self.wake_instance.wake(key));
    }
}
