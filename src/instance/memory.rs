//! The memory of this process about an Instance. All of it may be lost: a restart costs listings, never a server.

pub mod all;
mod bought;
pub mod kinds;
pub mod look;
pub mod parts;
pub mod version;

use crate::api::conditions::Reason;
use crate::api::{HistoryEntry, Operation, PurchaseRecord, Verb};
use crate::cloud::{Error, ServerId, TaskId};
use crate::instance::facts::Facts;
use crate::instance::memory::kinds::{Attempt, CallState, Doubts, Gone, RecordText};
use crate::instance::memory::look::Look;
use crate::instance::memory::parts::{Calls, Observations, Origin, Pacing, Secrets, StatusWrites};
use crate::instance::memory::version::Lag;
use crate::instance::times;
use crate::runtime::strings::shared;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;
use version::Newest;

/// The memory of this process about one Instance.
#[derive(Clone, Debug)]
pub struct Memory {
    /// How the object and its purchases came about.
    pub origin: Origin,
    /// Calls to the service, and their outcomes.
    pub calls: Calls,
    pub observations: Observations,
    /// When the object is due.
    pub pace: Pacing,
    pub secrets: Secrets,
    /// Writes to the object.
    pub status_writes: StatusWrites,
    /// The doubts (see [`Memories::doubt_all`](all::Memories::doubt_all)) that this memory has applied.
    epoch: u64,
}

impl Memory {
    fn new(born_here: bool, now: Instant) -> Self {
        Self {
            origin: Origin::new(born_here, now),
            calls: Calls::default(),
            observations: Observations::default(),
            pace: Pacing::default(),
            secrets: Secrets::default(),
            status_writes: StatusWrites::default(),
            epoch: 0,
        }
    }

    /// Copies the result of an observation back into this memory, except for [`StatusWrites`], which other tasks changed in the
    /// meantime.
    pub fn store(&mut self, copy: &Self) {
        let mut status_writes = std::mem::take(&mut self.status_writes);
        if self.epoch != copy.epoch {
            // The known versions are those of another state of the cluster.
            status_writes.newest = copy.status_writes.newest;
        }
        *self = Self {
            status_writes,
            ..copy.clone()
        };
    }

    /// Our own write was answered with this resourceVersion.
    pub fn wrote(&mut self, version: Option<&str>, now: Instant) {
        if let Some(version) = version.and_then(|version| version.parse().ok()) {
            self.shown(version, now);
        }
    }

    /// A watch shows this version of the object.
    pub fn shown(&mut self, version: u64, now: Instant) {
        self.status_writes.newest = Some(Newest::with(self.status_writes.newest, version, now));
    }

    /// How to proceed with this resourceVersion if a newer one is known.
    pub fn lag(&mut self, version: &str, now: Instant) -> Option<Lag> {
        let newest = self.status_writes.newest.as_mut();
        newest?.lag(version.parse().ok()?, now)
    }

    pub fn newest(&self) -> Option<u64> {
        self.status_writes.newest.map(Newest::version)
    }

    /// Whether a newer version than this is known.
    pub fn is_newer_than(&self, version: &str) -> bool {
        let newest = self.newest().zip(version.parse().ok());
        newest.is_some_and(|(newest, version): (u64, u64)| newest > version)
    }

    /// Applies the doubts about the cluster's state that arose since this memory was made.
    pub fn take_in(&mut self, doubts: Doubts) {
        if self.epoch == doubts.epoch {
            return;
        }
        self.epoch = doubts.epoch;
        self.status_writes.newest = None;
        self.origin.born_here = false;
        self.origin.ever_intended = true;
        self.origin.recordless_since = self
            .origin
            .recordless_since
            .map(|since| doubts.since.map_or(since, |at| at.max(since)));
        // The spec may be older than this operation. If the operation was followed to its end, it would count as applied, and the
        // old spec as a request to undo it.
        self.calls.followed = None;
    }

    /// Status shows the end of the recorded purchase. From now on other operations may have followed it, even if a later status
    /// no longer shows that end.
    fn purchase_ended(&mut self, record: &PurchaseRecord) {
        if let Some(attempt) = self.calls.attempts.get_mut(&record.attempt) {
            attempt.is_newest = false;
        }
    }

