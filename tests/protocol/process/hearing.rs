//! What the watches of a process tell it.

use super::{Running, Who};
use crate::apiserver::{ACCOUNTS, Change, INSTANCES, NAMESPACE, SECRETS};
use cloud_server_operator::api::{Account, Instance};
use cloud_server_operator::inventory::Subject;
use cloud_server_operator::runtime::watch::{Change as Sort, Notice, ObjectKey};
use serde_json::Value;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use tokio::time::Instant;

impl Running {
    /// A watch, or the listing that it begins with, tells of an object.
    pub(super) fn hear(&mut self, change: Change) {
        let (kind, name) = change.key.clone();
        let key = ObjectKey {
            namespace: NAMESPACE.to_owned(),
            name: name.clone(),
        };
        let sort = match (&change.object, change.is_listed) {
            (None, _) => Sort::Gone,
            (Some(_), true) => Sort::Listed,
            (Some(_), false) => Sort::Applied,
        };
        let version = change
            .object
            .as_ref()
            .and_then(|object| object["metadata"]["resourceVersion"].as_str())
            .unwrap_or_default()
            .to_owned();
        let notice = Notice {
            key,
            uid: change.uid,
            version,
            change: sort,
        };
        match kind {
            INSTANCES => self.hear_of_instance(name, change.object, &notice),
            ACCOUNTS => self.hear_of_account(name, change.object, &notice),
            SECRETS if self.secrets.note(&notice) => {
                let now = Instant::now();
                for name in self.known_accounts.keys() {
                    self.due.at(Who::Account(name.clone()), now);
                }
                for name in self.known_instances.keys() {
                    self.due.at(Who::Instance(name.clone()), now);
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
        let former = self.known_instances.get(&name).map(|known| {
            use kube::ResourceExt;
            known.uid().unwrap_or_default()
        });
        if let Some(former) = former.filter(|former| *former != notice.uid) {
            self.forget(&former);
        }
        let object = object.and_then(|object| serde_json::from_value::<Instance>(object).ok());
        match object {
            None => {
                self.forget(&notice.uid);
                self.known_instances.remove(&name);
            }
            Some(object) => {
                let version = notice.version.parse().unwrap_or_default();
                let is_born_here = notice.change == Sort::Applied
                    && version > self.born_after.load(Ordering::SeqCst);
                let memories = &self.instances.memories;
                memories.saw(&notice.uid, &notice.key, is_born_here);
                memories.shown(&notice.uid, version);
                let id = object.status.as_ref().and_then(|s| s.id.as_deref());
                let account = Some(object.spec.account_ref.name.as_str());
                self.instances
                    .sessions
                    .roll()
                    .note(&object.metadata, account, id);
                self.known_instances.insert(name.clone(), Arc::new(object));
                self.due.at(Who::Instance(name), Instant::now());
            }
        }
        let names = self.known_instances.keys().cloned().collect();
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }

    fn forget(&self, uid: &str) {
        self.instances.memories.forget(uid);
        self.instances.sessions.leave(&Subject::from(uid));
        self.instances.sessions.roll().gone(uid);
    }

    fn hear_of_account(&mut self, name: String, object: Option<Value>, notice: &Notice) {
        let object = object.and_then(|object| serde_json::from_value::<Account>(object).ok());
        if let Some(object) = object {
            self.accounts.sessions.announce(&notice.key);
            self.known_accounts.insert(name.clone(), Arc::new(object));
            self.due.at(Who::Account(name), Instant::now());
        }
    }
}
