//! What the watches of a process tell it.

use super::{Known, Running, Who};
use crate::apiserver::{ACCOUNTS, Change, INSTANCES, SECRETS, place};
use cloud_server_operator::api::{Account, Instance};
use cloud_server_operator::inventory::Subject;
use cloud_server_operator::runtime::queue::Priority;
use cloud_server_operator::runtime::watch::{Change as Sort, Notice};
use kube::api::ObjectMeta;
use serde_json::Value;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

impl Running {
    /// A watch, or the listing that it begins with, tells of an object.
    pub(super) fn hear(&mut self, change: Change) {
        let (kind, name) = change.key.clone();
        let sort = match (&change.object, change.is_listed) {
            (None, _) => Sort::Gone,
            (Some(_), true) => Sort::Listed,
            (Some(_), false) => Sort::Applied,
        };
        let (namespace, called) = place(&name);
        let mut meta = ObjectMeta {
            name: Some(called.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        };
        if let Some(object) = &change.object {
            meta = serde_json::from_value(object["metadata"].clone()).unwrap();
        }
        meta.uid = Some(change.uid);
        let notice = Notice::of(&meta, sort);
        if !self.link.shard().owns(&notice.key.namespace) {
            self.hear_of_elsewhere(kind, change.object, &notice);
            return;
        }
        match kind {
            INSTANCES => self.hear_of_instance(name, change.object, &notice),
            ACCOUNTS => self.hear_of_account(name, change.object, &notice),
            SECRETS if self.secrets.note(&notice) => {
                let change = Some(Priority::Change);
                let near = |other: &&String| place(other).0 == place(&name).0;
                for name in self.known_accounts.keys().filter(near) {
                    self.due.now(Who::Account(name.clone()), change);
                }
                for name in self.known_instances.keys().filter(near) {
                    self.due.now(Who::Instance(name.clone()), change);
                }
            }
            _ => {}
        }
    }

    fn hear_of_instance(&mut self, name: String, object: Option<Value>, notice: &Notice) {
        if let Ok(version) = notice.version.parse() {
            let highest = &self.instances.highest_version;
            highest.fetch_max(version, Ordering::SeqCst);
        }
        let object = object.and_then(|object| serde_json::from_value::<Instance>(object).ok());
        match object {
            None => {
                self.forget(&notice.uid);
                self.known_instances.remove(&name);
                self.known().remove(&name);
            }
            Some(object) => {
                let version = notice.version.parse().unwrap_or_default();
                let is_born_here = notice.change == Sort::Applied
                    && version > self.born_after.load(Ordering::SeqCst);
                let memories = &self.instances.memories;
                memories.saw(notice.uid.clone(), &notice.key, is_born_here);
                memories.shown(&notice.uid, version);
                let id = object.status.as_ref().and_then(|s| s.id.as_deref());
                let account = Some(object.spec.account_ref.name.as_str());
                self.instances
                    .sessions
                    .reservations()
                    .note(&object.metadata, account, id);
                // That a former one of its name is gone is told after that.
                let former = self.known_instances.get(&name).map(|known| {
                    use kube::ResourceExt;
                    known.uid().unwrap_or_default()
                });
                if let Some(former) = former.filter(|former| **former != *notice.uid) {
                    self.forget(&former);
                }
                let object = Arc::new(object);
                self.known().insert(name.clone(), object.clone());
                self.known_instances.insert(name.clone(), object);
                self.due.now(Who::Instance(name), None);
            }
        }
    }

    /// What another process acts on: which server it has, and where the service of its Account is.
    fn hear_of_elsewhere(&self, kind: &str, object: Option<Value>, notice: &Notice) {
        let sessions = &self.instances.sessions;
        match (kind, object) {
            (INSTANCES, None) => sessions.reservations().gone_elsewhere(&notice.uid),
            (INSTANCES, Some(object)) => {
                if let Ok(instance) = serde_json::from_value::<Instance>(object) {
                    let id = instance.status.as_ref().and_then(|s| s.id.as_deref());
                    let account = Some(instance.spec.account_ref.name.as_str());
                    let reservations = sessions.reservations();
                    reservations.note(&instance.metadata, account, id);
                }
            }
            (ACCOUNTS, object) => {
                let account =
                    object.and_then(|object| serde_json::from_value::<Account>(object).ok());
                let endpoint = account
                    .as_ref()
                    .map(|account| account.spec.endpoint.as_str());
                sessions.see_elsewhere(&notice.key, endpoint);
            }
            _ => {}
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, uid: &str) {
        self.instances.memories.forget(uid);
        self.instances.sessions.leave(&Subject::from(uid));
        self.instances.sessions.reservations().gone(uid);
    }

    fn hear_of_account(&mut self, name: String, object: Option<Value>, notice: &Notice) {
        let object = object.and_then(|object| serde_json::from_value::<Account>(object).ok());
        if let Some(object) = object {
            self.accounts.sessions.announce(&notice.key);
            self.known_accounts.insert(name.clone(), Arc::new(object));
            self.due.now(Who::Account(name), None);
        }
    }
}
