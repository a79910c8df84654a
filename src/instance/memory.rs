//! The memory of this process about an Instance. All of it may be lost: a restart costs listings, never a server.

pub mod all;
pub mod call;
pub mod kinds;
mod ledger;
pub mod look;
pub mod parts;
pub mod version;

use crate::api::{HistoryEntry, PurchaseRecord, Verb};
use crate::instance::memory::call::NewestCall;
use crate::instance::memory::look::Look;
use crate::instance::memory::parts::{
    Birth, Calls, Observations, Origin, Pacing, Secrets, StatusWrites,
};
use crate::instance::memory::version::Lag;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;
use version::Newest;

/// The memory of this process about one Instance.
#[derive(Clone, Debug)]
pub struct Memory {
    /// How the object and its purchases came about.
    pub origin: Origin,
    /// The newest attempt.
    pub call: Option<Box<NewestCall>>,
    /// Facts about other calls to the service.
    pub calls: Calls,
    pub observations: Observations,
    /// When the object is due.
    pub pace: Pacing,
    pub secrets: Secrets,
    /// Writes to the object.
    pub status_writes: StatusWrites,
    /// The epoch of [`Memories`](all::Memories) that this memory has applied.
    epoch: u64,
}

impl Memory {
    fn new(created_in_this_term: bool, now: Instant) -> Self {
        Self {
            origin: Origin::new(created_in_this_term, now),
            call: None,
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

    /// Applies that the cluster's state went back in time since this memory was made: nothing that seems new or unbought is certain.
    pub fn take_in(&mut self, epoch: u64, now: Instant) {
        if self.is_of(epoch) {
            return;
        }
        self.epoch = epoch;
        self.status_writes.newest = None;
        self.origin.birth = Birth::Intended;
        self.origin.recordless_since = self.origin.recordless_since.map(|_| now);
        // The spec may be older than this operation. If the operation was followed to its end, it would count as applied, and the
        // old spec as a request to undo it.
        self.follow_no_more();
    }

    /// Whether this memory has applied everything up to this epoch of [`Memories`](all::Memories).
    pub fn is_of(&self, epoch: u64) -> bool {
        self.epoch == epoch
    }

    /// Applies the record that is on the object now, and that the cluster's state went back.
    pub fn meet(&mut self, record: Option<&PurchaseRecord>, epoch: u64, now: Instant) {
        self.take_in(epoch, now);
        let Some(record) = record else {
            self.origin.recordless_since.get_or_insert(now);
            return;
        };
        self.recorded(record);
        self.forget_releases(record, now);
        self.meet_record(record, now);
    }

    /// This record is on the object.
    pub fn recorded(&mut self, record: &PurchaseRecord) {
        self.origin.birth = Birth::Intended;
        self.origin.recordless_since = None;
        self.origin.recreated = self.origin.recreated.max(record.recreated);
    }

    /// Our operation ended, and status shows it. From now on everything in the listing counts as new, even if the listing showed
    /// the same before. `brought_login`: the operation set the password that its call contained.
    pub fn operation_ended(&mut self, ended: &HistoryEntry, brought_login: bool, now: Instant) {
        self.observations.look.row = None;
        self.observations.poll = None;
        self.follow_no_more();
        match (ended.verb, &mut self.call) {
            (Verb::Create, Some(call)) => call.is_newest = false,
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
}

/// Locks a memory. A reconcile that panicked while it held the lock left at worst an outdated hint, so the poison is ignored.
pub fn open(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
