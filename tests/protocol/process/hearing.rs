//! Converts the changes of the apiserver in memory to watch events, and gives them to the operator's own handlers.

use super::Running;
use crate::apiserver::{ACCOUNTS, Change, INSTANCES, SECRETS, place};
use cloud_server_operator::api::{Account, Instance};
use cloud_server_operator::runtime::watch::{Change as Sort, Notice};
use kube::Resource;
use kube::api::ObjectMeta;
use kube::core::DeserializeGuard;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;

impl Running {
    /// Handles one change of one object, which a watch or its initial list shows.
    pub(super) fn hear(&self, change: Change) {
        let (kind, name) = change.key;
        let notice = notice(&name, change.uid, change.object.as_ref(), change.is_listed);
        match kind {
            INSTANCES => {
                let object = change.object.map(guarded);
                self.hear_of_instance(name, object, &notice);
            }
            // The watches of these kinds are of one shard.
            _ if !self.link.shard().owns(&notice.key.namespace) => {}
            ACCOUNTS => {
                let object = change.object.map(guarded);
                self.hear_of_account(name, object, &notice);
            }
            SECRETS => self.feed.secret(&notice),
            _ => {}
        }
    }

    fn hear_of_instance(
        &self,
        name: String,
        object: Option<DeserializeGuard<Instance>>,
        notice: &Notice,
    ) {
        let mut former = None;
        match object {
            None => drop(self.known().instances.remove(&name)),
            Some(object) => {
                if self.feed.instance_shown(&notice.key, &notice.uid, &object)
                    && let Ok(instance) = object.0
                {
                    former = self.known().instances.insert(name, Arc::new(instance));
                }
            }
        }
        // As the real watch does: an object whose name has a new owner is gone, and that comes after the store has the new one.
        let former = former.and_then(|former| former.meta().uid.clone());
        if let Some(uid) = former.filter(|uid| **uid != *notice.uid) {
            let meta = ObjectMeta {
                namespace: Some(notice.key.namespace.clone()),
                name: Some(notice.key.name.clone()),
                uid: Some(uid),
                ..ObjectMeta::default()
            };
            self.feed.instance(&Notice::of(&meta, Sort::Gone));
        }
        self.feed.instance(notice);
    }

    fn hear_of_account(
        &self,
        name: String,
        object: Option<DeserializeGuard<Account>>,
        notice: &Notice,
    ) {
        match object {
            None => drop(self.known().accounts.remove(&name)),
            Some(object) => {
                self.feed.account_shown(&notice.key, &object);
                if let Ok(account) = object.0 {
                    self.known().accounts.insert(name, Arc::new(account));
                }
            }
        }
        self.feed.account(notice);
    }
}

fn notice(name: &str, uid: String, object: Option<&Value>, is_listed: bool) -> Notice {
    let sort = match (object, is_listed) {
        (None, _) => Sort::Gone,
        (Some(_), true) => Sort::Listed,
        (Some(_), false) => Sort::Applied,
    };
    let (namespace, called) = place(name);
    let mut meta = ObjectMeta {
        name: Some(called.to_owned()),
        namespace: Some(namespace.to_owned()),
        ..ObjectMeta::default()
    };
    if let Some(object) = object {
        meta = serde_json::from_value(object["metadata"].clone()).unwrap();
    }
    meta.uid = Some(uid);
    Notice::of(&meta, sort)
}

fn guarded<K: Resource + DeserializeOwned>(object: Value) -> DeserializeGuard<K> {
    match K::deserialize(&object) {
        Ok(object) => DeserializeGuard(Ok(object)),
        // With the error and the metadata, as the real watch has it.
        Err(_) => serde_json::from_value(object).unwrap(),
    }
}
