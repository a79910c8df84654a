//! Sessions with services. Accounts with the same endpoint, token and connection settings share one session, with its client,
//! inventory and catalog; each has an account session of its own in it. All Accounts with one endpoint and token share a rate
//! limiter.
//!
//! A token exists in memory only while an account session uses it. A new version of its Secret makes the operator read it again.

mod account_session;
mod admissions;
mod conflicts;
mod consent;
mod copies;
mod credential;
mod digest;
mod opening;
mod owners;
mod quota;
mod reconcile_session;
mod secrets;
mod slots;
mod tls;

use crate::api::{AccountSpec, Marker};
use crate::cloud::{Doubt, Http, Place, ServerId};
use crate::inventory::InstanceUid;
use crate::runtime::metrics::Listings;
use crate::runtime::queue::Priority;
use crate::runtime::watch::ObjectKey;
use crate::runtime::{KubeError, Metrics, Shard};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use account_session::KnownAccount;
pub use account_session::{
    AccountSession, AccountState, MadeFrom, Problem, ServiceCredentials, Session, limits,
};
pub use admissions::Limit;
pub use conflicts::ConflictingOwner;
pub use consent::{ConsentRefusal, Destination, Use, UseProblem, read_for, read_token};
pub use copies::Copies;
pub use credential::FormerKey;
pub use owners::{Owner, Owners};
pub use quota::{AccountLimits, QuotaState, Usage};
pub use reconcile_session::ReconcileSession;
pub use secrets::{Content, SecretProblem, SecretVersions, read};
pub use tls::{bundle_version, names_config_map, read_tls, route, tls_secrets, tls_version};

/// All sessions and account sessions of the process; cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    inner: Arc<Inner>,
}

/// Requests a reconcile of the Instance with this UID, at this priority or the one that follows from the object.
type Wake = dyn Fn(InstanceUid, Option<Priority>) + Send + Sync;

struct Inner {
    next_number: AtomicU64,
    shard: Shard,
    cluster: String,
    http: Http,
    metrics: Metrics,
    wake: Arc<Wake>,
    owners: Owners,
    began: Mutex<Instant>,
    /// Set by commands: a claim to a server counts regardless of its credential.
    trusts_records: AtomicBool,
    copies: OnceLock<Copies>,
    on_doubt: Box<opening::OnDoubt>,
    /// For records of an earlier version.
    former_key: OnceLock<FormerKey>,
    cancel: CancellationToken,
    open: Mutex<HashMap<[u8; 32], Weak<Session>>>,
    accounts: Mutex<HashMap<ObjectKey, KnownAccount>>,
}

impl Sessions {
    /// No sessions yet, for the Accounts of this shard. `cluster` salts the credentials of records. `wake` is called with the
    /// UID of an Instance that should be reconciled: because of a listing, or because quota or a slot for calls may be free for
    /// it. `on_doubt` is called with each Account that should be reconciled: its calls failed in a way that may make it
    /// unusable.
    pub fn new(
        (cluster, shard): (String, Shard),
        http: Http,
        metrics: Metrics,
        wake: impl Fn(InstanceUid, Option<Priority>) + Send + Sync + 'static,
        on_doubt: impl Fn(&ObjectKey, Doubt) + Send + Sync + 'static,
        cancel: CancellationToken,
    ) -> Self {
        let wake: Arc<Wake> = Arc::new(wake);
        let woken = wake.clone();
        let inner = Arc::new(Inner {
            next_number: AtomicU64::new(1),
            shard,
            owners: Owners::new(cluster.clone(), move |subject| woken(subject, None)),
            began: Mutex::new(Instant::now()),
            trusts_records: AtomicBool::new(false),
            copies: OnceLock::new(),
            on_doubt: Box::new(on_doubt),
            former_key: OnceLock::new(),
            cluster,
            http,
            metrics,
            wake,
            cancel,
            open: Mutex::default(),
            accounts: Mutex::default(),
        });
        Self { inner }
    }

    /// An Account exists. It counts as pending until its reconcile. If an Account of this name was deleted before, its session
    /// does not become usable for the new one.
    pub fn announce(&self, account: &ObjectKey) {
        self.update(account, |known| {
            if matches!(known.state, AccountState::NotFound) {
                known.state = AccountState::Pending;
                known.newest = None;
            }
        });
    }

    /// An Account is gone. Instances that are being deleted may still use its last account session.
    pub fn depart(&self, account: &ObjectKey) {
        if let Some(known) = self.accounts().get_mut(account) {
            known.state = AccountState::NotFound;
        }
    }

