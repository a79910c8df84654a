//! The context of every reconcile.

use crate::credentials::SecretClient;
use crate::instance::facts::Facts;
use crate::instance::memory::all::Memories;
use crate::runtime::events::Events;
use crate::runtime::watch::ObjectKey;
use crate::runtime::{Metrics, Rights, Term};
use crate::session::{SecretVersions, Sessions};
use kube::Client;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The object that the watch shows now; None if it is gone.
pub type Latest = Arc<dyn Fn(&ObjectKey) -> Option<Facts> + Send + Sync>;

/// The context of every reconcile; cheap to clone.
#[derive(Clone)]
pub struct Context {
    pub client: Client,
    pub sessions: Sessions,
    pub secrets: SecretVersions,
    /// UID of the namespace kube-system.
    pub cluster: String,
    pub memories: Memories,
    pub events: Events,
    pub metrics: Metrics,
    pub term: Term,
    /// Permissions that the operator has and should not have.
    pub rights: Rights,
    /// The highest resourceVersion that this process has seen.
    pub highest_version: Arc<AtomicU64>,
    /// Reads the object that the watch shows now.
    pub latest: Latest,
    /// Requests a reconcile of the Account, because the service refuses its token.
    pub doubt_account: Arc<dyn Fn(&ObjectKey) + Send + Sync>,
}

impl Context {
    /// Reads and writes the Secrets of Instances.
    pub fn secret_client(&self) -> SecretClient<'_> {
        SecretClient {
            client: &self.client,
            versions: &self.secrets,
            rights: &self.rights,
            metrics: &self.metrics,
        }
    }
}
