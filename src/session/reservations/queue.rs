//! The queue before the limits of one Account: first come, first served by the creation time of the objects, so that a restart
//! does not change the order.

use super::kinds::Limit;
use crate::inventory::Subject;
use std::collections::BTreeMap;

/// A position: when the object was created, and its UID.
pub(super) type Stands = (i64, Subject);

/// The queue before the limits of one Account.
#[derive(Default)]
pub(super) struct Queue {
    waiting: BTreeMap<Stands, Limit>,
    /// The number of free reservations as far as known; the first in line were woken for them.
    free: usize,
}

impl Queue {
    /// How many wait before this position.
    pub(super) fn ahead(&self, stands: &Stands) -> usize {
        self.waiting.range(..stands.clone()).count()
    }

    pub(super) fn join(&mut self, stands: Stands, limit: Limit) {
        self.waiting.insert(stands, limit);
    }

    /// Removes an Instance that has a reservation or requests none any more. Returns the Instances that should ask again because
    /// of it.
    pub(super) fn leave(&mut self, subject: &str) -> Vec<Subject> {
        let before = self.waiting.len();
        self.waiting.retain(|(_, other), _| **other != *subject);
        match self.waiting.len() == before {
            true => Vec::new(),
            // It blocked the Instances behind it, even if they wait for the rate and no reservation is free.
            false => self.first(self.free.max(1)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Sets the number of free reservations.
    pub(super) fn know(&mut self, free: usize) {
        self.free = free;
    }

    /// A reservation became free. Returns the Instances that should ask.
    pub(super) fn freed(&mut self) -> Vec<Subject> {
        self.free = self.free.saturating_add(1);
        self.first(self.free)
    }

    /// The waiting Instances and their limits, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Subject, Limit)> {
        let waiting = self.waiting.iter();
        waiting.map(|((_, subject), limit)| (subject, *limit))
    }

    fn first(&self, most: usize) -> Vec<Subject> {
        let first = self.waiting.keys().take(most);
        first.map(|(_, subject)| subject.clone()).collect()
    }
}
