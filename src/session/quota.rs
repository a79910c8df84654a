//! The limits of each Account: how many of its Instances may have a server, and how many creates may begin in a minute.
//!
//! An Instance counts from its first record on, which [`Owners`] knows from the watch, so a restart loses nothing. In addition the
//! intents count that this process is about to write. Both are checked under one lock right before the intent, so two reconciles
//! cannot use the last place both. The intents of another process are unknown here; the Lease makes sure that only one process
//! acts on the namespaces of a shard.
//!
//! The Instances that wait have no order: each checks again after a while, and a few are woken when one of the Account goes.

use super::owners::{Owner, Owners};
use crate::api::Instance;
use crate::cloud::ServerId;
use crate::inventory::Subject;
use crate::runtime::chance;
use crate::runtime::strings::shared;
use crate::runtime::watch::ObjectKey;
use kube::core::DeserializeGuard;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The period over which creates are counted.
const MINUTE: Duration = Duration::from_secs(60);
/// The shortest pause before a waiting Instance checks again; the longest is twice that. Ten thousand that wait then take a few
/// hundred reconciles a second, which call and write nothing.
const RECHECK_AFTER: Duration = Duration::from_secs(30);
/// How many waiting Instances are woken when one place becomes free, since the first may wait for something else by now.
const WOKEN: usize = 4;

/// How many servers an Account may have, and how many it may create per minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountLimits {
    /// Instances on record or about to be (`spec.maxInstances`).
    pub instances: Option<usize>,
    /// Creates per minute (`spec.createRate.perMinute`).
    pub creates: Option<usize>,
}

/// The limit that an Instance waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The number of Instances (`spec.maxInstances`).
    Instances,
    /// The rate of creates (`spec.createRate`).
    Creates,
}

/// Whether the operator may buy a server for an Instance now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuotaState {
    #[default]
    Free,
    /// The limit, and when to check again.
    Reached(Limit, usize, Duration),
}

/// The use of an Account's limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Instances on record or about to be.
    pub instances: usize,
    /// Servers that were bought within the last minute.
    pub creates: usize,
    /// The names of the waiting Instances, each with its limit, in no particular order.
    pub waiting: Vec<(String, Limit)>,
}

/// The quota of all Accounts of a process; cheap to clone.
#[derive(Clone)]
pub struct Quota(Arc<Inner>);

struct Inner {
    owners: Owners,
    wake: Box<dyn Fn(Subject) + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The intents that this process writes and that no watch has shown yet.
    pending: BTreeMap<Subject, Pending>,
    /// The creates of the last minute, by Account.
    creates: HashMap<ObjectKey, VecDeque<(Instant, Subject)>>,
    waiting: BTreeMap<Subject, (ObjectKey, Limit)>,
}

struct Pending {
    account: ObjectKey,
    /// The existing server to record.
    server: Option<ServerId>,
}

