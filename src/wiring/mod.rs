//! Builds the contexts of both reconcilers, and connects watch events, listings and reconciles: which of them wakes which object.
//! The program and the closed loop of the tests both use it, each with its own stores and queues.

mod changes;
pub mod feed;
mod objects;
mod referrers;

pub use objects::Objects;

use crate::cloud::{Doubt, Http};
use crate::instance::memory::all::Memories;
use crate::inventory::InstanceUid;
use crate::runtime::events::Events;
use crate::runtime::watch::ObjectKey;
use crate::runtime::{Metrics, Rights, Shard, Term};
use crate::session::{SecretVersions, Sessions};
use crate::{account, instance};
use feed::{Feed, References};
use kube::Client;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio_util::sync::CancellationToken;

/// The parts of a process that exist before it has read any object.
pub struct Process {
    /// Speaks to the apiserver.
    pub client: Client,
    pub cluster: String,
    /// Speaks to services.
    pub http: Http,
    pub metrics: Metrics,
    /// The namespaces on which the process acts.
    pub shard: Shard,
    /// When the process may write and call.
    pub term: Term,
    /// The name of the Pod, for Events.
    pub pod: Option<String>,
}

/// The contexts of the reconcilers of both kinds; cheap to clone.
#[derive(Clone)]
pub struct Contexts {
    pub instances: instance::context::Context,
    pub accounts: account::AccountContext,
    /// The handlers of watch events.
    pub feed: Feed,
}

impl Contexts {
    /// Connects everything. No object is known yet.
    pub fn new(process: Process, objects: &Arc<dyn Objects>, stop: &CancellationToken) -> Self {
        let (client, cluster, metrics) = (process.client, process.cluster, process.metrics);
        let memories = Memories::default();
        let account_memories = account::AccountMemories::default();
        let on_doubt = {
            let (objects, memories) = (objects.clone(), account_memories.clone());
            move |key: &ObjectKey, doubt| {
                memories.doubt(key, doubt);
                objects.wake_account(key, None);
            }
        };
        // A listing that shows a change wakes the Instance, and so does a slot for calls that became free.
        let wake = {
            let (objects, memories) = (objects.clone(), memories.clone());
            move |subject: InstanceUid, priority| {
                if let Some(key) = memories.key_of(&subject) {
                    objects.wake_instance(&key, priority);
                }
            }
        };
        let sessions = Sessions::new(
            (cluster.clone(), process.shard),
            process.http,
            metrics.clone(),
            wake,
            on_doubt.clone(),
            stop.child_token(),
        );
        let events = Events::new(client.clone(), process.pod);
        let doubt_account = move |key: &ObjectKey| on_doubt(key, Doubt::Credentials);
        let references = References::default();
        let wake_instances = {
            let (objects, instances) = (objects.clone(), references.instances_by_account.clone());
            move |account: &ObjectKey| {
                for key in instances.of(account) {
                    objects.wake_instance(&key, None);
                }
            }
        };
        let latest = {
            let (objects, cluster) = (objects.clone(), cluster.clone());
            move |key: &ObjectKey| objects.facts(key, &cluster)
        };
        let (secrets, rights) = (SecretVersions::default(), Rights::default());
        let instances = instance::context::Context {
            client: client.clone(),
            sessions: sessions.clone(),
            secrets: secrets.clone(),
            cluster,
            memories,
            events: events.clone(),
            metrics: metrics.clone(),
            term: process.term.clone(),
            rights: rights.clone(),
            highest_version: Arc::new(AtomicU64::new(0)),
            latest: Arc::new(latest),
            doubt_account: Arc::new(doubt_account),
        };
        let accounts = account::AccountContext {
            client,
            sessions,
            secrets,
            events,
            metrics,
            term: process.term,
            rights,
            memories: account_memories,
            wake_instances: Arc::new(wake_instances),
        };
        let feed = Feed::new(
            instances.clone(),
            accounts.clone(),
            objects.clone(),
            process.shard,
            references,
        );
        Self {
            instances,
            accounts,
            feed,
        }
    }
}
