//! The context of every reconcile.

use crate::cloud::{CallPriority, Detail, Error, ServerId};
use crate::credentials::SecretClient;
use crate::instance::fact::Fact;
use crate::instance::facts::Facts;
use crate::instance::memory::all::Memories;
use crate::runtime::events::Events;
use crate::runtime::watch::ObjectKey;
use crate::runtime::{Metrics, Rights, Term};
use crate::session::{AccountSession, SecretVersions, Sessions};
use kube::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::timeout;

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
    /// The highest resourceVersion that the watch of Instances or an intent of this process has shown since etcd was last restored.
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

    /// Reads the detail of a server within this time, which includes the wait for the request limit.
    pub async fn server(
        &self,
        session: &AccountSession,
        account: &ObjectKey,
        id: &ServerId,
        priority: CallPriority,
        deadline: Duration,
    ) -> Fact<Detail> {
        match timeout(deadline, session.shared.client.detail(priority, id)).await {
            Ok(answer) => self.fact(account, answer, Error::is_no_such_instance),
            Err(_) => Fact::Unknown("the request limit or the service took too long".to_owned()),
        }
    }

    /// The fact that an answer of the service shows. A refused token also triggers a reconcile of the Account.
    pub fn fact<T>(
        &self,
        account: &ObjectKey,
        answer: Result<T, Error>,
        shows_absence: fn(&Error) -> bool,
    ) -> Fact<T> {
        match answer {
            Ok(value) => Fact::Known(value),
            Err(error) if shows_absence(&error) => Fact::Absent,
            Err(error) => {
                self.note_failure(account, error.is_unauthorized());
                Fact::Unknown(error.to_string())
            }
        }
    }

    /// A call or a read failed. If the service refused its token, the Account is reconciled.
    pub fn note_failure(&self, account: &ObjectKey, is_token_refused: bool) {
        if is_token_refused {
            (self.doubt_account)(account);
        }
    }

    /// The cluster's state went back in time to this version (etcd was restored). Nothing that seemed new or unbought is certain
    /// any more.
    pub fn went_back(&self, version: u64) {
        tracing::warn!(
            version,
            "the cluster's state went back in time: settling before anything is bought"
        );
        self.highest_version.store(version, Ordering::SeqCst);
        self.memories.doubt_all();
    }
}