impl Quota {
    /// Nothing is pending. `wake` requests a reconcile of the Instance with this UID.
    pub(super) fn new(owners: Owners, wake: impl Fn(Subject) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            owners,
            wake: Box::new(wake),
            state: Mutex::default(),
        }))
    }

    /// A watch shows an Instance.
    pub fn shown(&self, key: &ObjectKey, uid: &Subject, object: &DeserializeGuard<Instance>) {
        let freed = self.0.owners.shown(key, uid, object);
        self.lock().pending.retain(|other, pending| {
            let Pending { account, server } = pending;
            other != uid || !self.0.owners.is_on_record(uid, account, server.as_ref())
        });
        self.wake_some(freed.as_ref());
    }

    /// An Instance is gone. Returns its last state.
    pub fn gone(&self, uid: &str) -> Option<Owner> {
        // First: from now on, a reconcile that still runs is not admitted.
        let owner = self.0.owners.gone(uid);
        self.withdraw(uid);
        self.lock().waiting.remove(uid);
        let recorded = owner.as_ref().and_then(|owner| owner.recorded.as_ref());
        self.wake_some(recorded.map(|recorded| &recorded.account));
        owner
    }

    /// Whether a server may be bought for this Instance now. Changes nothing.
    pub fn check(&self, uid: &str, account: &ObjectKey, limits: AccountLimits) -> QuotaState {
        self.check_in(&mut self.lock(), uid, account, limits)
    }

    /// Checks the same and takes a place and a create, if the limits allow it. Call it right before the intent.
    pub fn admit(&self, uid: &str, account: &ObjectKey, limits: AccountLimits) -> bool {
        let mut state = self.lock();
        let is_free = self.check_in(&mut state, uid, account, limits) == QuotaState::Free;
        if !is_free || self.0.owners.key_of(uid).is_none() {
            return false;
        }
        let pending = Pending {
            account: account.clone(),
            server: None,
        };
        state.pending.insert(shared(uid), pending);
        let creates = state.creates.entry(account.clone()).or_default();
        creates.push_back((Instant::now(), shared(uid)));
        true
    }

    /// An existing server is about to be recorded for this Instance, regardless of the limits. Returns whether the Instance still
    /// exists and no other Instance is about to record the server.
    pub fn admit_server(&self, uid: &str, account: &ObjectKey, id: Option<ServerId>) -> bool {
        let mut state = self.lock();
        let mut pending = state.pending.iter();
        let is_others = |(other, pending): (&Subject, &Pending)| {
            **other != *uid && id.is_some() && pending.server == id
        };
        if pending.any(is_others) || self.0.owners.key_of(uid).is_none() {
            return false;
        }
        let pending = Pending {
            account: account.clone(),
            server: id,
        };
        state.pending.insert(shared(uid), pending);
        true
    }

    /// The intent of this Instance, if any, was certainly not written, or a watch would have shown it by now.
    pub fn withdraw(&self, uid: &str) {
        let pending = self.lock().pending.remove(uid);
        self.wake_some(pending.as_ref().map(|pending| &pending.account));
    }

    /// The newest create of this Instance certainly bought nothing, and does not count.
    pub fn bought_nothing(&self, uid: &str) {
        for creates in self.lock().creates.values_mut() {
            if let Some(at) = creates.iter().rposition(|(_, other)| **other == *uid) {
                creates.remove(at);
            }
        }
    }

    /// This limit, if any, is what the Instance waits for.
    pub fn set_waiting(&self, uid: &str, account: &ObjectKey, limit: Option<Limit>) {
        let mut state = self.lock();
        match limit.filter(|_| self.0.owners.key_of(uid).is_some()) {
            Some(limit) => drop(state.waiting.insert(shared(uid), (account.clone(), limit))),
            None => drop(state.waiting.remove(uid)),
        }
    }

    /// The use of an Account's limits, and the Instances that wait.
    pub fn usage(&self, account: &ObjectKey) -> Usage {
        let mut state = self.lock();
        let waiting = state.waiting.iter().filter(|(_, (of, _))| of == account);
        let named = |(uid, (_, limit)): (&Subject, &(ObjectKey, Limit))| {
            let key = self.0.owners.key_of(uid)?;
            Some((key.name.clone(), *limit))
        };
        Usage {
            waiting: waiting.filter_map(named).collect(),
            instances: self.count(&state, account),
            creates: state.creates_of(account).map_or(0, |creates| creates.len()),
        }
    }

    fn check_in(
        &self,
        state: &mut State,
        uid: &str,
        account: &ObjectKey,
        limits: AccountLimits,
    ) -> QuotaState {
        let again = RECHECK_AFTER.mul_f64(1.5 + 0.5 * chance::share());
        // An Instance that counts already keeps its place, even if the limit was lowered since.
        let counts =
            state.pending.contains_key(uid) || self.0.owners.is_on_record(uid, account, None);
        if let Some(allowed) = limits.instances.filter(|_| !counts)
            && self.count(state, account) >= allowed
        {
            return QuotaState::Reached(Limit::Instances, allowed, again);
        }
        if let (Some(allowed), Some(creates)) = (limits.creates, state.creates_of(account))
            && creates.len() >= allowed
        {
            return QuotaState::Reached(Limit::Creates, allowed, again);
        }
        QuotaState::Free
    }

    fn count(&self, state: &State, account: &ObjectKey) -> usize {
        let pending = state.pending.iter().filter(|(uid, pending)| {
            pending.account == *account && !self.0.owners.is_on_record(uid, account, None)
        });
        self.0.owners.count(account) + pending.count()
    }

    /// A place of this Account became free: some Instances that wait for one check again.
    fn wake_some(&self, account: Option<&ObjectKey>) {
        let Some(account) = account else {
            return;
        };
        let waits = |(_, (of, limit)): &(&Subject, &(ObjectKey, Limit))| {
            of == account && *limit == Limit::Instances
        };
        let woken: Vec<Subject> = {
            let state = self.lock();
            let waiting = state.waiting.iter().filter(waits).take(WOKEN);
            waiting.map(|(uid, _)| uid.clone()).collect()
        };
        woken.into_iter().for_each(&*self.0.wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The creates of the last minute.
    fn creates_of(&mut self, account: &ObjectKey) -> Option<&mut VecDeque<(Instant, Subject)>> {
        let creates = self.creates.get_mut(account)?;
        creates.retain(|(at, _)| at.elapsed() < MINUTE);
        Some(creates)
    }
}

impl std::fmt::Debug for Quota {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Quota")
    }
}

#[cfg(test)]
mod tests;
