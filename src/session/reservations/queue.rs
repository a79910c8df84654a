//! Who waits for a place under the limits of one Account, and in which order: first come, first served, by when the objects were
//! created, so that a restart changes nothing of it.

use super::kinds::Limit;
use crate::inventory::Subject;
use std::collections::BTreeMap;

/// Where one stands: when its object was created, and its UID.
pub(super) type Stands = (i64, Subject);

/// The line before the limits of one Account.
#[derive(Default)]
pub(super) struct Queue {
    waiting: BTreeMap<Stands, Limit>,
    /// Places that are free as far as is known, and that those who stand first were woken for.
    free: usize,
}

impl Queue {
    /// So many stand before this one.
    pub(super) fn ahead(&self, stands: &Stands) -> usize {
        self.waiting.range(..stands.clone()).count()
    }

    pub(super) fn join(&mut self, stands: Stands, limit: Limit) {
        self.waiting.insert(stands, limit);
    }

    /// One that has a place, or asks for none any more. Gives who is to ask again because of it.
    pub(super) fn leave(&mut self, subject: &str) -> Vec<Subject> {
        let before = self.waiting.len();
        self.waiting.retain(|(_, other), _| **other != *subject);
        match self.waiting.len() == before {
            true => Vec::new(),
            // Those who stood behind it stood still because of it, also where it is the rate that they wait for.
            false => self.first(self.free.max(1)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// It is known how many places are free.
    pub(super) fn know(&mut self, free: usize) {
        self.free = free;
    }

    /// A place became free. Gives who is to ask.
    pub(super) fn freed(&mut self) -> Vec<Subject> {
        self.free = self.free.saturating_add(1);
        self.first(self.free)
    }

    /// Who waits for what, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Subject, Limit)> {
        let waiting = self.waiting.iter();
        waiting.map(|((_, subject), limit)| (subject, *limit))
    }

    fn first(&self, most: usize) -> Vec<Subject> {
        let first = self.waiting.keys().take(most);
        first.map(|(_, subject)| subject.clone()).collect()
    }
}
