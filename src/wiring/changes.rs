//! Which watch events are edits by a user, and which only show a write of the operator.

use crate::runtime::queue::Priority;
use crate::runtime::watch::{Change, Notice, ObjectKey};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// A digest of the fields that users edit, for each object.
#[derive(Debug, Default)]
pub(super) struct Changes(Mutex<HashMap<ObjectKey, u64>>);

impl Changes {
    /// The urgency of a watch event: [`Priority::Change`] if the object was created, or if its spec, its labels or its
    /// deletion changed since the last event.
    pub(super) fn priority(&self, notice: &Notice) -> Option<Priority> {
        let mut digests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if notice.change == Change::Gone {
            digests.remove(&notice.key);
            return None;
        }
        let former = digests.insert(notice.key.clone(), notice.written);
        // An object in an initial list may be older than this process.
        let is_known =
            former == Some(notice.written) || (former.is_none() && notice.change == Change::Listed);
        (!is_known).then_some(Priority::Change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::names::BINDING;
    use kube::api::ObjectMeta;
    use serde_json::{Value, json};

    #[test]
    fn edits_of_users_are_changes_and_writes_of_the_operator_are_not() {
        let changes = Changes::default();
        let shown = |change: Change, meta: Value| {
            let mut whole = json!({"name": "web", "namespace": "team", "uid": "u"});
            if let (Some(all), Value::Object(more)) = (whole.as_object_mut(), meta) {
                all.extend(more);
            }
            let meta: ObjectMeta = serde_json::from_value(whole).unwrap();
            changes.priority(&Notice::of(&meta, change)).is_some()
        };
        let of = |generation: i64, record: &str| json!({"generation": generation, "resourceVersion": record, "annotations": {BINDING: record}});
        assert!(!shown(Change::Listed, of(1, "a")), "an initial list");
        assert!(!shown(Change::Applied, of(1, "b")), "our record");
        assert!(shown(Change::Applied, of(2, "b")), "the spec");
        assert!(!shown(Change::Listed, of(2, "b")), "a relist");
        assert!(shown(Change::Listed, of(3, "b")), "missed by the watch");
        let label = json!({"generation": 3, "labels": {"team.example/note": "x"}});
        assert!(shown(Change::Applied, label), "a label of a user");
        let deleted = json!({"generation": 3, "deletionTimestamp": "2026-11-21T15:34:43Z"});
        assert!(shown(Change::Applied, deleted), "the deletion");
    }

    #[test]
    fn a_new_object_is_a_change_even_under_a_former_name() {
        let changes = Changes::default();
        let notice = |change| Notice::of(&ObjectMeta::default(), change);
        assert!(changes.priority(&notice(Change::Applied)).is_some());
        assert!(changes.priority(&notice(Change::Gone)).is_none());
        assert!(changes.0.lock().unwrap().is_empty());
        assert!(changes.priority(&notice(Change::Applied)).is_some());
    }
}
