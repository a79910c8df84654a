//! What the scopes of a shard share, and the stores of each.

use super::referrers::Referrers;
use crate::api::{Account, Instance};
use crate::cli::owners;
use crate::instance::facts::Facts;
use crate::runtime::queue::{Priority, Trigger};
use crate::runtime::store::Store;
use crate::runtime::watch::{Notice, ObjectKey};
use crate::runtime::{Heartbeats, Metrics, Shard};
use crate::session::{Reservations, SecretVersions};
use crate::wiring::{Contexts, Objects, Process};
use crate::{account, instance};
use kube::Client;
use kube::core::DeserializeGuard;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use tokio_util::sync::CancellationToken;

/// One object that does not decode must not stop the others.
pub(super) type Guarded<K> = DeserializeGuard<K>;

/// The stores of one scope (a namespace, or all).
#[derive(Clone)]
pub(super) struct Stores {
    pub(super) namespace: Option<String>,
    pub(super) instances: Store<Guarded<Instance>>,
    pub(super) accounts: Store<Guarded<Account>>,
    pub(super) wake_instance: Trigger,
    pub(super) wake_account: Trigger,
    /// Which Instances refer to an Account.
    pub(super) by_account: Referrers,
    /// Which Instances refer to a Secret.
    pub(super) by_secret: Referrers,
    /// Which Accounts name a Secret, for their token or for TLS.
    pub(super) accounts_by_secret: Referrers,
}

/// What all scopes share; cheap to clone.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) instances: instance::context::Context,
    pub(super) accounts: account::Context,
    pub(super) secrets: SecretVersions,
    pub(super) metrics: Metrics,
    pub(super) client: Client,
    pub(super) shard: Shard,
    pub(super) stores: Arc<OnceLock<Vec<Stores>>>,
    /// Only an object whose first version is newer than this appeared in our own term.
    pub(super) born_after: Arc<AtomicU64>,
    pub(super) heartbeats: Heartbeats,
    /// Where the operator's own Secrets stand.
    pub(super) own_namespace: Option<String>,
}

impl Parts {
    pub(super) fn new(process: Process, stop: &CancellationToken) -> Self {
        let (client, metrics) = (process.client.clone(), process.metrics.clone());
        let shard = process.shard;
        // What stands by has seen nothing appear in its term yet; where the watches begin within the term, whatever appears does.
        let born_after = if process.term.holds() { 0 } else { u64::MAX };
        let scopes = Scopes::default();
        let Contexts {
            instances,
            accounts,
        } = Contexts::new(process, &scopes, stop);
        Self {
            secrets: instances.secrets.clone(),
            instances,
            accounts,
            metrics,
            client,
            shard,
            stores: scopes.0,
            born_after: Arc::new(AtomicU64::new(born_after)),
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

    fn wake_account(&self, key: &ObjectKey) {
        self.of(&key.namespace)
            .for_each(|scope| scope.wake_account.wake(key));
    }

    fn wake_instances_of(&self, account: &ObjectKey) {
        for scope in self.of(&account.namespace) {
            let instances = scope.by_account.of(account);
            instances
                .iter()
                .for_each(|key| scope.wake_instance.wake(key));
        }
    }

    fn facts(&self, key: &ObjectKey, cluster: &str) -> Option<Facts> {
        let mut scopes = self.of(&key.namespace);
        let object = scopes.find_map(|scope| scope.instances.get(key))?;
        let instance = object.0.as_ref().ok()?;
        Some(Facts::of(cluster, instance))
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

    /// Enters an Instance, as the store shows it, in the reservations; what of it cannot be read counts by its record. Gives it.
    pub(super) fn enrol(
        &self,
        notice: &Notice,
        reservations: &Reservations,
    ) -> Option<Arc<Guarded<Instance>>> {
        let key = &notice.key;
        // Gone again: the next notice says so.
        let object = self.instances.get(key)?;
        owners::enrol_as(reservations, (key.clone(), notice.uid.clone()), &object);
        if let Ok(instance) = &object.0 {
            let accounts = instance::facts::accounts(instance);
            self.by_account.note(key, accounts);
            self.by_secret.note(key, instance.secrets());
        }
        Some(object)
    }

    /// An Instance is gone.
    pub(super) fn strike(&self, key: &ObjectKey) {
        self.by_account.note(key, []);
        self.by_secret.note(key, []);
    }

    /// Remembers which Secrets an Account names, as the store shows it. Gives the Account.
    pub(super) fn account(&self, key: &ObjectKey) -> Option<Arc<Guarded<Account>>> {
        let object = self.accounts.get(key);
        let found = object.as_ref().and_then(|object| object.0.as_ref().ok());
        let secrets = found.map(account::secrets);
        self.accounts_by_secret
            .note(key, secrets.into_iter().flatten());
        object
    }

    /// Wakes what refers to a Secret that changed: that is somebody's doing.
    pub(super) fn secret_changed(&self, secret: &ObjectKey) {
        let change = Some(Priority::Change);
        for account in self.accounts_by_secret.of(secret) {
            self.wake_account.wake_as(&account, change);
        }
        for instance in self.by_secret.of(secret) {
            self.wake_instance.wake_as(&instance, change);
        }
    }
}