    /// Drops the account sessions of deleted Accounts that no Instance needs, and with them their tokens.
    pub fn sweep(&self, needed: impl Fn(&ObjectKey) -> bool) {
        let is_gone = |known: &KnownAccount| matches!(known.state, AccountState::NotFound);
        let mut unneeded: Vec<ObjectKey> = {
            let accounts = self.accounts();
            let gone = accounts.iter().filter(|(_, known)| is_gone(known));
            gone.map(|(account, _)| account.clone()).collect()
        };
        // Call `needed` without holding the lock, since it takes locks of its own.
        unneeded.retain(|account| !needed(account));
        self.accounts()
            .retain(|account, known| !is_gone(known) || !unneeded.contains(account));
        self.open().retain(|_, session| session.strong_count() > 0);
    }

    /// The owner of each server, and the use of the limits of each Account.
    pub fn owners(&self) -> &Owners {
        &self.inner.owners
    }

    /// The term of this process begins, and with it the reconciles of Accounts.
    pub fn begin_term(&self) {
        *self.began() = Instant::now();
    }

    fn began(&self) -> MutexGuard<'_, Instant> {
        let began = self.inner.began.lock();
        began.unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on tokens are copied, so that deletions continue after a restart even if Secret and Account are gone.
    pub fn keep_copies(&self, copies: Copies) {
        // Set once, before the first use.
        let _ = self.inner.copies.set(copies);
    }

    /// Whether this process keeps copies of tokens.
    pub fn keeps_copies(&self) -> bool {
        self.inner.copies.get().is_some()
    }

    /// Copies an Account's token, where copies are kept. A failure is logged and blocks nothing.
    pub async fn copy_token(&self, account: &ObjectKey, account_session: &AccountSession) {
        let Some(copies) = self.inner.copies.get() else {
            return;
        };
        let (spec, credentials) = &*account_session.source;
        if let Err(error) = copies.write(account, spec, credentials).await {
            let (namespace, name) = (&account.namespace, &account.name);
            tracing::warn!(namespace, name, %error, "the token has no current copy: until it has, do not delete the namespace");
        }
    }

    /// Reads the copies of one namespace, or of all, and returns their Accounts. An Account without an account session for
    /// deletions gets one.
    ///
    /// # Errors
    /// The copies could not be read.
    pub async fn restore(&self, namespace: Option<&str>) -> Result<Vec<ObjectKey>, KubeError> {
        let Some(copies) = self.inner.copies.get() else {
            return Ok(Vec::new());
        };
        let mut restored = Vec::new();
        for copy in copies.read(namespace, self.inner.shard).await? {
            let (account, credentials) = (copy.account, &copy.credentials);
            match self.make(&account, &copy.spec, credentials, MadeFrom::default()) {
                Ok(account_session) => {
                    let mut accounts = self.accounts();
                    let known = accounts.entry(account.clone());
                    // The Account counts as gone until its watch shows it.
                    let known = known.or_insert(KnownAccount::new(AccountState::NotFound));
                    known.last.get_or_insert(account_session);
                    restored.push(account);
                }
                Err(error) => {
                    let (namespace, name) = (&account.namespace, &account.name);
                    tracing::warn!(namespace, name, %error, "the copy of a token cannot be used");
                }
            }
        }
        Ok(restored)
    }

    /// Deletes the copies of tokens that no Instance needs, until cancelled. Call it only once all Instances are known.
    pub async fn drop_copies(&self, stop: &CancellationToken) {
        if let Some(copies) = self.inner.copies.get() {
            let is_needed = |account: &ObjectKey| self.inner.owners.is_needed_for_release(account);
            copies.delete_unneeded(is_needed, stop).await;
        }
    }

    /// The newest account session of an Account if it was made from these objects and this spec. Compares the spec, not its
    /// generation: after a restore of etcd the same generation can come with a different spec.
    pub fn made_from(
        &self,
        account: &ObjectKey,
        spec: &AccountSpec,
        from: &MadeFrom,
    ) -> Option<Arc<AccountSession>> {
        let newest = self.newest(account)?;
        (newest.made_from == *from && newest.source.0 == *spec).then_some(newest)
    }

    /// The Account is usable, with this account session. Returns whether that is new. Nothing changes if it is not the newest
    /// account session: the Account was deleted meanwhile, and one of the same name may have been created.
    pub fn install(&self, account: &ObjectKey, account_session: Arc<AccountSession>) -> bool {
        self.update(account, |known| {
            if known.newest.as_ref().map(Arc::as_ptr) != Some(Arc::as_ptr(&account_session)) {
                return false;
            }
            known.last = Some(account_session.clone());
            known.set(AccountState::Usable(account_session))
        })
    }

