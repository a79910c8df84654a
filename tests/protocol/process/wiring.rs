//! Builds the inside of a process as the operator does, over stores and a queue of the tests.

use super::{Due, Known, Running, Who};
use crate::apiserver::name_in;
use crate::link::Link;
use crate::universe::FORMER_KEY;
use cloud_server_operator::instance::facts::Facts;
use cloud_server_operator::runtime::kubernetes::writes_within;
use cloud_server_operator::runtime::queue::Priority;
use cloud_server_operator::runtime::requests::well_formed;
use cloud_server_operator::runtime::watch::ObjectKey;
use cloud_server_operator::runtime::{Metrics, Term};
use cloud_server_operator::session::FormerKey;
use cloud_server_operator::wiring::{Contexts, Objects, Process};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

impl Running {
    /// The inside of a process that has read nothing yet.
    pub(super) fn new(link: &Link, term: &Term, stop: &CancellationToken) -> Self {
        let heard = Heard::default();
        let process = Process {
            client: writes_within(well_formed(link.client()), term.clone()),
            cluster: "cluster-1".to_owned(),
            http: link.http(),
            metrics: Metrics::default(),
            shard: link.shard(),
            term: term.clone(),
            pod: None,
        };
        let objects: Arc<dyn Objects> = Arc::new(heard.clone());
        let Contexts {
            instances,
            accounts,
            feed,
        } = Contexts::new(process, &objects, stop);
        let former = FormerKey::from_bytes(&FORMER_KEY);
        instances.sessions.compare_former(former);
        Self {
            instances,
            accounts,
            feed,
            link: link.clone(),
            heard,
            term: term.clone(),
        }
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.heard.known()
    }
}

/// The objects that the watches have shown, and the requests for reconciles; cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Heard {
    pub(super) due: Due,
    known: Arc<Mutex<Known>>,
}

impl Heard {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Objects for Heard {
    fn wake_instance(&self, key: &ObjectKey, priority: Option<Priority>) {
        self.due.now(Who::Instance(name_of(key)), priority);
    }

    fn wake_account(&self, key: &ObjectKey, priority: Option<Priority>) {
        self.due.now(Who::Account(name_of(key)), priority);
    }

    fn facts(&self, key: &ObjectKey, cluster: &str) -> Option<Facts> {
        let known = self.known();
        let object = known.instances.get(&name_of(key))?;
        Some(Facts::of(cluster, object))
    }

    fn has_instance(&self, key: &ObjectKey) -> bool {
        self.known().instances.contains_key(&name_of(key))
    }

    fn has_account(&self, key: &ObjectKey) -> bool {
        self.known().accounts.contains_key(&name_of(key))
    }
}

fn name_of(key: &ObjectKey) -> String {
    name_in(&key.namespace, &key.name)
}