    /// Adopts the operation that status shows. If status shows none, and no attempt number as high as that of the operation that
    /// this process follows, then status was lost and the process continues to follow the operation.
    pub fn meet_operation(&mut self, facts: &Facts, now: Instant) {
        if let Some(record) = facts
            .purchase()
            .filter(|it| facts.status.says_create_is_done(it))
        {
            self.purchase_ended(record);
        }
        let (Some(told), Some(record)) = (facts.operation(), facts.purchase()) else {
            let record = facts.purchase().map_or(0, |record| record.attempt);
            let newest = facts.status.attempt.max(i64::from(record));
            self.calls
                .followed
                .take_if(|followed| followed.attempt <= newest);
            return;
        };
        let stranger = Attempt {
            nonce: told.nonce.clone(),
            account: shared(&record.account),
            verb: told.verb,
            is_own: false,
            is_newest: false,
            tries: 0,
            since: now,
            doubt: None,
            call_state: CallState::Unknown,
        };
        let number = u32::try_from(told.attempt).unwrap_or_default();
        let attempt = self.calls.attempts.entry(number);
        let attempt = attempt.or_insert_with(|| Box::new(stranger.clone()));
        if attempt.nonce != told.nonce {
            **attempt = stranger;
        }
        let knows_it = matches!(attempt.call_state, CallState::Accepted { .. });
        if let (true, false, Some(id)) = (told.accepted, knows_it, facts.id()) {
            attempt.call_state = CallState::Accepted {
                id,
                task: told.task_id.as_deref().map(TaskId::from),
            };
        }
        self.calls
            .attempts
            .retain(|other, attempt| attempt.verb == Verb::Create || *other >= number);
        self.calls.followed = Some(Box::new(told.clone()));
    }

    /// Whether this memory is up to date with these doubts.
    pub fn is_of(&self, doubts: Doubts) -> bool {
        self.epoch == doubts.epoch
    }

    /// Applies the record that is on the object now, and the doubts about the cluster's state.
    pub fn meet(&mut self, record: Option<&PurchaseRecord>, doubts: Doubts, now: Instant) {
        self.take_in(doubts);
        let Some(record) = record else {
            self.origin.recordless_since.get_or_insert(now);
            return;
        };
        self.origin.recordless_since = None;
        self.origin.recreated = self.origin.recreated.max(record.recreated);
        self.origin.ever_intended = true;
        // Former attempts no longer matter: the settling time counts from the newest one, which is later.
        self.calls
            .attempts
            .retain(|number, _| *number >= record.attempt);
        self.origin
            .purchase
            .take_if(|purchase| purchase.attempt < record.attempt);
        let recorded = |id: &ServerId| record.id.as_deref() == Some(id.as_str());
        self.calls
            .gone
            .retain(|id, (_, since)| recorded(id) || now < *since + times::GONE_SERVER_REMEMBERED);
        self.calls
            .releases
            .retain(|id, call| recorded(id) || now < call.at + times::GONE_SERVER_REMEMBERED);
        // The record shows a refusal that a former process received.
        let call_state = record
            .refused
            .as_ref()
            .map_or(CallState::Unknown, |refusal| CallState::Refused {
                message: refusal.message.clone(),
                reason: Reason::of(&refusal.reason).unwrap_or(Reason::CreateRefused),
            });
        let stranger = Attempt {
            nonce: record.nonce.clone(),
            account: shared(&record.account),
            verb: Verb::Create,
            is_own: false,
            is_newest: false,
            tries: 0,
            since: now,
            doubt: None,
            call_state,
        };
        let attempt = self
            .calls
            .attempts
            .entry(record.attempt)
            .or_insert_with(|| Box::new(stranger.clone()));
        if attempt.nonce != record.nonce {
            **attempt = stranger;
        } else if !attempt.is_own && record.refused.is_some() {
            attempt.call_state = stranger.call_state;
        }
    }

    /// The attempt that a record refers to.
    pub fn attempt(&self, record: &PurchaseRecord) -> Option<&Attempt> {
        self.known(record.attempt, &record.nonce)
    }

    /// The call of an operation, as far as this process knows it.
    pub fn call(&self, operation: &Operation) -> Option<&Attempt> {
        let number = u32::try_from(operation.attempt).ok()?;
        self.known(number, &operation.nonce)
    }

    fn known(&self, number: u32, nonce: &str) -> Option<&Attempt> {
        let attempt = self.calls.attempts.get(&number).map(Box::as_ref);
        attempt.filter(|attempt| attempt.nonce == nonce)
    }

    /// A call is about to be made, so earlier observations of the server no longer apply.
    pub fn calls(&mut self, verb: Verb, digest: Option<[u8; 16]>) {
        self.calls.pending_seen = false;
        self.calls.auxiliary = None;
        self.observations.look = Look::default();
        self.observations.poll = None;
        if verb.bears_login() {
            self.calls.password.sent = digest;
        }
    }

