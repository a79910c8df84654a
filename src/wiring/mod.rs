//! How the reconcilers of one shard hang together: what they share, and how one thing wakes another. The program has it over
//! the stores of its watches, the closed loop of the tests over its own.

mod enrol;

pub use enrol::enrol;
pub(crate) use enrol::enrol_as;

use crate::cloud::{Doubt, Http};
use crate::instance::facts::Facts;
use crate::instance::memory::all::Memories;
use crate::inventory::{Settings as ListingSettings, Subject};
use crate::runtime::events::Events;
use crate::runtime::queue::Priority;
use crate::runtime::watch::ObjectKey;
use crate::runtime::{Metrics, Rights, Shard, Term};
use crate::session::{SecretVersions, Sessions};
use crate::{account, instance};
use kube::Client;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio_util::sync::CancellationToken;

/// The objects as the watches of a shard show them, and its queues.
pub trait Objects: Clone + Send + Sync + 'static {
    /// Asks for a reconcile of an Instance; without a priority the object itself says how urgent it is.
    fn wake_instance(&self, key: &ObjectKey, priority: Option<Priority>);
    /// Asks for a reconcile of an Account.
    fn wake_account(&self, key: &ObjectKey);
    /// Asks for a reconcile of each Instance that refers to an Account.
    fn wake_instances_of(&self, account: &ObjectKey);
    /// An Instance as the watch shows it now.
    fn facts(&self, key: &ObjectKey, cluster: &str) -> Option<Facts>;
}

/// What a process has for a shard, or for the whole, before it has read anything.
pub struct Process {
    /// Speaks to the apiserver.
    pub client: Client,
    pub cluster: String,
    /// Speaks to services.
    pub http: Http,
    /// What the process counts.
    pub metrics: Metrics,
    /// What it acts on.
    pub shard: Shard,
    /// Its leadership.
    pub term: Term,
    /// The name of its Pod, for Events.
    pub pod: Option<String>,
}

/// What the reconcilers of both kinds work with; cheap to clone.
#[derive(Clone)]
pub struct Contexts {
    pub instances: instance::context::Context,
    pub accounts: account::Context,
}

impl Contexts {
    /// Everything wired, and nothing known yet.
    pub fn new(process: Process, objects: &impl Objects, stop: &CancellationToken) -> Self {
        let Process {
            client,
            cluster,
            http,
            metrics,
            shard,
            term,
            pod,
        } = process;
        let memories = Memories::default();
        let sessions = Sessions::new(
            (cluster.clone(), shard),
            http,
            ListingSettings::default(),
            metrics.clone(),
            wake(objects, &memories),
            stop.child_token(),
        );
        let events = Events::new(client.clone(), pod);
        let account_memories = account::Memories::default();
        let look_at_account = {
            let (objects, memories) = (objects.clone(), account_memories.clone());
            move |key: &ObjectKey, doubt| {
                memories.doubt(key, doubt);
                objects.wake_account(key);
            }
        };
        sessions.on_doubt(look_at_account.clone());
        let doubt_account = move |key: &ObjectKey| look_at_account(key, Doubt::Credentials);
        let wake_instances = {
            let objects = objects.clone();
            move |account: &ObjectKey| objects.wake_instances_of(account)
        };
        let latest = {
            let (objects, cluster) = (objects.clone(), cluster.clone());
            move |key: &ObjectKey| objects.facts(key, &cluster)
        };
        let (secrets, rights) = (SecretVersions::default(), Rights::default());
        Self {
            instances: instance::context::Context {
                client: client.clone(),
                sessions: sessions.clone(),
                secrets: secrets.clone(),
                settings: instance::context::Settings { cluster },
                memories,
                events: events.clone(),
                metrics: metrics.clone(),
                term: term.clone(),
                rights: rights.clone(),
                highest_version: Arc::new(AtomicU64::new(0)),
                latest: Arc::new(latest),
                doubt_account: Arc::new(doubt_account),
            },
            accounts: account::Context {
                client,
                sessions,
                secrets,
                events,
                metrics,
                term,
                rights,
                memories: account_memories,
                wake_instances: Arc::new(wake_instances),
            },
        }
    }
}

/// What came of a listing wakes the Instance.
fn wake(
    objects: &impl Objects,
    memories: &Memories,
) -> impl Fn(Subject, Option<Priority>) + Send + Sync + 'static {
    let (objects, memories) = (objects.clone(), memories.clone());
    move |subject, priority| {
        if let Some(key) = memories.key_of(&subject) {
            objects.wake_instance(&key, priority);
        }
    }
}
