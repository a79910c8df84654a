//! The parts of a kube-apiserver that the operator relies on, in memory: optimistic locking, generations, finalizers, the
//! status subresource, patches with tests, and watches that may be late. Its behaviour was observed on a real apiserver.

use cloud_server_operator::api::conditions;
use json_patch::{Patch, merge, patch};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A kind and a name. The name of an object outside of [`NAMESPACE`] is prefixed with its namespace: `team-b/web-1`.
pub type Key = (&'static str, String);

/// Namespace and name in the second part of a key.
pub fn place(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or((NAMESPACE, name))
}

/// The second part of the key of an object with this namespace and name.
pub fn name_in(namespace: &str, name: &str) -> String {
    if namespace == NAMESPACE {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

/// Whether the object belongs to a neighbour: see `universe::neighbours`.
pub fn is_neighbours(name: &str) -> bool {
    name.contains('/')
}

/// A kind that the model stores.
pub const INSTANCES: &str = "instances";
/// See [`INSTANCES`].
pub const ACCOUNTS: &str = "accounts";
/// See [`INSTANCES`].
pub const SECRETS: &str = "secrets";
/// The namespace that a run judges.
pub const NAMESPACE: &str = "team-a";

/// The status that an object has by the defaults of the schema until the first write.
pub fn unwritten(kind: &str) -> Value {
    let mut status = conditions::unwritten();
    if kind == INSTANCES {
        status["attempt"] = json!(0);
    }
    status
}

/// A change that watches deliver.
#[derive(Clone, Debug)]
pub struct Change {
    /// Which object.
    pub key: Key,
    /// Its new state; none if it was deleted.
    pub object: Option<Value>,
    /// Its UID.
    pub uid: String,
    /// Whether it comes from a listing, not from a watch event.
    pub is_listed: bool,
}

/// The HTTP status of a refused request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub u16);

/// The form of a patch.
#[derive(Clone, Debug)]
pub enum Edit {
    /// A JSON merge patch (RFC 7396).
    Merge(Value),
    /// A JSON patch (RFC 6902).
    Json(Value),
}

/// All objects.
#[derive(Clone, Debug, Default)]
pub struct Apiserver {
    /// The objects of the judged namespace.
    objects: BTreeMap<Key, Value>,
    /// The objects of neighbours, which may be many more.
    neighbours: BTreeMap<Key, Value>,
    version: u64,
    uids: u64,
    changes: Vec<Change>,
}

impl Apiserver {
    /// Every object, in the form of a listing.
    pub fn listing(&self) -> Vec<Change> {
        let all = self.objects.iter().chain(&self.neighbours);
        all.map(|(key, object)| Change {
            key: key.clone(),
            uid: uid(object),
            object: Some(object.clone()),
            is_listed: true,
        })
        .collect()
    }

    /// The changes since the last call.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// The resourceVersion of the newest change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// An object.
    pub fn get(&self, key: &Key) -> Option<&Value> {
        self.map_of(key).get(key)
    }

    /// Every object of the judged namespace.
    pub fn all(&self) -> impl Iterator<Item = (&Key, &Value)> {
        self.objects.iter()
    }

    /// Every object of the neighbours.
    pub fn all_of_neighbours(&self) -> impl Iterator<Item = (&Key, &Value)> {
        self.neighbours.iter()
    }

    fn map_of(&self, key: &Key) -> &BTreeMap<Key, Value> {
        if is_neighbours(&key.1) {
            &self.neighbours
        } else {
            &self.objects
        }
    }

    fn map_of_mut(&mut self, key: &Key) -> &mut BTreeMap<Key, Value> {
        if is_neighbours(&key.1) {
            &mut self.neighbours
        } else {
            &mut self.objects
        }
    }

    /// Creates an object, unless the name exists.
    pub fn create(&mut self, key: &Key, mut object: Value) {
        if self.get(key).is_some() {
            return;
        }
        self.uids += 1;
        let meta = &mut object["metadata"];
        meta["uid"] = json!(format!("uid-{}", self.uids));
        let (namespace, name) = place(&key.1);
        meta["name"] = json!(name);
        meta["namespace"] = json!(namespace);
        meta["generation"] = json!(1);
        match key.0 {
            INSTANCES | ACCOUNTS => object["status"] = unwritten(key.0),
            _ => {}
        }
        let conditions = object["status"]["conditions"].as_array_mut();
        if let Some(conditions) = conditions.filter(|_| !is_neighbours(&key.1)) {
            conditions.push(others_condition("new"));
        }
        self.put(key, object);
    }

    /// A process creates an object.
    ///
    /// # Errors
    /// 409: the name exists.
    pub fn make(&mut self, key: &Key, object: Value) -> Result<Value, Refused> {
        if self.get(key).is_some() {
            return Err(Refused(409));
        }
        self.create(key, object);
        self.get(key).cloned().ok_or(Refused(500))
    }

    /// Deletes objects whose owner is gone. Returns whether there were any.
    pub fn collect_garbage(&mut self) -> bool {
        let uids: Vec<String> = self.all().map(|(_, object)| uid(object)).collect();
        let is_orphan = |object: &Value| {
            let owners = object["metadata"]["ownerReferences"].as_array();
            let mut owners = owners.into_iter().flatten();
            owners.any(|owner| uids.iter().all(|uid| owner["uid"] != uid.as_str()))
        };
        let orphans: Vec<(Key, Value)> = self
            .all()
            .filter(|(_, object)| is_orphan(object))
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        for (key, object) in &orphans {
            self.remove(key, object);
        }
        !orphans.is_empty()
    }

    /// A user changes an object in any way; a change of spec increments the generation.
    pub fn edit(&mut self, key: &Key, change: impl FnOnce(&mut Value)) {
        let Some(former) = self.get(key).cloned() else {
            return;
        };
        let mut next = former.clone();
        change(&mut next);
        self.replace(key, &former, next);
    }

    /// A user deletes an object: at once, or once its finalizers are removed.
    pub fn delete(&mut self, key: &Key) {
        let Some(former) = self.get(key).cloned() else {
            return;
        };
        if former["metadata"]["deletionTimestamp"].is_string() {
            return;
        }
        if finalizers(&former).is_empty() {
            self.remove(key, &former);
            return;
        }
        let mut next = former.clone();
        next["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        // As a real apiserver does.
        let generation = former["metadata"]["generation"].as_i64().unwrap_or(0);
        next["metadata"]["generation"] = json!(generation + 1);
        self.replace(key, &former, next);
    }

    /// Applies one patch to the object or to its status.
    ///
    /// # Errors
    /// 404, 409 (UID or resourceVersion), 422 (a failed test, a finalizer added during a deletion).
    pub fn patch(&mut self, key: &Key, is_status: bool, edit: &Edit) -> Result<Value, Refused> {
        let former = self.get(key).cloned().ok_or(Refused(404))?;
        let mut next = former.clone();
        match edit {
            Edit::Merge(change) => {
                for field in ["uid", "resourceVersion"] {
                    let requested = &change["metadata"][field];
                    if !requested.is_null() && *requested != former["metadata"][field] {
                        return Err(Refused(409));
                    }
                }
                merge(&mut next, change);
            }
            Edit::Json(operations) => {
                let operations: Patch =
                    serde_json::from_value(operations.clone()).map_err(|_| Refused(400))?;
                patch(&mut next, &operations).map_err(|_| Refused(422))?;
            }
        }
        // Each endpoint changes only its own half.
        if is_status {
            let types = types(&next);
            // The list is a map by type.
            if types.iter().collect::<BTreeSet<_>>().len() < types.len() {
                return Err(Refused(422));
            }
            let status = next["status"].take();
            next = former.clone();
            next["status"] = status;
        } else {
            next["status"] = former["status"].clone();
        }
        let adds = finalizers(&next)
            .iter()
            .any(|finalizer| !finalizers(&former).contains(finalizer));
        if adds && former["metadata"]["deletionTimestamp"].is_string() {
            return Err(Refused(422));
        }
        self.replace(key, &former, next);
        Ok(self.get(key).cloned().unwrap_or(former))
    }

    /// Restores the whole state from a backup of the store.
    pub fn restore(&mut self, backup: &Self) {
        let uids = self.uids;
        let before = self.objects.iter().chain(&self.neighbours);
        let before: Vec<(Key, String)> = before
            .map(|(key, object)| (key.clone(), uid(object)))
            .collect();
        *self = backup.clone();
        // UIDs are random, so none is ever assigned again.
        self.uids = uids;
        self.changes = self.listing();
        for (key, uid) in before {
            if self.get(&key).is_none() {
                self.changes.push(Change {
                    key,
                    object: None,
                    uid,
                    is_listed: true,
                });
            }
        }
    }

    fn replace(&mut self, key: &Key, former: &Value, mut next: Value) {
        if next["spec"] != former["spec"] {
            let generation = former["metadata"]["generation"].as_i64().unwrap_or(0);
            next["metadata"]["generation"] = json!(generation + 1);
        }
        for field in ["uid", "resourceVersion", "name", "namespace"] {
            next["metadata"][field] = former["metadata"][field].clone();
        }
        if next == *former {
            return;
        }
        if next["metadata"]["deletionTimestamp"].is_string() && finalizers(&next).is_empty() {
            self.remove(key, former);
        } else {
            self.put(key, next);
        }
    }

    fn put(&mut self, key: &Key, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.changes.push(Change {
            key: key.clone(),
            uid: uid(&object),
            object: Some(object.clone()),
            is_listed: false,
        });
        self.map_of_mut(key).insert(key.clone(), object);
    }

    fn remove(&mut self, key: &Key, former: &Value) {
        self.version += 1;
        self.map_of_mut(key).remove(key);
        self.changes.push(Change {
            key: key.clone(),
            uid: uid(former),
            object: None,
            is_listed: false,
        });
    }
}

/// The UID of an object.
pub fn uid(object: &Value) -> String {
    object["metadata"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// The type of the condition that another controller sets on each object.
pub const OTHERS_TYPE: &str = "example.com/Paid";

/// The condition of another controller, with this message.
pub fn others_condition(message: &str) -> Value {
    json!({
        "type": OTHERS_TYPE, "status": "True", "reason": "Paid", "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00.5+01:00",
    })
}

/// The conditions of other controllers.
pub fn others_conditions(object: &Value) -> Vec<&Value> {
    let all = object["status"]["conditions"].as_array();
    let others = all.into_iter().flatten();
    others
        .filter(|condition| condition["type"] == OTHERS_TYPE)
        .collect()
}

/// The types of the conditions of an object.
fn types(object: &Value) -> Vec<String> {
    let all = object["status"]["conditions"].as_array();
    let types = all.into_iter().flatten();
    types
        .map(|condition| condition["type"].to_string())
        .collect()
}

/// The finalizers of an object.
pub fn finalizers(object: &Value) -> Vec<&str> {
    let all = object["metadata"]["finalizers"].as_array();
    all.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}
