//! What the scopes share, and how one thing wakes another.

use crate::api::{Account, Instance};
use crate::cli::owners;
use crate::cloud::Http;
use crate::inventory::{Settings as ListingSettings, Subject};
use crate::runtime::events::Events;
use crate::runtime::queue::Trigger;
use crate::runtime::watch::ObjectKey;
use crate::runtime::{Metrics, Pulses, Term};
use crate::session::{Roll, SecretVersions, Sessions};
use crate::{account, instance};
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, ResourceExt};
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
    pub(super) wake_instance: Trigger<Guarded<Instance>>,
    pub(super) wake_account: Trigger<Guarded<Account>>,
}

/// What all scopes share; cheap to clone.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) instances: instance::Context,
    pub(super) accounts: account::Context,
    pub(super) secrets: SecretVersions,
    pub(super) metrics: Metrics,
    pub(super) client: Client,
    pub(super) stores: Arc<OnceLock<Vec<Stores>>>,
    /// Only an object whose first version is newer than this appeared in our own term.
    pub(super) born_after: Arc<AtomicU64>,
    pub(super) pulses: Pulses,
}

impl Parts {
    pub(super) fn new(
        client: Client,
        cluster: String,
        metrics: Metrics,
        term: Term,
        stop: &CancellationToken,
    ) -> Result<Self, String> {
        let http = Http::new().map_err(|error| super::chain(&error))?;
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
            cluster.clone(),
            http,
            ListingSettings::default(),
            metrics.clone(),
            wake,
            stop.child_token(),
        );
        let events = Events::new(client.clone(), std::env::var("POD_NAME").ok());
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
                    scope.wake_where(&account.namespace, |found| {
                        instance::facts::accounts(found).any(|name| name == account.name)
                    });
                }
            }
        };
        let secrets = SecretVersions::default();
        // A process that stands by has given birth to nothing yet; one without a Lease is active all its life.
        let born_after = if term.holds() { 0 } else { u64::MAX };
        Ok(Self {
            instances: instance::Context {
                client: client.clone(),
                sessions: sessions.clone(),
                secrets: secrets.clone(),
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
            born_after: Arc::new(AtomicU64::new(born_after)),
            pulses: Pulses::default(),
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
    /// Lets requests for turns through, and asks for one of every object that is there.
    pub(super) fn open(&self) {
        self.wake_account.open();
        self.wake_instance.open();
        for account in self.accounts.state() {
            self.wake_account.wake(&ObjectKey::of(&*account));
        }
        for instance in self.instances.state() {
            self.wake_instance.wake(&ObjectKey::of(&*instance));
        }
    }

    /// Enters an Instance, as the store shows it, in the roll; what of it cannot be read counts by its record.
    pub(super) fn enrol(&self, key: &ObjectKey, roll: &Roll) {
        let reference = ObjectRef::new(&key.name).within(&key.namespace);
        let Some(object) = self.instances.get(&reference) else {
            return; // gone again: the next notice says so
        };
        owners::enrol(roll, &object);
    }

    pub(super) fn wake_where(&self, namespace: &str, wanted: impl Fn(&Instance) -> bool) {
        for object in self.instances.state() {
            let Ok(instance) = &object.0 else { continue };
            if instance.namespace().as_deref() == Some(namespace) && wanted(instance) {
                self.wake_instance.wake(&ObjectKey::of(instance));
            }
        }
    }

    /// Wakes what refers to a Secret that changed.
    pub(super) fn secret_changed(&self, secret: &ObjectKey) {
        for object in self.accounts.state() {
            let Ok(found) = &object.0 else { continue };
            if account::token_secret(found) == *secret {
                self.wake_account.wake(&ObjectKey::of(found));
            }
        }
        self.wake_where(&secret.namespace, |instance| {
            instance.secrets().any(|name| name == secret.name)
        });
    }
}
