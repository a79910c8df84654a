//! Opens a session or finds the open one, and makes an Account's account session in it.

use super::account_session::{
    AccountSession, AccountState, MadeFrom, ServiceCredentials, Session, account_limits, limits,
    utc_offset,
};
use super::digest::{limiter_key, session_key};
use super::slots::CallSlots;
use super::{Destination, FormerKey, Sessions, credential, tls};
use crate::api::AccountSpec;
use crate::catalog::Catalog;
use crate::cloud::{BuildError, Client, Doubt, Observer, Paths, RateLimiter, WaitObserver};
use crate::inventory::{Inventory, Settings};
use crate::runtime::queue::Priority;
use crate::runtime::strings::shared;
use crate::runtime::watch::ObjectKey;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// Called with an Account that should be reconciled, and why.
pub(super) type OnDoubt = dyn Fn(&ObjectKey, Doubt) + Send + Sync;

impl Sessions {
    /// Makes a new account session for an Account, without installing it. Accounts with the same `session_key` share one session.
    /// All Accounts with one endpoint and token share the request limits: those of the Account that this function last got.
    ///
    /// # Errors
    /// No client can be made from the Account: see [`BuildError`].
    pub fn account_session(
        &self,
        account: &ObjectKey,
        spec: &AccountSpec,
        credentials: &ServiceCredentials,
        made_from: MadeFrom,
    ) -> Result<Arc<AccountSession>, BuildError> {
        let account_session = self.make(account, spec, credentials, made_from)?;
        let session = &account_session.shared;
        session.client.limiter().set_limits(limits(spec));
        session.slots.set_limits(limits(spec));
        let newest = Some(account_session.clone());
        let former = self.update(account, |known| {
            std::mem::replace(&mut known.newest, newest)
        });
        if let Some(former) = former {
            let inventory = &account_session.shared.inventory;
            inventory.inherit(&former.shared.inventory);
        }
        Ok(account_session)
    }

    pub(super) fn make(
        &self,
        account: &ObjectKey,
        spec: &AccountSpec,
        credentials: &ServiceCredentials,
        made_from: MadeFrom,
    ) -> Result<Arc<AccountSession>, BuildError> {
        let (cluster, token) = (&self.inner.cluster, &credentials.token);
        let is_compared = !self.inner.trusts_records.load(Ordering::Relaxed);
        let former = self.inner.former_key.get().filter(|_| is_compared);
        Ok(Arc::new(AccountSession {
            shared: self.session(&account.namespace, spec, credentials)?,
            credential: is_compared.then(|| shared(&credential::credential(cluster, spec, token))),
            former_credential: former.map(|key| shared(&key.credential(cluster, spec, token))),
            made_from,
            settle: Duration::from_secs(u64::try_from(spec.settle_seconds).unwrap_or(180)),
            utc_offset: utc_offset(spec),
            limits: account_limits(spec),
            source: Arc::new((spec.clone(), credentials.clone())),
        }))
    }

    /// The destination of an Account's requests, if it is allowed.
    ///
    /// # Errors
    /// The endpoint or the proxy is malformed, or the endpoint is not allowed.
    pub fn destination(&self, spec: &AccountSpec) -> Result<Destination, BuildError> {
        self.inner.http.endpoint(&spec.endpoint)?;
        Destination::of(spec)
    }

    /// From here on the credentials in records of an earlier version, which were made with this key, are compared like new ones.
    /// Call it before the first account session is made.
    pub fn compare_former(&self, key: FormerKey) {
        // Set once, before the first use.
        let _ = self.inner.former_key.set(key);
    }

    /// Calls of this session failed, so its usable Accounts may have become unusable. The other Accounts retry anyway.
    fn doubted(&self, number: u64, doubt: Doubt) {
        let doubted: Vec<ObjectKey> = {
            let accounts = self.accounts();
            let used = accounts.iter().filter(
                |(_, known)| matches!(&known.state, AccountState::Usable(usable) if usable.shared.number == number),
            );
            used.map(|(account, _)| account.clone()).collect()
        };
        doubted
            .iter()
            .for_each(|account| (self.inner.on_doubt)(account, doubt));
    }

    /// A rate limiter whose waits are counted in the metrics.
    fn limiter(&self, spec: &AccountSpec) -> RateLimiter {
        let metrics = self.inner.metrics.clone();
        let waits: WaitObserver = Arc::new(move |priority, wait| {
            metrics.limiter_wait.observe([priority.as_str()], wait);
        });
        RateLimiter::new(limits(spec)).with_observer(waits)
    }

    /// The open session for this spec and these credentials, or a new one. Memory for its answers is accounted to `namespace`, even
    /// if Accounts of other namespaces share the session later.
    fn session(
        &self,
        namespace: &str,
        spec: &AccountSpec,
        credentials: &ServiceCredentials,
    ) -> Result<Arc<Session>, BuildError> {
        let key = session_key(spec, credentials);
        let ServiceCredentials { token, tls } = credentials;
        let mut open = self.open();
        if let Some(session) = open.get(&key).and_then(Weak::upgrade) {
            return Ok(session);
        }
        let paths = Paths::resolve(&spec.paths)?;
        let limiter_key = limiter_key(spec, token);
        let others = open.values().filter_map(Weak::upgrade);
        // Capture only the callback: `Sessions` own the slots, which own this closure, so a reference back would form a cycle.
        let woken = self.inner.wake.clone();
        let admit = move |subject| woken(subject, Some(Priority::Admitted));
        let (limiter, slots) = others
            .into_iter()
            .find(|session| session.limiter_key == limiter_key)
            .map_or_else(
                || (self.limiter(spec), CallSlots::new(limits(spec), admit)),
                |session| (session.client.limiter().clone(), session.slots.clone()),
            );
        let metrics = self.inner.metrics.clone();
        let observer: Observer = Arc::new(move |operation, result, took| {
            let (operation, result) = (operation.as_str(), result.err().unwrap_or("ok"));
            metrics.calls.count([operation, result]);
            metrics.call_duration.observe([operation], took);
        });
        let client = Client::new(
            self.inner.http.with_route(tls::route(spec, tls)),
            &spec.endpoint,
            token.clone(),
            paths,
            limiter,
        )?
        .with_namespace(namespace)
        .with_observer(observer)
        .with_missing_codes(spec.missing_codes.clone());
        let cancel = self.inner.cancel.child_token();
        let woken = self.inner.wake.clone();
        let wake = move |subject| woken(subject, None);
        let settings = Settings::default();
        let inventory = Inventory::spawn(client.clone(), settings, wake, cancel.clone());
        let number = self.inner.next_number.fetch_add(1, Ordering::Relaxed);
        let sessions = Arc::downgrade(&self.inner);
        client.health().on_doubt(move |doubt| {
            if let Some(inner) = sessions.upgrade() {
                Self { inner }.doubted(number, doubt);
            }
        });
        let session = Arc::new(Session {
            number,
            limiter_key,
            catalog: Catalog::new(client.clone()),
            client,
            inventory,
            took: Mutex::default(),
            slots,
            cancel,
        });
        open.insert(key, Arc::downgrade(&session));
        Ok(session)
    }
}
