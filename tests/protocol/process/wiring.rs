//! How the parts of a process hang together: as in the operator itself, but for stores and queue.

use super::{Due, Known, Running, Who};
use crate::apiserver::{name_in, place};
use crate::link::Link;
use cloud_server_operator::cloud::Doubt;
use cloud_server_operator::instance::facts::Facts;
use cloud_server_operator::instance::memory::all::Memories;
use cloud_server_operator::inventory::{Settings as ListingSettings, Subject};
use cloud_server_operator::runtime::events::Events;
use cloud_server_operator::runtime::kubernetes::writes_within;
use cloud_server_operator::runtime::queue::Priority;
use cloud_server_operator::runtime::requests::well_formed;
use cloud_server_operator::runtime::watch::ObjectKey;
use cloud_server_operator::runtime::{Metrics, Rights, Term};
use cloud_server_operator::session::{SecretVersions, Sessions};
use cloud_server_operator::{account, instance};
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
        let (due, metrics) = (Due::default(), Metrics::default());
        let client = writes_within(well_formed(link.client()), term.clone());
        let memories = Memories::default();
        let known: Arc<Mutex<Known>> = Arc::default();
        let cluster = "cluster-1".to_owned();
        let sessions = Sessions::new(
            cluster.clone(),
            link.http(),
            ListingSettings::default(),
            metrics.clone(),
            wake(&due, &memories),
            stop.child_token(),
        );
        sessions.key_credentials(link.credential_key());
        let events = Events::new(client.clone(), None);
        let (secrets, rights) = (SecretVersions::default(), Rights::default());
        let account_memories = account::Memories::default();
        let look_at_account = look_at_account(&due, &account_memories);
        sessions.on_doubt(look_at_account.clone());
        let doubt_account = move |key: &ObjectKey| look_at_account(key, Doubt::Credentials);
        Self {
            instances: instance::context::Context {
                client: client.clone(),
                sessions: sessions.clone(),
                secrets: secrets.clone(),
                latest: Arc::new(latest(&known, &cluster)),
                settings: instance::context::Settings { cluster },
                memories,
                events: events.clone(),
                metrics: metrics.clone(),
                term: term.clone(),
                rights: rights.clone(),
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
                rights,
                memories: account_memories,
                wake_instances: Arc::new(wake_instances(&due, &known)),
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

/// Gives the Instance of a subject a turn.
fn wake(due: &Due, memories: &Memories) -> impl Fn(Subject, Option<Priority>) + use<> {
    let (due, memories) = (due.clone(), memories.clone());
    move |subject, priority| {
        if let Some(key) = memories.key_of(&subject) {
            due.now(Who::Instance(name_of(&key)), priority);
        }
    }
}

/// Gives an Account a turn that calls cast doubt on.
fn look_at_account(
    due: &Due,
    memories: &account::Memories,
) -> impl Fn(&ObjectKey, Doubt) + Clone + use<> {
    let (due, memories) = (due.clone(), memories.clone());
    move |key, doubt| {
        memories.doubt(key, doubt);
        due.now(Who::Account(name_of(key)), None);
    }
}

/// Gives every Instance of an Account a turn.
fn wake_instances(due: &Due, known: &Arc<Mutex<Known>>) -> impl Fn(&ObjectKey) + use<> {
    let (due, known) = (due.clone(), known.clone());
    move |account| {
        for (name, found) in known.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let is_near = place(name).0 == account.namespace;
            if is_near && instance::facts::accounts(found).any(|name| name == account.name) {
                due.now(Who::Instance(name.clone()), None);
            }
        }
    }
}

/// What the watch shows of an Instance now.
fn latest(
    known: &Arc<Mutex<Known>>,
    cluster: &str,
) -> impl Fn(&ObjectKey) -> Option<Facts> + use<> {
    let (known, cluster) = (known.clone(), cluster.to_owned());
    move |key| {
        let known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let object = known.get(&name_of(key))?;
        Some(Facts::of(&cluster, object))
    }
}

fn name_of(key: &ObjectKey) -> String {
    name_in(&key.namespace, &key.name)
}
