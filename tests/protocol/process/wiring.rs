//! How the parts of a process hang together: as in the operator itself, but for stores and queue.

use super::{Due, Running, Who};
use crate::link::Link;
use cloud_server_operator::inventory::{Settings as ListingSettings, Subject};
use cloud_server_operator::runtime::events::Events;
use cloud_server_operator::runtime::kubernetes::writes_within;
use cloud_server_operator::runtime::watch::ObjectKey;
use cloud_server_operator::runtime::{Metrics, Term};
use cloud_server_operator::session::{SecretVersions, Sessions};
use cloud_server_operator::{account, instance};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

impl Running {
    /// The inside of a process that has read nothing yet.
    pub(super) fn new(
        link: &Link,
        term: &Term,
        stop: &CancellationToken,
        born_after: &Arc<AtomicU64>,
    ) -> Self {
        let (due, metrics) = (Due::default(), Metrics::default());
        let client = writes_within(link.client(), term.clone());
        let memories = instance::memory::Memories::default();
        let known: Arc<Mutex<Vec<String>>> = Arc::default();
        let wake = {
            let (due, memories) = (due.clone(), memories.clone());
            move |subject: Subject| {
                if let Some(key) = memories.key_of(&subject) {
                    due.at(Who::Instance(key.name), Instant::now());
                }
            }
        };
        let cluster = "cluster-1".to_owned();
        let sessions = Sessions::new(
            cluster.clone(),
            link.http(),
            ListingSettings::default(),
            metrics.clone(),
            wake,
            stop.child_token(),
        );
        let events = Events::new(client.clone(), None);
        let secrets = SecretVersions::default();
        let account_memories = account::Memories::default();
        let doubt_account = {
            let (due, memories) = (due.clone(), account_memories.clone());
            move |key: &ObjectKey| {
                memories.doubt(key);
                due.at(Who::Account(key.name.clone()), Instant::now());
            }
        };
        let wake_instances = {
            let (due, known) = (due.clone(), known.clone());
            move |_: &ObjectKey| {
                for name in known.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                    due.at(Who::Instance(name.clone()), Instant::now());
                }
            }
        };
        Self {
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
                client,
                sessions,
                secrets: secrets.clone(),
                events,
                metrics,
                term: term.clone(),
                memories: account_memories,
                wake_instances: Arc::new(wake_instances),
            },
            secrets,
            link: link.clone(),
            due,
            term: term.clone(),
            born_after: born_after.clone(),
            known_instances: BTreeMap::new(),
            known_accounts: BTreeMap::new(),
            known,
        }
    }
}
