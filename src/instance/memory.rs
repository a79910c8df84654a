//! The memory of this process about an Instance. All of it may be lost: a restart costs listings, never a server.

pub mod all;
pub mod call;
mod ledger;
pub mod look;
pub mod parts;

use crate::api::{HistoryEntry, PurchaseRecord, Verb};
use crate::cloud::ServerId;
use crate::credentials::KnownSecrets;
use crate::instance::memory::call::{NewestCall, Release};
use crate::instance::memory::look::Look;
use crate::instance::memory::parts::{Birth, Observations, Origin, Pacing, StatusWrites};
use litemap::LiteMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// The memory of this process about one Instance.
#[derive(Clone, Debug)]
pub struct Memory {
    /// How the object and its purchases came about.
    pub origin: Origin,
    /// The newest attempt.
    pub call: Option<Box<NewestCall>>,
    /// The servers that this process released or knows to be gone. Owned by `attempt`.
    pub releases: LiteMap<ServerId, Release>,
    pub observations: Observations,
    /// When the object is due.
    pub pace: Pacing,
    /// The Secrets of the object, as last read or written.
    pub secrets: KnownSecrets,
    /// Writes to the object.
    pub status_writes: StatusWrites,
}

impl Memory {
    fn new(created_in_this_term: bool, now: Instant) -> Arc<Mutex<Self>> {
        let birth = match created_in_this_term {
            true => Birth::InThisTerm,
            false => Birth::Earlier,
        };
        Arc::new(Mutex::new(Self {
            origin: Origin {
                birth,
                since: now,
                recreated: 0,
                other_cluster_reported_since: None,
            },
            call: None,
            releases: LiteMap::new(),
            observations: Observations::default(),
            pace: Pacing::default(),
            secrets: KnownSecrets::default(),
            status_writes: StatusWrites::default(),
        }))
    }

    /// Copies the result of an observation back into this memory, except for [`StatusWrites`], which other tasks may have changed
    /// in the meantime.
    pub fn store(&mut self, copy: &Self) {
        *self = Self {
            status_writes: std::mem::take(&mut self.status_writes),
            ..copy.clone()
        };
    }

    /// Our own write was answered with this resourceVersion.
    pub fn note_written_version(&mut self, version: Option<&str>, now: Instant) {
        if let Some(version) = version.and_then(|version| version.parse().ok()) {
            self.note_watched_version(version, now);
        }
    }

    /// A watch shows this version of the object.
    pub fn note_watched_version(&mut self, version: u64, now: Instant) {
        let newest = &mut self.status_writes.newest_version;
        if newest.is_none_or(|(newest, _)| newest < version) {
            *newest = Some((version, now));
        }
    }

    /// Whether a newer version than this is known.
    pub fn is_newer_than(&self, version: &str) -> bool {
        let newest = self.status_writes.newest_version.zip(version.parse().ok());
        newest.is_some_and(|((newest, _), version): (_, u64)| newest > version)
    }

    /// The cluster's state went back in time: nothing that seems new or unbought is certain.
    pub fn doubt(&mut self, now: Instant) {
        self.status_writes.newest_version = None;
        self.origin.birth = Birth::Intended;
        self.origin.since = now;
        // The restored spec may be older than the open operation. Once that operation counted as applied, the old spec would be
        // taken for a request to undo it.
        self.stop_following();
    }

    /// This record is on the object.
    pub fn note_record(&mut self, record: &PurchaseRecord) {
        self.origin.birth = Birth::Recorded;
        self.origin.recreated = self.origin.recreated.max(record.recreated);
    }

    /// Applies the record that is on the object now.
    pub fn apply(&mut self, record: Option<&PurchaseRecord>, now: Instant) {
        if let Some(record) = record {
            self.note_record(record);
            self.forget_releases(record, now);
            self.apply_record(record, now);
        } else if self.origin.birth == Birth::Recorded {
            self.origin.birth = Birth::Intended;
            self.origin.since = now;
        }
    }

    /// Our operation ended, and status shows it. From now on everything in the listing counts as new, even if the listing showed
    /// the same before.
    pub fn operation_ended(&mut self, ended: &HistoryEntry, now: Instant) {
        self.observations.look.row = None;
        self.observations.poll = None;
        self.stop_following();
        if let Some(call) = &mut self.call {
            match ended.verb {
                Verb::Create => call.is_newest = false,
                _ => call.since = now,
            }
        }
    }

    /// Discards the observations of a server, which do not apply to another one.
    pub fn forget_server(&mut self) {
        self.observations.look = Look::default();
        self.observations.shown_by = None;
        self.observations.poll = None;
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
pub fn lock(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
