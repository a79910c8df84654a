//! The limits of each Account: how many of its Instances may have a server, and how many creates may begin in a minute.
//!
//! An Instance counts from its first record on, which [`Owners`] knows from the watch, so a restart loses none of them. In
//! addition the intents count that this process is about to write, and the creates of the last minute, which a restart forgets.
//! Both limits are checked under one lock right before the intent, and again before a call that is repeated under the same
//! intent, so that two reconciles cannot both use the last free quota. The intents of another process are unknown here; the
//! Lease makes sure that only one process acts on the namespaces of a shard.
//!
//! The Instances that wait have no order: each checks again after a while, and a few are woken when an Instance of the Account no
//! longer counts.

use super::admissions::{Limit, Pending, is_recent};
use super::owners::{Owners, State};
use crate::cloud::ServerId;
use crate::inventory::InstanceUid;
use crate::runtime::chance;
use crate::runtime::strings::shared;
use crate::runtime::watch::ObjectKey;
use std::time::Duration;
use tokio::time::Instant;

/// The shortest pause before a waiting Instance checks again; the longest is twice that. Ten thousand waiting Instances then
/// take a few hundred reconciles a second, which call and write nothing.
const RECHECK_AFTER: Duration = Duration::from_secs(30);

/// How many servers an Account may have, and how many it may create per minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountLimits {
    /// Instances on record or about to be (`spec.maxInstances`).
    pub instances: Option<usize>,
    /// Creates per minute (`spec.createRate.perMinute`).
    pub creates: Option<usize>,
}

/// Whether the operator may buy a server for an Instance now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuotaState {
    #[default]
    Free,
    /// The limit, its value, and the pause before the next check.
    Reached(Limit, usize, Duration),
}

/// The use of an Account's limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Instances on record or about to be.
    pub instances: usize,
    /// Creates of the last minute, without those that certainly bought nothing.
    pub creates: usize,
    /// The names of the waiting Instances, each with its limit, in no particular order.
    pub waiting: Vec<(String, Limit)>,
}

impl Owners {
    /// Whether a server may be bought for this Instance now. Changes nothing.
    pub fn check(&self, uid: &str, account: &ObjectKey, limits: AccountLimits) -> QuotaState {
        self.lock().check(uid, account, limits)
    }

    /// Checks as [`Self::check`], and counts the Instance and a create if the limits allow both and the Instance exists. Returns
    /// whether it did. Call it for each create, right before its intent, or before its call if the intent stands already.
    pub fn admit(&self, uid: &str, account: &ObjectKey, limits: AccountLimits) -> bool {
        let mut state = self.lock();
        let is_free = state.check(uid, account, limits) == QuotaState::Free;
        if !is_free || !state.all.contains_key(uid) {
            return false;
        }
        let creates = state.admissions.creates.entry(account.clone()).or_default();
        creates.retain(|(at, _)| is_recent(*at));
        creates.push_back((Instant::now(), shared(uid)));
        state.admissions.begin(uid, account, None);
        state.end_admission(uid); // an Instance on record counts already
        true
    }

    /// An existing server is about to be recorded for this Instance, regardless of the limits. Returns whether the Instance still
    /// exists and no other Instance is about to record the server.
    pub fn admit_server(&self, uid: &str, account: &ObjectKey, id: Option<ServerId>) -> bool {
        let mut state = self.lock();
        let mut pending = state.admissions.pending.iter();
        let is_others = |(other, pending): (&InstanceUid, &Pending)| {
            **other != *uid && id.is_some() && pending.server == id
        };
        if pending.any(is_others) || !state.all.contains_key(uid) {
            return false;
        }
        state.admissions.begin(uid, account, id);
        true
    }

    /// The intent of this Instance, if any, was certainly not written, or a watch would have shown it by now.
    pub fn withdraw(&self, uid: &str) {
        let mut state = self.lock();
        let pending = state.admissions.pending.remove(uid);
        self.wake_waiting(state, pending.map(|pending| pending.account));
    }

    /// The create of this Instance that was admitted after `since` certainly bought nothing, and does not count.
    pub fn bought_nothing(&self, uid: &str, since: Instant) {
        for creates in self.lock().admissions.creates.values_mut() {
            creates.retain(|(at, other)| **other != *uid || *at < since);
        }
    }

    /// Notes the limit that the Instance waits for, if any.
    pub fn set_waiting(&self, uid: &str, account: &ObjectKey, limit: Option<Limit>) {
        let mut state = self.lock();
        match limit.filter(|_| state.all.contains_key(uid)) {
            Some(limit) => {
                let waits_for = (account.clone(), limit);
                state.admissions.waiting.insert(shared(uid), waits_for);
            }
            None => drop(state.admissions.waiting.remove(uid)),
        }
    }

    /// The use of an Account's limits, and the Instances that wait.
    pub fn usage(&self, account: &ObjectKey) -> Usage {
        let state = self.lock();
        let waiting = state.admissions.waiting.iter();
        let waiting = waiting.filter(|(_, (of, _))| of == account);
        let named = |(uid, (_, limit)): (&InstanceUid, &(ObjectKey, Limit))| {
            let owner = state.all.get(uid)?;
            Some((owner.key.name.clone(), *limit))
        };
        Usage {
            waiting: waiting.filter_map(named).collect(),
            instances: state.count(account),
            creates: state.admissions.creates_of(account),
        }
    }
}

impl State {
    fn check(&self, uid: &str, account: &ObjectKey, limits: AccountLimits) -> QuotaState {
        let again = RECHECK_AFTER.mul_f64(1.5 + 0.5 * chance::share());
        // An Instance that counts already may go on, even if the limit on Instances was lowered since.
        let counts =
            self.admissions.pending.contains_key(uid) || self.is_on_record(uid, account, None);
        if let Some(allowed) = limits.instances.filter(|_| !counts)
            && self.count(account) >= allowed
        {
            return QuotaState::Reached(Limit::Instances, allowed, again);
        }
        if let Some(allowed) = limits.creates
            && self.admissions.creates_of(account) >= allowed
        {
            return QuotaState::Reached(Limit::Creates, allowed, again);
        }
        QuotaState::Free
    }

    /// How many Instances of an Account are on record or about to be.
    fn count(&self, account: &ObjectKey) -> usize {
        let pending = self.admissions.pending.iter().filter(|(uid, pending)| {
            pending.account == *account && !self.is_on_record(uid, account, None)
        });
        self.on_record(account).count() + pending.count()
    }

    /// Ends the admission of an Instance if its record shows the intent.
    pub(super) fn end_admission(&mut self, uid: &str) {
        let pending = self.admissions.pending.get(uid);
        if pending.is_some_and(|Pending { account, server }| {
            self.is_on_record(uid, account, server.as_ref())
        }) {
            self.admissions.pending.remove(uid);
        }
    }
}

#[cfg(test)]
mod tests;