    /// The outcome of the call of an attempt, as far as it is known now.
    pub fn call_is(&mut self, number: u32, call_state: CallState) {
        if let Some(attempt) = self.calls.attempts.get_mut(&number) {
            attempt.tries += u32::from(
                call_state == CallState::Unknown && attempt.call_state != CallState::Unknown,
            );
            attempt.call_state = call_state;
            attempt.since = Instant::now();
        }
    }

    /// Why the outcome of that call is unknown.
    pub fn call_in_doubt(&mut self, number: u32, error: &Error) {
        if let Some(attempt) = self.calls.attempts.get_mut(&number) {
            attempt.doubt = Some(error.to_string().into());
        }
    }

    /// This record is on the object.
    pub fn recorded(&mut self, record: &PurchaseRecord) {
        self.origin.ever_intended = true;
        self.origin.recordless_since = None;
        self.origin.recreated = self.origin.recreated.max(record.recreated);
    }

    /// The attempt of a record that this process wrote, or may have written.
    pub fn announced(&mut self, record: &PurchaseRecord, attempt: Attempt) {
        let known = self.calls.attempts.get(&record.attempt);
        if known.is_some_and(|attempt| attempt.nonce == record.nonce) {
            return;
        }
        if attempt.is_own {
            self.origin.purchase = Some(Box::new(RecordText::of(record)));
        }
        let attempts = &mut self.calls.attempts;
        attempts.insert(record.attempt, Box::new(attempt));
    }

    /// An operation that this process announced, or may have announced.
    pub fn announces(&mut self, operation: &Operation, account: &str) {
        let number = u32::try_from(operation.attempt).unwrap_or_default();
        let attempt = Attempt {
            doubt: None,
            nonce: operation.nonce.clone(),
            account: shared(account),
            verb: operation.verb,
            is_own: true,
            is_newest: true,
            tries: 0,
            since: Instant::now(),
            call_state: CallState::NotSent,
        };
        self.calls.attempts.insert(number, Box::new(attempt));
    }

    /// The server may have the password of the newest call by now.
    pub fn may_have_password(&mut self) {
        self.calls.password.current = None;
    }

    /// Our operation ended, and status shows it. From now on everything in the listing counts as new, even if the listing showed
    /// the same before. `brought_login`: the operation set the password that its call contained.
    pub fn operation_ended(&mut self, ended: &HistoryEntry, brought_login: bool, now: Instant) {
        self.observations.look.row = None;
        self.observations.poll = None;
        self.calls.followed = None;
        let number = u32::try_from(ended.attempt).unwrap_or_default();
        match (ended.verb, self.calls.attempts.get_mut(&number)) {
            (Verb::Create, Some(purchase)) => purchase.is_newest = false,
            (Verb::Create, None) => {}
            _ => self.calls.operated = Some(now),
        }
        if ended.verb.bears_login() {
            let sent = self.calls.password.sent.take();
            if ended.succeeded {
                self.calls.password.current = sent.filter(|_| brought_login);
            }
        }
    }

    /// Discards the observations of a server, which do not apply to another one.
    pub fn forget_server(&mut self) {
        self.observations.look = Look::default();
        self.observations.shown_by = None;
        self.observations.poll = None;
        self.calls.password.current = None;
    }

    /// Notes the token of `spec.reconcile`, unless it is the one that was carried out last.
    pub fn reconcile_requested(&mut self, token: Option<&str>, done: Option<&str>, now: Instant) {
        let token = token.filter(|token| done != Some(*token));
        let known = self
            .observations
            .reconcile
            .as_deref()
            .map(|(known, _)| known.as_str());
        if token != known {
            self.observations.reconcile = token.map(|token| Box::new((token.to_owned(), now)));
        }
    }

    /// The latest instant from which a settling time counts.
    pub fn newest_attempt(&self) -> Option<Instant> {
        self.calls
            .attempts
            .values()
            .map(|attempt| attempt.since)
            .max()
    }

    /// A server is known to be gone.
    pub fn is_gone(&mut self, id: ServerId, how: Gone) {
        // Only the first finding is progress.
        if self.calls.gone.insert(id, (how, Instant::now())).is_none() {
            self.pace.progressed();
        }
    }

    /// When the service accepted an operation, if this process made its call.
    pub fn began(&self, operation: &Operation) -> Option<Instant> {
        let attempt = self.call(operation).filter(|attempt| attempt.tries > 0)?;
        matches!(attempt.call_state, CallState::Accepted { .. }).then_some(attempt.since)
    }
}

/// Locks a memory. A reconcile that panicked while it held the lock left at worst an outdated hint, so the poison is ignored.
pub fn open(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
