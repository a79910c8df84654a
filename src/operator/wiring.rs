//! What the scopes of a shard share, and the stores of each.

use super::referrers::Referrers;
use crate::api::{Account, Instance};
use crate::instance::facts::Facts;
use crate::runtime::queue::{Priority, Trigger};
use crate::runtime::store::Store;
use crate::runtime::watch::ObjectKey;
use crate::runtime::{Heartbeats, Metrics, Shard};
use crate::session::SecretVersions;
use crate::wiring::{Contexts, Objects, Process};
use crate::{account, instance};
use kube::Client;
use kube::core::DeserializeGuard;
use std::sync::atomic::AtomicU64;
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
    pub(super) by_account: Referrers,
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

    /// Remembers what an Instance refers to. Of one that cannot be read nothing is known but what one of its name referred to before.
    pub(super) fn instance_refers(&self, key: &ObjectKey, object: &DeserializeGuard<Instance>) {
        if let Ok(instance) = &object.0 {
            let accounts = instance::facts::accounts(instance);
            self.by_account.note(key, accounts);
            self.by_secret.note(key, instance.secrets());
        }
    }

    /// An Instance is gone, unless another one has its name now.
    pub(super) fn instance_went(&self, key: &ObjectKey) {
        if self.instances.brief(key, |_| ()).is_none() {
            self.by_account.note(key, []);
            self.by_secret.note(key, []);
        }
    }

    /// Remembers which Secrets an Account names.
    pub(super) fn account_refers(&self, key: &ObjectKey, object: &DeserializeGuard<Account>) {
        let secrets = object.0.as_ref().ok().map(account::secrets);
        let secrets = secrets.into_iter().flatten();
        self.accounts_by_secret.note(key, secrets);
    }

    /// An Account is gone, unless another one has its name now.
    pub(super) fn account_went(&self, key: &ObjectKey) {
        if self.accounts.brief(key, |_| ()).is_none() {
            self.accounts_by_secret.note(key, []);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::queue;
    use crate::runtime::store;
    use kube::runtime::watcher::Event;
    use serde_json::json;

    fn instance(uid: &str, account: &str) -> DeserializeGuard<Instance> {
        let object = json!({
            "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance",
            "metadata": {"name": "web", "namespace": "team", "uid": uid},
            "spec": {
                "accountRef": {"name": account}, "region": "r", "zone": "z", "package": {"code": "p"},
                "image": {"id": "i"}, "firewall": {"id": "f"}, "login": {"sshKey": {"id": "k"}},
            },
        });
        serde_json::from_value(object).unwrap()
    }

    /// An object is kept before it is told that the former one of its name is gone.
    #[test]
    fn what_a_namesake_refers_to_stays_when_the_former_one_goes() {
        let (instances, mut writer) = store::store();
        let stores = Stores {
            namespace: None,
            instances,
            accounts: store::store().0,
            wake_instance: queue::channel().0,
            wake_account: queue::channel().0,
            by_account: Referrers::default(),
            by_secret: Referrers::default(),
            accounts_by_secret: Referrers::default(),
        };
        let key = ObjectKey::new("team", "web");
        let refers = |account: &str| {
            let account = ObjectKey::new("team", account);
            stores.by_account.of(&account).contains(&key)
        };
        let mut keep = |shown: DeserializeGuard<Instance>| {
            stores.instance_refers(&key, &shown);
            writer.take(&Event::Apply(shown), &key);
        };
        keep(instance("1", "first"));
        assert!(refers("first"));
        keep(instance("2", "second"));
        stores.instance_went(&key);
        assert!(refers("second") && !refers("first"));
        writer.take(&Event::Delete(instance("2", "second")), &key);
        stores.instance_went(&key);
        assert!(!refers("second"));
    }
}
