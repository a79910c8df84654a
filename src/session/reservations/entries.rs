//! The state of each Instance, indexed by UID, server, marker and Account.

use super::kinds::Say;
use crate::api::Marker;
use crate::cloud::ServerId;
use crate::inventory::Subject;
use crate::runtime::strings::shared;
use crate::runtime::watch::ObjectKey;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// All entries. Only this type changes them, so that the indexes always match.
#[derive(Default)]
pub(super) struct Entries {
    all: BTreeMap<Subject, Entry>,
    ids: BTreeSet<(ServerId, Subject)>,
    markers: BTreeSet<(Marker, Subject)>,
    accounts: HashMap<ObjectKey, BTreeSet<Subject>>,
}

/// The state of one Instance.
pub(super) struct Entry {
    pub(super) key: ObjectKey,
    /// When the object was created, in seconds of Unix time.
    pub(super) created: i64,
    pub(super) marker: Marker,
    /// Read from the object.
    pub(super) recorded: Option<Recorded>,
    /// Reserved by a reconcile of this process that is about to write it to the object.
    pub(super) taken: Option<Box<Taken>>,
}

pub(super) struct Recorded {
    pub(super) account: Arc<str>,
    pub(super) credential: Option<Arc<str>>,
    pub(super) id: Option<ServerId>,
    pub(super) is_imported: bool,
}

pub(super) struct Taken {
    pub(super) account: Arc<str>,
    /// The server to adopt or import.
    pub(super) id: Option<ServerId>,
    /// The record was sent to the apiserver, and is not known to have been refused.
    pub(super) is_announced: bool,
}

impl Entries {
    pub(super) fn get(&self, uid: &str) -> Option<&Entry> {
        self.all.get(uid)
    }

    /// Inserts an entry, or replaces the one of this Instance.
    pub(super) fn insert(&mut self, subject: Subject, entry: Entry) {
        self.remove(&subject);
        self.index(&subject, &entry);
        self.all.insert(subject, entry);
    }

    fn index(&mut self, subject: &Subject, entry: &Entry) {
        if let Some(id) = entry.id() {
            self.ids.insert((id.clone(), subject.clone()));
        }
        self.markers.insert((entry.marker.clone(), subject.clone()));
        for account in entry.accounts() {
            let there = self.accounts.entry(account).or_default();
            there.insert(subject.clone());
        }
    }

    /// Whether the indexes match the entries.
    #[cfg(test)]
    pub(super) fn are_sound(&self) -> bool {
        let mut fresh = Self::default();
        for (subject, entry) in &self.all {
            fresh.index(subject, entry);
        }
        fresh.ids == self.ids && fresh.markers == self.markers && fresh.accounts == self.accounts
    }

    pub(super) fn remove(&mut self, uid: &str) -> Option<Entry> {
        let (subject, entry) = self.all.remove_entry(uid)?;
        for account in entry.accounts() {
            if let Some(there) = self.accounts.get_mut(&account) {
                there.remove(&subject);
                if there.is_empty() {
                    self.accounts.remove(&account);
                }
            }
        }
        if let Some(id) = entry.id() {
            self.ids.remove(&(id.clone(), subject.clone()));
        }
        self.markers.remove(&(entry.marker.clone(), subject));
        Some(entry)
    }

    /// Changes what a reconcile has reserved for an Instance.
    pub(super) fn take(&mut self, uid: &str, taken: Option<Box<Taken>>) {
        let Some((subject, _)) = self.all.get_key_value(uid) else {
            return;
        };
        let subject = subject.clone();
        if let Some(entry) = self.remove(uid) {
            self.insert(subject, Entry { taken, ..entry });
        }
    }

    /// Notes whether the reserved record was sent.
    pub(super) fn announce(&mut self, uid: &str, is_announced: bool) {
        let entry = self.all.get_mut(uid);
        if let Some(taken) = entry.and_then(|entry| entry.taken.as_mut()) {
            taken.is_announced = is_announced;
        }
    }

    /// The Instances with a reservation in an Account, by UID.
    pub(super) fn of_account(
        &self,
        account: &ObjectKey,
    ) -> impl Iterator<Item = (&Subject, &Entry)> {
        let there = self.accounts.get(account);
        self.look_up(there.into_iter().flatten())
    }

    /// The number of reservations in an Account.
    pub(super) fn count(&self, account: &ObjectKey) -> usize {
        self.accounts.get(account).map_or(0, BTreeSet::len)
    }

    /// The Instances that have this server or are about to take it, by UID.
    pub(super) fn of_id(&self, id: &ServerId) -> impl Iterator<Item = (&Subject, &Entry)> {
        let from = self.ids.range((id.clone(), shared(""))..);
        let these = from.take_while(move |(other, _)| other == id);
        self.look_up(these.map(|(_, subject)| subject))
    }

    /// The Instances whose servers bear this marker, by UID.
    pub(super) fn of_marker(&self, marker: &Marker) -> impl Iterator<Item = (&Subject, &Entry)> {
        let from = self.markers.range((marker.clone(), shared(""))..);
        let these = from.take_while(move |(other, _)| other == marker);
        self.look_up(these.map(|(_, subject)| subject))
    }

    fn look_up<'a>(
        &'a self,
        subjects: impl Iterator<Item = &'a Subject>,
    ) -> impl Iterator<Item = (&'a Subject, &'a Entry)> {
        subjects.filter_map(|subject| self.all.get_key_value(subject))
    }
}

impl Taken {
    /// Whether `recorded` is the record that this reservation was for.
    pub(super) fn is_in(&self, recorded: Option<&Recorded>) -> bool {
        recorded.is_some_and(|recorded| {
            recorded.account == self.account && (self.id.is_none() || recorded.id == self.id)
        })
    }
}

impl Entry {
    pub(super) fn is_in(&self, account: &ObjectKey) -> bool {
        let recorded = self.recorded.as_ref().map(|recorded| &recorded.account);
        let taken = self.taken.as_ref().map(|taken| &taken.account);
        self.key.namespace == account.namespace
            && recorded
                .into_iter()
                .chain(taken)
                .any(|name| **name == *account.name)
    }

    /// The Instance's claim to this server, if it has one.
    pub(super) fn says_of(&self, id: &ServerId) -> Option<Say<'_>> {
        self.id().filter(|known| *known == id)?;
        let recorded = self.recorded.as_ref();
        let recorded = recorded.filter(|recorded| recorded.id.is_some());
        let (account, credential) = match (recorded, &self.taken) {
            (Some(recorded), _) => (&recorded.account, recorded.credential.as_deref()),
            (None, Some(taken)) => (&taken.account, None),
            (None, None) => return None,
        };
        let account = ObjectKey::new(&self.key.namespace, account);
        Some(Say {
            account,
            credential,
        })
    }

    pub(super) fn id(&self) -> Option<&ServerId> {
        let recorded = self
            .recorded
            .as_ref()
            .and_then(|recorded| recorded.id.as_ref());
        recorded.or_else(|| self.taken.as_ref()?.id.as_ref())
    }

    pub(super) fn accounts(&self) -> Vec<ObjectKey> {
        let recorded = self.recorded.as_ref().map(|recorded| &recorded.account);
        let taken = self.taken.as_ref().map(|taken| &taken.account);
        let names: BTreeSet<_> = recorded.into_iter().chain(taken).collect();
        let key = |name: &Arc<str>| ObjectKey::new(&self.key.namespace, name);
        names.into_iter().map(key).collect()
    }
}
