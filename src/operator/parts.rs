//! The parts that watches, queues and the other tasks of the process share.

use crate::api::{Account, Instance};
use crate::instance::facts::Facts;
use crate::runtime::Heartbeats;
use crate::runtime::queue::{Priority, Requests, Trigger};
use crate::runtime::store::Store;
use crate::runtime::watch::ObjectKey;
use crate::wiring::{Contexts, Objects, Process};
use futures::channel::mpsc;
use std::sync::{Arc, PoisonError, RwLock};
use tokio_util::sync::CancellationToken;

/// The objects of all watched namespaces, and the triggers of their reconciles; cheap to clone.
#[derive(Clone)]
pub(super) struct Stores {
    pub(super) instances: Store<Instance>,
    pub(super) accounts: Store<Account>,
    wake_instance: Trigger,
    wake_account: Trigger,
    /// The namespaces whose requests for reconciles pass; `None` for all of them.
    opened: Arc<RwLock<Vec<Option<String>>>>,
}

/// The requests for reconciles, for the two queues.
pub(super) struct QueueRequests {
    pub(super) instances: Requests,
    pub(super) accounts: Requests,
}

/// The shared parts; cheap to clone.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) contexts: Contexts,
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
        let (wake_instance, instances) = mpsc::unbounded();
        let (wake_account, accounts) = mpsc::unbounded();
        let stores = Stores {
            instances: Store::default(),
            accounts: Store::default(),
            wake_instance,
            wake_account,
            opened: Arc::default(),
        };
        let objects: Arc<dyn Objects> = Arc::new(stores.clone());
        let parts = Self {
            contexts: Contexts::new(process, &objects, stop),
            scopes: scopes.into(),
            stores,
            heartbeats: Heartbeats::default(),
            own_namespace,
        };
        let requests = QueueRequests {
            instances,
            accounts,
        };
        (parts, requests)
    }
}

impl Objects for Stores {
    fn wake_instance(&self, key: &ObjectKey, priority: Option<Priority>) {
        self.wake(&self.wake_instance, key, priority);
    }

    fn wake_account(&self, key: &ObjectKey, priority: Option<Priority>) {
        self.wake(&self.wake_account, key, priority);
    }

    fn facts(&self, key: &ObjectKey, cluster: &str) -> Option<Facts> {
        let object = self.instances.get(key)?;
        let instance = object.0.as_ref().ok()?;
        Some(Facts::of(cluster, instance))
    }

    fn has_instance(&self, key: &ObjectKey) -> bool {
        self.instances.has(key)
    }

    fn has_account(&self, key: &ObjectKey) -> bool {
        self.accounts.has(key)
    }
}

impl Stores {
    /// Lets requests for reconciles of this scope pass, and requests a reconcile of each object of the scope. Earlier requests were
    /// dropped: a standby that runs for weeks must not accumulate them.
    pub(super) fn open(&self, scope: Option<&str>) {
        let opened = self.opened.write();
        opened
            .unwrap_or_else(PoisonError::into_inner)
            .push(scope.map(ToOwned::to_owned));
        let is_of_scope = |key: &ObjectKey| scope.is_none_or(|scope| scope == key.namespace);
        self.accounts.for_each(|key, _| {
            if is_of_scope(key) {
                self.wake_account(key, None);
            }
        });
        self.instances.for_each(|key, _| {
            if is_of_scope(key) {
                self.wake_instance(key, None);
            }
        });
    }

    fn wake(&self, trigger: &Trigger, key: &ObjectKey, priority: Option<Priority>) {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        let is_open = |scope: &Option<String>| {
            let scope = scope.as_ref();
            scope.is_none_or(|scope| *scope == key.namespace)
        };
        if opened.iter().any(is_open) {
            // A closed queue means that the process is shutting down.
            let _ = trigger.unbounded_send((key.clone(), priority));
        }
    }
}
