//! How the parts of a process hang together: as in the operator itself, over stores and a queue of its own.

use super::{Due, Known, Running, Who};
use crate::apiserver::{name_in, place};
use crate::link::Link;
use cloud_server_operator::instance::facts::{Facts, accounts};
use cloud_server_operator::runtime::kubernetes::writes_within;
use cloud_server_operator::runtime::queue::Priority;
use cloud_server_operator::runtime::requests::well_formed;
use cloud_server_operator::runtime::watch::ObjectKey;
use cloud_server_operator::runtime::{Metrics, Term};
use cloud_server_operator::wiring::{Contexts, Objects, Process};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

impl Running {
    /// The inside of a process that has read nothing yet.
    pub(super) fn new(
        link: &Link,
        term: &Term,
        stop: &CancellationToken,
        born_after: &Arc<AtomicU64>,
    ) -> Self {
        let objects = Heard::default();
        let process = Process {
            client: writes_within(well_formed(link.client()), term.clone()),
            cluster: "cluster-1".to_owned(),
            http: link.http(),
            metrics: Metrics::default(),
            shard: link.shard(),
            term: term.clone(),
            pod: None,
        };
        let Contexts {
            instances,
            accounts,
        } = Contexts::new(process, &objects, stop);
        instances.sessions.key_credentials(link.credential_key());
        Self {
            secrets: instances.secrets.clone(),
            instances,
            accounts,
            link: link.clone(),
            due: objects.due,
            term: term.clone(),
            born_after: born_after.clone(),
            known_instances: BTreeMap::new(),
            known_accounts: BTreeMap::new(),
            known: objects.known,
        }
    }
}

/// What the watch has brought, and what is due.
#[derive(Clone, Default)]
struct Heard {
    due: Due,
    known: Arc<Mutex<Known>>,
}

impl Objects for Heard {
    fn wake_instance(&self, key: &ObjectKey, priority: Option<Priority>) {
        self.due.now(Who::Instance(name_of(key)), priority);
    }

    fn wake_account(&self, key: &ObjectKey) {
        self.due.now(Who::Account(name_of(key)), None);
    }

    fn wake_instances_of(&self, account: &ObjectKey) {
        for (name, found) in self
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            let is_near = place(name).0 == account.namespace;
            if is_near && accounts(found).any(|name| name == account.name) {
                self.due.now(Who::Instance(name.clone()), None);
            }
        }
    }

    fn facts(&self, key: &ObjectKey, cluster: &str) -> Option<Facts> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let object = known.get(&name_of(key))?;
        Some(Facts::of(cluster, object))
    }
}

fn name_of(key: &ObjectKey) -> String {
    name_in(&key.namespace, &key.name)
}
