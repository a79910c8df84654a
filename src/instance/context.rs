//! What every reconcile works with.

use crate::instance::facts::Facts;
use crate::instance::memory::all::Memories;
use crate::runtime::events::Events;
use crate::runtime::watch::ObjectKey;
use crate::runtime::{Metrics, Rights, Term};
use crate::session::{SecretVersions, Sessions};
use kube::Client;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// What is the same for all Instances.
#[derive(Clone, Debug)]
pub struct Settings {
    /// UID of the namespace kube-system.
    pub cluster: String,
}

/// An object as the watch shows it by now; none where it is gone.
pub type Latest = Arc<dyn Fn(&ObjectKey) -> Option<Facts> + Send + Sync>;

/// What every reconcile works with; cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The apiserver.
    pub client: Client,
    /// The account sessions of all Accounts.
    pub sessions: Sessions,
    /// Which Secrets exist, in which version.
    pub secrets: SecretVersions,
    /// Settings.
    pub settings: Settings,
    /// What this process remembers.
    pub memories: Memories,
    /// Events.
    pub events: Events,
    /// Counters.
    pub metrics: Metrics,
    /// The term of this process.
    pub term: Term,
    /// What the operator may do although it must not.
    pub rights: Rights,
    /// The highest resourceVersion that this process has seen.
    pub highest_version: Arc<AtomicU64>,
    /// An object as the watch shows it by now.
    pub latest: Latest,
    /// Asks for a look at the Account, when the service refuses its token.
    pub doubt_account: Arc<dyn Fn(&ObjectKey) + Send + Sync>,
}