    /// Keeps an account session for deletions if there is none yet, although the Account is not usable now.
    pub fn keep_for_deletion(&self, account: &ObjectKey, account_session: Arc<AccountSession>) {
        self.update(account, |known| {
            known.last.get_or_insert(account_session);
        });
    }

    /// The Account is not usable; its last account session stays for deletions. Returns whether that is new.
    pub fn mark_unusable(&self, account: &ObjectKey, problem: Problem) -> bool {
        self.update(account, |known| known.set(AccountState::Unusable(problem)))
    }

    /// The state of an Account.
    pub fn state_of(&self, account: &ObjectKey) -> AccountState {
        let accounts = self.accounts();
        let known = accounts.get(account);
        known.map_or(AccountState::NotFound, |known| known.state.clone())
    }

    /// How many Instances of an Account may hold a slot for calls at the same time.
    pub fn slots(&self, account: &ObjectKey) -> usize {
        let newest = self.newest(account);
        newest.map_or(0, |newest| newest.shared.slots.number())
    }

    /// The last usable account session of an Account, or else one that was never usable, for deletions: it exists even if the
    /// Account, its Secret or the token is gone. None with `newest_is_refused` if it shares the session of the newest account
    /// session, since the service refuses the same token there.
    pub fn last_account_session(
        &self,
        account: &ObjectKey,
        newest_is_refused: bool,
    ) -> Option<Arc<AccountSession>> {
        let accounts = self.accounts();
        let known = accounts.get(account)?;
        let last = known.last.as_ref()?;
        let number = last.shared.number;
        let newest = known.newest.as_ref();
        let is_newest = newest.is_some_and(|newest| newest.shared.number == number);
        (!newest_is_refused || !is_newest).then(|| last.clone())
    }

    /// An Instance is finalized. While its Account exists, the Account controller releases a server that appears with its marker.
    pub fn add_tombstone(
        &self,
        account: &ObjectKey,
        account_session: &AccountSession,
        marker: &Marker,
        places: &[Place],
    ) {
        let newest = self.newest(account);
        let sessions = newest.iter().map(|newest| &*newest.shared);
        for session in sessions.chain([&*account_session.shared]) {
            session
                .inventory
                .add_tombstone(marker.clone(), places.to_vec());
        }
    }

    /// An Instance has no usable Account for now: it leaves the queue for calls, and needs only the regular listings.
    pub fn expect_no_change(&self, subject: &InstanceUid) {
        for session in self.sessions() {
            session.slots.leave(subject);
            session.inventory.expect_no_change(subject);
        }
    }

    /// An Instance is gone. Returns its last state.
    pub fn gone(&self, subject: &InstanceUid) -> Option<Owner> {
        self.leave(subject, None);
        self.inner.owners.gone(subject)
    }

    /// An Instance leaves the listings and the queue for calls of all sessions, except the one with this number.
    pub fn leave(&self, subject: &InstanceUid, except: Option<u64>) {
        for session in self.sessions() {
            if Some(session.number) != except {
                session.slots.leave(subject);
                session.inventory.leave(subject);
            }
        }
    }

    /// The listings of all sessions, combined.
    pub fn listings(&self) -> Listings {
        let owns = |id: &ServerId, marker: Option<&Marker>| self.inner.owners.owns(id, marker);
        let sessions = self.sessions().into_iter();
        let listings = sessions.map(|session| session.inventory.counts(owns));
        listings.fold(Listings::default(), Listings::and)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<[u8; 32], Weak<Session>>> {
        let open = self.inner.open.lock();
        open.unwrap_or_else(PoisonError::into_inner)
    }

    fn sessions(&self) -> Vec<Arc<Session>> {
        self.open().values().filter_map(Weak::upgrade).collect()
    }

    fn newest(&self, account: &ObjectKey) -> Option<Arc<AccountSession>> {
        self.accounts().get(account)?.newest.clone()
    }

    fn update<T>(&self, account: &ObjectKey, change: impl FnOnce(&mut KnownAccount) -> T) -> T {
        let mut accounts = self.accounts();
        let known = accounts.entry(account.clone());
        // An Account that was not announced is gone: its last reconcile may end after the sweep.
        change(known.or_insert(KnownAccount::new(AccountState::NotFound)))
    }

    fn accounts(&self) -> MutexGuard<'_, HashMap<ObjectKey, KnownAccount>> {
        let accounts = self.inner.accounts.lock();
        accounts.unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
