//! Handles the events of all watches: updates the indexes of the process and wakes the objects that an event concerns. The program
//! and the closed loop of the tests both use it, each with its own stores and queues.
//!
//! A watch calls `*_shown` before it changes the store, and the method named after the kind once the store is up to date. Accounts
//! and Secrets are those of the shard; Instances are those of all shards.

use super::changes::Changes;
use super::objects::Objects;
use super::referrers::Referrers;
use crate::api::{Account, Instance};
use crate::runtime::Shard;
use crate::runtime::queue::Priority;
use crate::runtime::watch::{Change, Notice, ObjectKey};
use crate::{account, instance};
use kube::core::DeserializeGuard;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::Instant;

/// The handlers of one process; cheap to clone.
#[derive(Clone)]
pub struct Feed(Arc<Inner>);

struct Inner {
    instances: instance::context::Context,
    accounts: account::AccountContext,
    objects: Arc<dyn Objects>,
    shard: Shard,
    references: References,
    instance_changes: Changes,
    account_changes: Changes,
    /// An object whose first version is newer than this was created in the term of this process.
    born_after: AtomicU64,
}

/// Which objects refer to an Account or a Secret; cheap to clone.
#[derive(Clone, Default)]
pub(super) struct References {
    pub(super) instances_by_account: Referrers,
    instances_by_secret: Referrers,
    /// Accounts name Secrets for the API token and for TLS.
    accounts_by_secret: Referrers,
}

impl Feed {
    pub(super) fn new(
        instances: instance::context::Context,
        accounts: account::AccountContext,
        objects: Arc<dyn Objects>,
        shard: Shard,
        references: References,
    ) -> Self {
        // A standby has no term yet. A process that needs no Lease has its term from the start.
        let born_after = match instances.term.holds() {
            true => 0,
            false => u64::MAX,
        };
        Self(Arc::new(Inner {
            instances,
            accounts,
            objects,
            shard,
            references,
            instance_changes: Changes::default(),
            account_changes: Changes::default(),
            born_after: AtomicU64::new(born_after),
        }))
    }

    /// The namespaces on which this process acts.
    pub fn shard(&self) -> Shard {
        self.0.shard
    }

    /// The process becomes active: nothing that it saw as a standby counts as created in its term, and all waits begin anew.
    pub fn begin_term(&self) {
        self.0.instances.memories.begin_term();
        self.0.instances.sessions.begin_term();
    }

    /// Objects whose first version is newer than this one count as created in the term of this process.
    pub fn set_born_after(&self, version: u64) {
        self.0.born_after.store(version, Ordering::SeqCst);
    }

    /// Whether an Instance refers to this Account.
    pub fn is_referred(&self, account: &ObjectKey) -> bool {
        self.0.references.instances_by_account.is_referred(account)
    }

    /// A watch shows an Instance. Returns whether the store is to keep it: this process acts on it.
    pub fn instance_shown(
        &self,
        key: &ObjectKey,
        uid: &Arc<str>,
        object: &DeserializeGuard<Instance>,
    ) -> bool {
        // Instances of other shards count too: no server may belong to two Instances.
        self.0.instances.sessions.owners().shown(key, uid, object);
        let is_ours = self.0.shard.owns(&key.namespace);
        // An object that does not decode keeps the references of the last version that did.
        if let (true, Ok(instance)) = (is_ours, &object.0) {
            let references = &self.0.references;
            let accounts = instance::facts::accounts(instance);
            references.instances_by_account.note(key, accounts);
            references.instances_by_secret.note(key, instance.secrets());
        }
        is_ours
    }

    /// A watch shows an Account.
    pub fn account_shown(&self, key: &ObjectKey, object: &DeserializeGuard<Account>) {
        let secrets = object.0.as_ref().ok().map(account::secret_names);
        let secrets = secrets.into_iter().flatten();
        self.0.references.accounts_by_secret.note(key, secrets);
    }

    /// An Instance appeared, changed or went.
    pub fn instance(&self, notice: &Notice) {
        let context = &self.0.instances;
        let version = notice.version.parse().unwrap_or_default();
        context.highest_version.fetch_max(version, Ordering::SeqCst);
        let is_ours = self.0.shard.owns(&notice.key.namespace);
        match (notice.change, is_ours) {
            (Change::Gone, true) => self.instance_gone(notice),
            (Change::Gone, false) => drop(context.sessions.gone(&notice.uid)),
            (Change::Listed | Change::Applied, true) => self.instance_changed(notice, version),
            (Change::Listed | Change::Applied, false) => {}
        }
    }

    fn instance_changed(&self, notice: &Notice, version: u64) {
        // The first event of an object is its creation, unless it is part of an initial list.
        let is_newborn =
            notice.change == Change::Applied && version > self.0.born_after.load(Ordering::SeqCst);
        let memories = &self.0.instances.memories;
        let memory = memories.met(notice.uid.clone(), &notice.key, is_newborn);
        instance::memory::lock(&memory).note_watched_version(version, Instant::now());
        let priority = self.0.instance_changes.priority(notice);
        self.0.objects.wake_instance(&notice.key, priority);
    }

    fn instance_gone(&self, notice: &Notice) {
        self.0.instance_changes.priority(notice);
        let owner = self.0.instances.sessions.gone(&notice.uid);
        instance::orphan::on_instance_deleted(&self.0.instances, &notice.uid, owner);
        // The store may hold a newer object of this name by now, and its references are recorded already.
        if !self.0.objects.has_instance(&notice.key) {
            self.0.references.instances_by_account.note(&notice.key, []);
            self.0.references.instances_by_secret.note(&notice.key, []);
        }
    }

    /// An Account appeared, changed or went.
    pub fn account(&self, notice: &Notice) {
        let context = &self.0.accounts;
        let priority = self.0.account_changes.priority(notice);
        if notice.change != Change::Gone {
            context.sessions.announce(&notice.key);
            self.0.objects.wake_account(&notice.key, priority);
            return;
        }
        if !self.0.objects.has_account(&notice.key) {
            self.0.references.accounts_by_secret.note(&notice.key, []);
        }
        context.sessions.depart(&notice.key);
        context.memories.forget(&notice.key);
        (context.wake_instances)(&notice.key);
    }

    /// A Secret appeared, changed or went: the objects that refer to it are woken, as urgently as after an edit.
    pub fn secret(&self, notice: &Notice) {
        if !self.0.instances.secrets.note(notice) {
            return; // the version is known already, or no such Secret was known
        }
        let (references, change) = (&self.0.references, Some(Priority::Change));
        for account in references.accounts_by_secret.of(&notice.key) {
            self.0.objects.wake_account(&account, change);
        }
        for instance in references.instances_by_secret.of(&notice.key) {
            self.0.objects.wake_instance(&instance, change);
        }
    }
}

#[cfg(test)]
mod tests;
